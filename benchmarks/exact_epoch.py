"""An exact epoch of SL@K on Gowalla, against the three matrix products that it cannot do without.

    python benchmarks/exact_epoch.py [--json] [--cycles N] [--batch USERS] [--threads N]

Everything counts: batches, vectors, loss, thresholds, optimiser. Thresholds are refreshed in every fifth epoch, so that
a cycle is five epochs; floor and epochs take turns. Wanted: at most 1.5 times the floor.
"""

from __future__ import annotations

import statistics

import torch

from _common import gowalla, memory_mb, parser, seconds, show
from shortlist.losses import SLAtK
from shortlist.models import MF
from shortlist.training import OptimizerSettings, Training, TrainingSettings


def products(n_users: int, n_items: int, batch: int, dim: int = 64) -> None:
    """Scores, gradient of the users, gradient of the items: a product each, for every batch of users."""
    users_RD, items_ID = torch.rand(batch, dim), torch.rand(n_items, dim)
    score_RI, grad_RD, grad_ID = torch.empty(batch, n_items), torch.empty(batch, dim), torch.empty(n_items, dim)

    def step(rows: int) -> None:
        torch.mm(users_RD[:rows], items_ID.T, out=score_RI[:rows])
        torch.mm(score_RI[:rows], items_ID, out=grad_RD[:rows])
        torch.mm(score_RI[:rows].T, users_RD[:rows], out=grad_ID)

    for start in range(0, n_users, batch):
        step(min(batch, n_users - start))


def measure(cycles: int, batch: int) -> dict[str, object]:
    """Turns of a floor epoch and a real one."""
    name, split = gowalla()
    train = split.train
    loss = SLAtK(k=20, tau=0.1, tau_w=1.0, weight="published", positive_weight=1.0, refresh=5)
    settings = TrainingSettings(epochs=5 * cycles + 1, batch=batch)
    training = Training(MF(), loss, train, training=settings, optimizer=OptimizerSettings())
    products(train.n_users, train.n_items, batch)  # warm up both
    training.epoch()
    floor_s, epoch_s = [], []
    for _ in range(5 * cycles):
        floor_s.append(seconds(lambda: products(train.n_users, train.n_items, batch)))
        epoch_s.append(seconds(training.epoch))
    refresh_s = [s for number, s in enumerate(epoch_s, start=2) if number % loss.refresh == 0]
    plain_s = [s for number, s in enumerate(epoch_s, start=2) if number % loss.refresh]
    floor = statistics.median(floor_s)
    epoch = (4 * statistics.median(plain_s) + statistics.median(refresh_s)) / 5
    return {
        "data": name,
        "batch": batch,
        "threads": torch.get_num_threads(),
        "epochs": len(epoch_s),
        "floor_seconds": round(floor, 3),
        "measured_seconds": round(epoch, 3),
        "ratio": round(epoch / floor, 3),
        "plain_epoch_seconds": round(statistics.median(plain_s), 3),
        "refresh_epoch_seconds": round(statistics.median(refresh_s), 3),
        "peak_memory_mb": round(memory_mb(), 1),
    }


def main() -> None:
    arguments = parser("An exact epoch of SL@K on Gowalla, and its three bare matrix products.")
    arguments.add_argument("--cycles", type=int, default=3, help="cycles of five epochs")
    arguments.add_argument("--batch", type=int, default=256, help="users in a step")
    chosen = arguments.parse_args()
    torch.set_num_threads(chosen.threads)
    show(measure(chosen.cycles, chosen.batch), chosen.json)


if __name__ == "__main__":
    main()
