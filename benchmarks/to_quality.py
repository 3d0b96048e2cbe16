"""How long training takes to reach the published figure of SL on Gowalla, in epochs of bare matrix products.

    python benchmarks/to_quality.py [--json] [--epochs N] [--lr RATE] [--batch USERS] [--mark NDCG]

From the start of training, thresholds and optimiser included and validation left out, until the test NDCG@20 is at the
mark. The schedule is fixed beforehand; its length is what is chosen. Wanted: at most 20 times the three bare products
of an epoch.
"""

from __future__ import annotations

import statistics

import torch

from _common import gowalla, parser, seconds, show
from exact_epoch import products
from shortlist.losses import SLAtK
from shortlist.metrics import evaluate
from shortlist.models import MF
from shortlist.training import OptimizerSettings, Progress, Training, TrainingSettings


def measure(mark: float, epochs: int, lr: float, batch: int) -> dict[str, object]:
    """Train to the end of the schedule; what was reached when."""
    name, split = gowalla()
    train, test = split.train, split.test
    assert test is not None
    floor = statistics.median(seconds(lambda: products(train.n_users, train.n_items, batch)) for _ in range(3))
    model, curve = MF(), []
    training = Training(
        model,
        SLAtK(k=20, tau=0.1, tau_w=1.0, weight="published", positive_weight=1.0),
        train,
        training=TrainingSettings(epochs=epochs, batch=batch),
        optimizer=OptimizerSettings(lr=lr, schedule="linear"),
    )

    def after(progress: Progress) -> None:
        if progress.epoch < epochs - 3:
            return
        model.eval()
        ndcg = evaluate(model, test, [train], [20], metrics=["ndcg"]).means()["ndcg@20"]
        curve.append((progress.epoch, progress.seconds, ndcg))

    training.run(on_epoch=after)
    reached = next(((epoch, took) for epoch, took, ndcg in curve if ndcg >= mark), None)
    return {
        "data": name,
        "mark": mark,
        "batch": batch,
        "lr": lr,
        "schedule_epochs": epochs,
        "floor_seconds": round(floor, 3),
        "reached_in_epoch": reached[0] if reached else None,
        "measured_seconds": round(reached[1], 2) if reached else None,
        "ratio": round(reached[1] / floor, 2) if reached else None,
        "ndcg@20": round(curve[-1][2], 4),
    }


def main() -> None:
    arguments = parser("Seconds to the published NDCG@20 of SL on Gowalla.")
    arguments.add_argument("--mark", type=float, default=0.1624, help="the test NDCG@20 to reach")
    arguments.add_argument("--epochs", type=int, default=12, help="length of the schedule")
    arguments.add_argument("--lr", type=float, default=0.04)
    arguments.add_argument("--batch", type=int, default=512)
    chosen = arguments.parse_args()
    torch.set_num_threads(chosen.threads)
    show(measure(chosen.mark, chosen.epochs, chosen.lr, chosen.batch), chosen.json)


if __name__ == "__main__":
    main()
