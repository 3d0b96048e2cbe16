"""The papers' way of training beside the exact one: seconds to the same validation NDCG@20.

    python benchmarks/sampled_or_exact.py [--json] [--data NAME] [--share S] [--limit SECONDS]

The papers draw N = 1000 negatives for each pair, in batches of 1024 pairs; the exact way scores the whole catalogue for
batches of users. Both train MF with SL@20 under the published settings of Health; the mark is a share of the best that
the exact way reaches. Validation is not counted.
"""

from __future__ import annotations

import torch

from _common import DATA, made, parser, show
from shortlist.data import LoadOptions, Split, load
from shortlist.losses import SLAtK
from shortlist.metrics import evaluate
from shortlist.models import MF
from shortlist.training import OptimizerSettings, Training, TrainingSettings


def curve(split: Split, settings: TrainingSettings, lr: float, mark: float, limit: float) -> list[tuple[float, float]]:
    """Seconds and validation NDCG@20 after each epoch, until the mark is reached or time is up."""
    model, points = MF(), []
    training = Training(
        model,
        SLAtK(k=20, tau=0.2, tau_w=2.5, weight="published", positive_weight=1.0),
        split.train,
        training=settings,
        optimizer=OptimizerSettings(lr=lr, schedule="constant"),
    )
    valid = split.valid
    assert valid is not None
    while training.progress.epoch < settings.epochs and training.progress.seconds < limit:
        training.epoch()
        model.eval()
        value = evaluate(model, valid, [split.train], [20], metrics=["ndcg"]).means()["ndcg@20"]
        points.append((training.progress.seconds, value))
        if value >= mark:
            break
    return points


def measure(name: str, share: float, limit: float) -> dict[str, object]:
    """Both ways to the same mark."""
    folder = DATA / name
    split = load(folder, LoadOptions(protocol="irbenchmark")) if folder.exists() else made(1974, 1200, 24)
    exact = curve(split, TrainingSettings(epochs=80, candidates="all"), 0.01, 1.0, limit)
    mark = share * max(value for _, value in exact)
    exact_s = next(took for took, value in exact if value >= mark)
    sampled = curve(split, TrainingSettings(epochs=200, candidates="pairs", negatives=1000), 0.01, mark, limit)
    took, value = sampled[-1]
    reached = value >= mark
    return {
        "data": name if folder.exists() else "made",
        "mark_ndcg@20": round(mark, 4),
        "exact_seconds": round(exact_s, 2),
        "exact_epoch_seconds": round(exact[-1][0] / len(exact), 3),
        "sampled_seconds": round(took, 2) if reached else f"not in {took:.0f} (reached {value:.4f})",
        "sampled_epoch_seconds": round(took / len(sampled), 3),
        "sampled_epochs": len(sampled),
        "ratio": round(took / exact_s, 1),
    }


def main() -> None:
    arguments = parser("Sampled pairs, or the whole catalogue: seconds to the same validation figure.")
    arguments.add_argument("--data", default="amazon2014-health", help="name of the set")
    arguments.add_argument("--share", type=float, default=0.98, help="share of the exact way's best that is the mark")
    arguments.add_argument("--limit", type=float, default=900.0, help="seconds after which a way is given up")
    chosen = arguments.parse_args()
    torch.set_num_threads(chosen.threads)
    show(measure(chosen.data, chosen.share, chosen.limit), chosen.json)


if __name__ == "__main__":
    main()
