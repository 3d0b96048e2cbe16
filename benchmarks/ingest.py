"""From a Parquet file with text ids to Interactions: rows a second and peak memory, beside polars' own work.

The floor is what polars takes to read the same file and to count its (user, item) groups, which is the least that
merging repeated pairs needs. Each of the two runs in a process of its own, so that its peak memory is its own.

    python benchmarks/ingest.py                    20 million rows
    python benchmarks/ingest.py --rows 1000000 --json
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl

ROWS_A_USER, ROWS_AN_ITEM = 40, 200
AIM_RATIO, AIM_GIGABYTES = 4.0, 4.0


def make(path: Path, rows: int, seed: int = 0) -> None:
    """Clicks of users on items of very different popularity, in no order, with repeats."""
    generator = np.random.default_rng(seed)
    n_users, n_items = max(rows // ROWS_A_USER, 10), max(rows // ROWS_AN_ITEM, 10)
    users = generator.integers(0, n_users, rows, dtype=np.int32)
    items = (n_items * generator.random(rows, dtype=np.float32) ** 3).astype(np.int32)
    numbers = pl.LazyFrame({"user_id": users, "item_id": items})
    numbers.select(
        pl.format("customer-{}", pl.col("user_id").cast(pl.String).str.zfill(9)).alias("user_id"),
        pl.format("sku-{}", pl.col("item_id").cast(pl.String).str.zfill(8)).alias("item_id"),
    ).sink_parquet(path)


def floor(path: Path) -> int:
    """What polars itself takes: read, and count each pair."""
    return pl.scan_parquet(path).group_by("user_id", "item_id").len().collect().height


def shortlist(path: Path) -> int:
    """Read, check every id, encode, merge repeats, lay out as CSR."""
    from shortlist.data import read, to_interactions

    return to_interactions(read(path)).n_pairs


STEPS: dict[str, Callable[[Path], int]] = {"floor": floor, "shortlist": shortlist}


def run_step(step: str, path: Path) -> dict[str, float]:
    """Seconds, peak memory and pairs of one step; called in a fresh process."""
    if step == "shortlist":
        import shortlist.data  # noqa: F401 -- importing is not ingesting
    begin = time.perf_counter()
    pairs = STEPS[step](path)
    seconds = time.perf_counter() - begin
    kilobytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // (1024 if sys.platform == "darwin" else 1)
    return {"seconds": seconds, "peak_gigabytes": kilobytes / 2**20, "pairs": pairs}


def in_process(*arguments: str) -> str:
    """The output of this script, run once more."""
    return subprocess.run([sys.executable, __file__, *arguments], check=True, text=True, stdout=subprocess.PIPE).stdout


def measure(rows: int) -> dict[str, float]:
    """Make the file, then take both steps on it."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "clicks.parquet")
        in_process("--make", str(path), "--rows", str(rows))
        megabytes = path.stat().st_size / 2**20
        steps = {step: json.loads(in_process("--step", step, str(path))) for step in STEPS}
    ours, least = steps["shortlist"], steps["floor"]
    if ours["pairs"] != least["pairs"]:
        raise SystemExit(f"ingest: polars counts {least['pairs']} pairs, Interactions has {ours['pairs']}")
    return {
        "rows": rows,
        "pairs": ours["pairs"],
        "file_megabytes": round(megabytes, 1),
        "seconds": round(ours["seconds"], 3),
        "floor_seconds": round(least["seconds"], 3),
        "ratio": round(ours["seconds"] / least["seconds"], 3),
        "rows_per_second": round(rows / ours["seconds"]),
        "floor_rows_per_second": round(rows / least["seconds"]),
        "peak_gigabytes": round(ours["peak_gigabytes"], 3),
        "floor_peak_gigabytes": round(least["peak_gigabytes"], 3),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=20_000_000, help="rows of the file (default: 20 million)")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--make", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--step", nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.make:
        make(arguments.make, arguments.rows)
    elif arguments.step:
        print(json.dumps(run_step(arguments.step[0], Path(arguments.step[1]))))
    else:
        result = measure(arguments.rows)
        print(json.dumps(result) if arguments.json else table(result))


def table(result: dict[str, float]) -> str:
    """The result for people."""
    head = f"{result['rows']:,} rows of text ids, {result['pairs']:,} distinct pairs, {result['file_megabytes']:,} MB"
    line = "{:<34}{:>9.2f} s{:>14,.0f} rows/s{:>9.2f} GB at most"
    return "\n".join(
        [
            head,
            line.format("Parquet to Interactions", *(result[key] for key in _keys(""))),
            line.format("polars: read and count the pairs", *(result[key] for key in _keys("floor_"))),
            f"ratio {result['ratio']:.2f} (aim: at most {AIM_RATIO:g}); memory aim: at most {AIM_GIGABYTES:g} GB",
        ]
    )


def _keys(prefix: str) -> tuple[str, str, str]:
    return f"{prefix}seconds", f"{prefix}rows_per_second", f"{prefix}peak_gigabytes"


if __name__ == "__main__":
    main()
