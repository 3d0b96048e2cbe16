"""How long all metrics at K take for factors of the size of Gowalla, against the bare matrix products.

    python benchmarks/evaluation.py [--json] [--repeats N] [--threads N] [--data FOLDER]

The products are the floor: no evaluation over the full catalogue can do without them. Floor and evaluation take turns
in one run, and the ratio is that of their medians. Wanted: a ratio of at most 2, and at most 600 MB above the factors.
Without the real set one of the same size is made.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl
import torch
from scipy import sparse
from torch import Tensor

from shortlist.data import IntArray, Interactions
from shortlist.metrics import KS, evaluate

N_USERS, N_ITEMS, D = 29_858, 40_988, 64
BLOCK_ROWS = (64, 128, 256, 512, 1024)
DATA = Path(os.environ.get("SHORTLIST_DATA", Path(__file__).parents[2] / "shared" / "data")) / "gowalla"


@dataclass(frozen=True)
class Factors:
    """The scorer that is measured: the product of user and item vectors."""

    user_UD: Tensor
    item_ID: Tensor

    @property
    def n_items(self) -> int:
        return len(self.item_ID)

    def score_all(self, users: IntArray, out: Tensor | None = None) -> Tensor:
        return torch.mm(self.user_UD[torch.from_numpy(users)], self.item_ID.T, out=out)


def read(folder: Path) -> tuple[Interactions, Interactions]:
    """Train and test of the real set."""
    frames = [pl.read_parquet(folder / f"{part}.parquet") for part in ("train", "test")]
    n_users, n_items = (1 + max(int(frame[column].to_numpy().max()) for frame in frames) for column in ("user", "item"))
    train, test = (
        Interactions.from_pairs(
            frame["user"].to_numpy(), frame["item"].to_numpy(), user_ids=range(n_users), item_ids=range(n_items)
        )
        for frame in (frame.unique() for frame in frames)
    )
    return train, test


def make(seed: int = 0) -> tuple[Interactions, Interactions]:
    """A set of the same size: popularity falls with rank, some 27 items for training and 7 for testing a user."""
    generator = np.random.default_rng(seed)
    popularity_I = generator.permutation(1 / np.arange(10.0, N_ITEMS + 10))
    users_P = np.repeat(np.arange(N_USERS), 34)
    items_P = generator.choice(N_ITEMS, size=len(users_P), p=popularity_I / popularity_I.sum())
    pairs_P2 = np.unique(np.column_stack([users_P, items_P]), axis=0)
    is_test_P = generator.random(len(pairs_P2)) < 0.2
    train, test = (
        Interactions.from_pairs(*pairs_P2[keep_P].T, user_ids=range(N_USERS), item_ids=range(N_ITEMS))
        for keep_P in (~is_test_P, is_test_P)
    )
    return train, test


def factorise(train: Interactions, d: int = D, seed: int = 0) -> Factors:
    """A rough truncated SVD (random projections, two power steps), so that the lists are those of a real model."""
    shape = (train.n_users, train.n_items)
    met_UI = sparse.csr_array((np.ones(train.n_pairs, np.float32), train.indices, train.indptr), shape=shape)
    item_ID = np.random.default_rng(seed).standard_normal((train.n_items, d), np.float32)
    for _ in range(3):
        item_ID = np.linalg.qr(np.asarray(met_UI.T @ (met_UI @ item_ID)))[0]
    return Factors(torch.from_numpy(met_UI @ item_ID), torch.from_numpy(np.ascontiguousarray(item_ID)))


def products(factors: Factors, rows: int) -> Callable[[], None]:
    """The floor: every score once, in blocks of so many rows, into one buffer."""
    buffer = torch.empty(rows, factors.n_items)

    def run() -> None:
        for users_RD in torch.split(factors.user_UD, rows):
            torch.mm(users_RD, factors.item_ID.T, out=buffer[: len(users_RD)])

    return run


def seconds(run: Callable[[], object]) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def peak_above(run: Callable[[], object]) -> float:
    """How many MB the process grew at most while it ran (Linux)."""
    ctypes.CDLL(None).malloc_trim(0)  # else what was freed before would be used again, unseen
    before = memory("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # forget the peak so far
    run()
    return memory("VmHWM") - before


def memory(field: str) -> float:
    def lines() -> Iterator[str]:
        return (line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith(field))

    return int(next(lines()).split()[1]) / 1000


def measure(repeats: int, folder: Path) -> dict[str, object]:
    train, test = read(folder) if folder.exists() else make()
    factors = factorise(train)
    means: dict[str, float] = {}
    users_with_test = int(np.count_nonzero(test.user_counts()))

    def full() -> None:
        means.update(evaluate(factors, test, [train], KS).means())

    peak_mb = peak_above(full)
    floors = {rows: products(factors, rows) for rows in BLOCK_ROWS}
    for floor in floors.values():
        floor()
    best_rows = min(floors, key=lambda rows: statistics.median(seconds(floors[rows]) for _ in range(3)))
    times = [(seconds(floors[best_rows]), seconds(full)) for _ in range(repeats)]
    floor_s, measured_s = (statistics.median(side) for side in zip(*times, strict=True))
    return {
        "data": "gowalla" if folder.exists() else "made",
        "users": train.n_users,
        "evaluated_users": users_with_test,
        "items": train.n_items,
        "d": D,
        "metrics": len(means),
        "threads": torch.get_num_threads(),
        "repeats": repeats,
        "floor_block_rows": best_rows,
        "floor_seconds": round(floor_s, 4),
        "measured_seconds": round(measured_s, 4),
        "ratio": round(measured_s / floor_s, 3),
        "peak_mb_above_factors": round(peak_mb, 1),
        "ndcg@20": round(means["ndcg@20"], 6),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="All metrics at K on factors of Gowalla's size; the bare products.")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--repeats", type=int, default=7, help="how often floor and evaluation take turns")
    parser.add_argument("--threads", type=int, default=2, help="threads for both")
    parser.add_argument("--data", type=Path, default=DATA, help="folder with train.parquet and test.parquet")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    result = measure(arguments.repeats, arguments.data)
    if arguments.json:
        print(json.dumps(result))
        return
    for name, value in result.items():
        print(f"{name:24} {value}")


if __name__ == "__main__":
    main()
