"""How long all metrics at K take for factors of the size of Gowalla, against the bare matrix products.

    python benchmarks/evaluation.py [--json] [--repeats N] [--threads N]

The products are the floor: no evaluation over the full catalogue can do without them. They are made in several ways, of
which the fastest counts. Floor and evaluation take turns in one run, and the ratio is that of their medians. Wanted: a
ratio of at most 2, and at most 600 MB above the factors. Without the real set one of the same size is made.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import torch
from scipy import sparse
from torch import Tensor

from _common import forget_peak, gowalla, memory_mb, parser, seconds, show
from shortlist.data import IntArray, Interactions
from shortlist.metrics import KS, evaluate

D = 64
BLOCK_ROWS = (64, 256, 1024)


@dataclass(frozen=True)
class Factors:
    """The scorer that is measured: the product of user and item vectors."""

    user_UD: Tensor
    item_ID: Tensor

    @property
    def n_items(self) -> int:
        return len(self.item_ID)

    def score(self, queries: IntArray, out: Tensor | None = None) -> Tensor:
        return torch.mm(self.user_UD[torch.from_numpy(queries)], self.item_ID.T, out=out)


def factorise(train: Interactions, d: int = D, seed: int = 0) -> Factors:
    """A rough truncated SVD (random projections, two power steps), so that the lists are those of a real model."""
    shape = (train.n_users, train.n_items)
    met_UI = sparse.csr_array((np.ones(train.n_pairs, np.float32), train.indices, train.indptr), shape=shape)
    item_ID = np.random.default_rng(seed).standard_normal((train.n_items, d), np.float32)
    for _ in range(3):
        item_ID = np.linalg.qr(np.asarray(met_UI.T @ (met_UI @ item_ID)))[0]
    return Factors(torch.from_numpy(met_UI @ item_ID), torch.from_numpy(np.ascontiguousarray(item_ID)))


def shared_products(factors: Factors, rows: int) -> Callable[[], None]:
    """Every score once, in blocks of so many rows into one buffer, all threads sharing each product."""
    buffer = torch.empty(rows, factors.n_items)

    def run() -> None:
        for users_RD in torch.split(factors.user_UD, rows):
            torch.mm(users_RD, factors.item_ID.T, out=buffer[: len(users_RD)])

    return run


def separate_products(factors: Factors, rows: int) -> Callable[[], None]:
    """The same with a product to each thread, as the evaluation works: it must not gain by the arrangement alone."""
    n_threads = torch.get_num_threads()
    buffers = [torch.empty(rows, factors.n_items) for _ in range(n_threads)]
    blocks = torch.split(factors.user_UD, rows)

    def work(thread: int) -> None:
        for users_RD in blocks[thread::n_threads]:
            torch.mm(users_RD, factors.item_ID.T, out=buffers[thread][: len(users_RD)])

    def run() -> None:
        torch.set_num_threads(1)
        try:
            with ThreadPoolExecutor(n_threads) as pool:
                list(pool.map(work, range(n_threads)))
        finally:
            torch.set_num_threads(n_threads)

    return run


def floors_of(factors: Factors) -> dict[str, Callable[[], None]]:
    """The ways to make the bare products, of which the fastest is the floor."""
    arrangements = {"shared": shared_products, "separate": separate_products}
    return {
        f"{name}, {rows} rows": arrange(factors, rows) for name, arrange in arrangements.items() for rows in BLOCK_ROWS
    }


def peak_above(run: Callable[[], object]) -> float:
    """How many MB the process grew at most while it ran (Linux)."""
    forget_peak()
    before = memory_mb("VmRSS")
    run()
    return memory_mb() - before


def measure(repeats: int) -> dict[str, object]:
    name, split = gowalla()
    train, test = split.train, split.test
    assert test is not None
    factors = factorise(train)
    means: dict[str, float] = {}
    users_with_test = int(np.count_nonzero(test.user_counts()))

    def full() -> None:
        means.update(evaluate(factors, test, [train], KS).means())

    peak_mb = peak_above(full)
    floors = floors_of(factors)
    for floor in floors.values():
        floor()
    times = [({name: seconds(floor) for name, floor in floors.items()}, seconds(full)) for _ in range(repeats)]
    medians = {name: statistics.median(floor[name] for floor, _ in times) for name in floors}
    best = min(medians, key=medians.__getitem__)
    floor_s, measured_s = medians[best], statistics.median(measured for _, measured in times)
    return {
        "data": name,
        "users": train.n_users,
        "evaluated_users": users_with_test,
        "items": train.n_items,
        "d": D,
        "metrics": len(means),
        "threads": torch.get_num_threads(),
        "repeats": repeats,
        "floor": best,
        "floor_seconds": round(floor_s, 4),
        "measured_seconds": round(measured_s, 4),
        "ratio": round(measured_s / floor_s, 3),
        "peak_mb_above_factors": round(peak_mb, 1),
        "ndcg@20": round(means["ndcg@20"], 6),
    }


def main() -> None:
    arguments = parser("All metrics at K on factors of Gowalla's size, and the bare products.")
    arguments.add_argument("--repeats", type=int, default=7, help="how often floor and evaluation take turns")
    chosen = arguments.parse_args()
    torch.set_num_threads(chosen.threads)
    show(measure(chosen.repeats), chosen.json)


if __name__ == "__main__":
    main()
