"""Sums over all pairs of a positive and an item, from moments of each row, against a look at every pair.

    python benchmarks/pair_sums.py [--json] [--users N] [--turns N] [--threads N]

PSL's value and gradient for users of Gowalla with their positives, over the whole catalogue, both ways in turns; random
unit vectors, with those of a user drawn towards the user's items. Beside it the three bare products without which
neither can do. Wanted: the moments at most a fifth of the pairs, with a difference that is that of single floats.
"""

from __future__ import annotations

import statistics

import torch
from torch import Tensor
from torch.nn import functional as F

from _common import gowalla, parser, seconds, show
from exact_epoch import products
from shortlist.losses import PSL
from shortlist.scores import FactoredTable, Workspace
from shortlist.training.malloc import tune_malloc

BOUND, DIM = 0.5, 64


def vectors(n_users: int, n_items: int, row_P: Tensor, item_P: Tensor) -> tuple[Tensor, Tensor]:
    """Unit vectors of users, and of items at half the length."""
    generator = torch.Generator().manual_seed(0)
    item_ID = F.normalize(torch.randn(n_items, DIM, generator=generator), dim=1)
    user_RD = torch.randn(n_users, DIM, generator=generator).index_add_(0, row_P, item_ID[item_P])
    return F.normalize(user_RD, dim=1).requires_grad_(), item_ID.mul_(BOUND).requires_grad_()


def measure(users: int, turns: int) -> dict[str, object]:
    """Turns of both ways and of the bare products."""
    tune_malloc()
    name, split = gowalla()
    train = split.train
    chosen = train.user_counts().argsort(kind="stable")[:: max(1, train.n_users // users)][:users]  # few items and many
    place_P, pair_P = train.positions_of(chosen)
    row_P, item_P = torch.from_numpy(place_P).long(), torch.from_numpy(train.indices[pair_P]).long()
    user_RD, item_ID = vectors(len(chosen), train.n_items, row_P, item_P)
    loss, workspace = PSL(tau=0.05), Workspace()

    def value_and_gradients(bound: float | None) -> list[Tensor]:
        table = FactoredTable(user_RD, item_ID, row_P=row_P, column_P=item_P, bound=bound, workspace=workspace)
        value = loss(table)
        return [value.detach(), *torch.autograd.grad(value, (user_RD, item_ID))]

    spent: dict[str, list[float]] = {"moments": [], "pairs": [], "products": []}
    by_moments, by_pairs = value_and_gradients(BOUND), value_and_gradients(None)  # which warms up both
    for _ in range(turns):
        spent["moments"].append(seconds(lambda: value_and_gradients(BOUND)))
        spent["pairs"].append(seconds(lambda: value_and_gradients(None)))
        spent["products"].append(seconds(lambda: products(len(chosen), train.n_items, len(chosen), DIM)))
    median = {way: statistics.median(each) for way, each in spent.items()}
    apart = max(float((a - b).abs().amax() / b.abs().amax()) for a, b in zip(by_moments, by_pairs, strict=True))
    return {
        "data": name,
        "users": len(chosen),
        "positives": len(row_P),
        "threads": torch.get_num_threads(),
        "floor_seconds": round(median["pairs"], 4),
        "measured_seconds": round(median["moments"], 4),
        "ratio": round(median["moments"] / median["pairs"], 4),
        "products_seconds": round(median["products"], 4),
        "times_the_products": round(median["moments"] / median["products"], 2),
        "largest_relative_difference": apart,
    }


def main() -> None:
    arguments = parser("Sums over pairs from moments of each row, and from every pair.")
    arguments.add_argument("--users", type=int, default=256, help="users in a step")
    arguments.add_argument("--turns", type=int, default=5, help="how often each way is measured")
    chosen = arguments.parse_args()
    torch.set_num_threads(chosen.threads)
    show(measure(chosen.users, chosen.turns), chosen.json)


if __name__ == "__main__":
    main()
