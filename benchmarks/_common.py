"""What the benchmarks share: the set they measure on, a clock, a look at memory, one way to print."""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np

from shortlist.data import Interactions, LoadOptions, Split, load

DATA = Path(os.environ.get("SHORTLIST_DATA", Path(__file__).parents[2] / "shared" / "data"))
GOWALLA = (29_858, 40_988)


def gowalla(seed: int = 0) -> tuple[str, Split]:
    """The real set under the protocol of SL@K's authors if it is here, else a made one of the same size."""
    if (DATA / "gowalla").exists():
        return "gowalla", load(DATA / "gowalla", LoadOptions(protocol="irbenchmark", seed=seed))
    return "made", made(*GOWALLA, pairs_a_user=34, seed=seed)


def made(n_users: int, n_items: int, pairs_a_user: int, seed: int = 0) -> Split:
    """A set of any size: popularity falls with rank; a fifth of the pairs is test, a tenth of the rest validation."""
    generator = np.random.default_rng(seed)
    rank_P = n_items * generator.random(n_users * pairs_a_user, dtype=np.float32) ** 3
    key_P = np.repeat(np.arange(n_users, dtype=np.int64) * n_items, pairs_a_user) + rank_P.astype(np.int64)
    key_P = np.unique(key_P)
    part_P = generator.choice(3, size=len(key_P), p=[0.72, 0.08, 0.2])
    train, valid, test = (
        Interactions.from_pairs(
            key_P[part_P == part] // n_items,
            key_P[part_P == part] % n_items,
            user_ids=range(n_users),
            item_ids=range(n_items),
        )
        for part in range(3)
    )
    return Split(train, valid, test)


def seconds(run: Callable[[], object]) -> float:
    """How long a call takes."""
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def forget_peak() -> None:
    """Give freed memory back and start a new peak (Linux)."""
    ctypes.CDLL(None).malloc_trim(0)
    Path("/proc/self/clear_refs").write_text("5")


def memory_mb(field: str = "VmHWM") -> float:
    """Peak (VmHWM) or present (VmRSS) memory of the process in MB (Linux)."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith(field)).split()[1]) / 1000


def parser(description: str) -> argparse.ArgumentParser:
    """Arguments that every benchmark has."""
    result = argparse.ArgumentParser(description=description)
    result.add_argument("--json", action="store_true", help="print one JSON object")
    result.add_argument("--threads", type=int, default=2, help="threads for floor and measured alike")
    return result


def show(result: Mapping[str, object], as_json: bool) -> None:
    """Print a table, or one JSON object."""
    if as_json:
        print(json.dumps(result))
        return
    for name, value in result.items():
        print(f"{name:32} {value}")
