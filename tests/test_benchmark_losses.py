"""The benchmark of losses: long epochs are cut, and it runs from end to end on a small set."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

import shortlist
from scripts import imported
from shortlist.losses import SL, registry
from training.fixtures import training

SOURCE = Path(shortlist.__file__).parents[1]
SCRIPT = SOURCE.parent / "benchmarks" / "losses.py"


@pytest.fixture(scope="module")
def benchmark() -> Iterator[ModuleType]:
    with imported(SCRIPT) as module:
        yield module


def test_a_long_epoch_is_cut_and_scaled(benchmark: ModuleType) -> None:
    run = training(SL(), epochs=20, batch=4)
    took, share = benchmark.epoch_seconds(run, 0.0)
    assert share == pytest.approx(1 / run.batches.steps)
    assert took > 0
    assert run.progress.epoch == 1
    assert benchmark.epoch_seconds(run, 60.0)[1] == 1.0


def test_what_is_published_is_of_losses_that_there_are(benchmark: ModuleType) -> None:
    assert set(benchmark.PUBLISHED) <= set(registry)


def test_it_prints_one_object_and_writes_a_page(tmp_path: Path, clicks: Path) -> None:
    (tmp_path / "data" / "small").mkdir(parents=True)
    lines = clicks.read_text().splitlines()
    (tmp_path / "data" / "small" / "train.csv").write_text("\n".join(lines[:400]) + "\n")
    (tmp_path / "data" / "small" / "test.csv").write_text("\n".join([lines[0], *lines[400:]]) + "\n")
    command = [
        sys.executable,
        str(SCRIPT),
        "--only",
        "bpr",
        "--data",
        "small",
        "--cycles",
        "1",
        "--epochs",
        "8",
        "--json",
    ]
    environment = {**os.environ, "PYTHONPATH": str(SOURCE), "SHORTLIST_DATA": str(tmp_path / "data")}
    answer = subprocess.run(
        [*command, "--threads", "1", "--write", str(tmp_path)],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    drawn, exact = json.loads(answer.stdout)["rows"]
    assert (drawn["loss"], drawn["candidates"], exact["loss"], exact["candidates"]) == ("bpr", "drawn", "bpr", "all")
    for row in (drawn, exact):
        assert row["seconds"] > 0
        assert row["times_sl"] == pytest.approx(row["seconds"] / row["sl_seconds"], rel=0.2)
        assert 0 < row["above_start_mb"] < row["peak_mb"]
        assert 0.05 <= row["top_share"] <= 1
        assert row["epochs"] == 8
    assert json.loads((tmp_path / "losses.json").read_text()) == [drawn, exact]
    assert (tmp_path / "losses.md").read_text().count("| bpr |") == 2
    assert (tmp_path / "losses.svg").read_text().startswith("<svg")
