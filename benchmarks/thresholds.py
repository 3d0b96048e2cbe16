"""How far estimated Top-K thresholds lie from the exact ones, and what they cost (SL@K's Figure 2b).

    python benchmarks/thresholds.py [--json] [--epochs N] [--k K] [--data NAME]

A model is trained with SL@K first; then every estimator looks at N items of the catalogue. The published figure is a
mean error of 0.06 at N = 1000 on Electronic for the estimator that keeps the positives. "exact" is the floor of the
error and, since it scores the whole catalogue, the measure of the cost.
"""

from __future__ import annotations

import torch

from _common import DATA, made, parser, seconds, show
from shortlist.data import LoadOptions, load
from shortlist.losses import SLAtK
from shortlist.models import MF
from shortlist.scores import Workspace
from shortlist.thresholds import Thresholds
from shortlist.thresholds.estimators import ESTIMATORS
from shortlist.training import OptimizerSettings, Training, TrainingSettings
from shortlist.training.batches import score_table, user_step

SAMPLES = (100, 300, 1000, 3000)


def trained(name: str, k: int, epochs: int) -> Training:
    """A model after some epochs of SL@K."""
    folder = DATA / name
    split = load(folder, LoadOptions(protocol="irbenchmark")) if folder.exists() else made(13_455, 8_360, 17)
    loss = SLAtK(k=k, tau=0.2, tau_w=2.25, weight="published", pull=1.0)
    settings = TrainingSettings(epochs=epochs)
    training = Training(MF(), loss, split.train, training=settings, optimizer=OptimizerSettings())
    training.run()
    return training


@torch.no_grad()
def estimated(training: Training, estimator: str, k: int, samples: int) -> torch.Tensor:
    """The thresholds of all users by one estimator."""
    train, workspace = training.train, Workspace()
    keeper = Thresholds(train.n_users, train.n_items, k, estimator=estimator, samples=samples)  # type: ignore[arg-type]
    factors, generator = training.model.factors(), torch.Generator().manual_seed(0)
    users = training.batches.active_users
    for start in range(0, len(users), 256):
        step = user_step(train, users[start : start + 256])
        keeper.update(step.user_R, score_table(step, factors, workspace), generator)
    return keeper.read(torch.from_numpy(users))


def measure(name: str, k: int, epochs: int) -> dict[str, object]:
    """Error and cost of each estimator."""
    training = trained(name, k, epochs)
    exact_s = seconds(lambda: estimated(training, "exact", k, 1))
    exact = estimated(training, "exact", k, 1)
    result: dict[str, object] = {
        "data": name if (DATA / name).exists() else "made",
        "k": k,
        "epochs": epochs,
        "threshold_mean": round(float(exact.mean()), 4),
        "threshold_deviation": round(float(exact.std()), 4),
        "floor_seconds": round(exact_s, 4),
    }
    for estimator in (each for each in ESTIMATORS if each not in {"auto", "exact"}):
        for samples in SAMPLES:
            error = (estimated(training, estimator, k, samples) - exact).abs().mean()
            took = seconds(lambda e=estimator, n=samples: estimated(training, e, k, n))  # type: ignore[misc]
            result[f"{estimator} N={samples}"] = {
                "mean_error": round(float(error), 4),
                "measured_seconds": round(took, 4),
                "ratio": round(took / exact_s, 3),
            }
    return result


def main() -> None:
    arguments = parser("Errors of estimated Top-K thresholds, and their cost.")
    arguments.add_argument("--epochs", type=int, default=20, help="epochs of SL@K before anything is measured")
    arguments.add_argument("--k", type=int, default=20, help="K")
    arguments.add_argument("--data", default="amazon2014-electronic", help="name of the set")
    chosen = arguments.parse_args()
    torch.set_num_threads(chosen.threads)
    show(measure(chosen.data, chosen.k, chosen.epochs), chosen.json)


if __name__ == "__main__":
    main()
