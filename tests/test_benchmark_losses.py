"""The benchmark of losses: what it says of gradients is what loops say, and it runs from end to end on a small set."""

from __future__ import annotations

import importlib.util
import json
import math
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest
import torch

import shortlist
from shortlist.losses import BPR, SL, Loss, SLAtK
from training.toys import training, two_tastes

SOURCE = Path(shortlist.__file__).parents[1]
SCRIPT = SOURCE.parent / "benchmarks" / "losses.py"


@pytest.fixture(scope="module")
def benchmark() -> Iterator[ModuleType]:
    sys.path.append(str(SCRIPT.parent))
    spec = importlib.util.spec_from_file_location("benchmark_of_losses", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    yield module
    sys.path.remove(str(SCRIPT.parent))


@pytest.mark.parametrize(
    ("sizes", "share"),
    [
        ([1.0] * 100, 0.05),
        ([96.0, 1.0, 1.0, 1.0, 1.0] + [0.0] * 95, 1.0),
        ([1.0] * 95 + [3.0] * 5, 15 / 110),
        ([2.0, 1.0, 1.0], 0.5),
    ],
)
def test_share_of_the_largest(benchmark: ModuleType, sizes: list[float], share: float) -> None:
    assert benchmark.top_share(torch.tensor(sizes)) == pytest.approx(share)


def pull_of_sl(own: float, others: list[float], beta: float) -> float:
    return 1 / 0.2


def pull_of_bpr(own: float, others: list[float], beta: float) -> float:
    return sum(1 / (1 + math.exp(own - other)) for other in others) / len(others)


def pull_of_slatk(own: float, others: list[float], beta: float) -> float:
    """−w/τ, and what flows through the weight: w(1−w)/τ_w·l."""
    weight = 1 / (1 + math.exp((beta - own) / 2.5))
    term = math.log(sum(math.exp(other / 0.2) for other in others) * 1000 / len(others)) - own / 0.2
    return abs(-weight / 0.2 + weight * (1 - weight) / 2.5 * term)


@pytest.mark.parametrize(
    ("loss", "pull"),
    [(SL(), pull_of_sl), (BPR(), pull_of_bpr), (SLAtK(k=5, refresh=2, weight="published", pull=1.0), pull_of_slatk)],
    ids=["sl", "bpr", "slatk"],
)
def test_gradients_of_positives(benchmark: ModuleType, loss: Loss, pull: Callable[..., float]) -> None:
    """Of every positive once, as worked with loops from the scores of the trained model; batches do not matter."""
    train = two_tastes()
    trained = training(loss, train, against="all", epochs=4, batch=16)
    trained.run()
    expected = []
    for user in range(train.n_users):
        score_C: list[float] = trained.model.factors().score_all(torch.tensor([user]))[0].tolist()
        met = train.indices[train.indptr[user] : train.indptr[user + 1]].tolist()
        others = [score for item, score in enumerate(score_C) if item not in met]
        beta = 0.0 if trained.thresholds is None else float(trained.thresholds.read(torch.tensor([user])))
        expected += [pull(score_C[item], others, beta) for item in met]
    found = benchmark.gradients(trained)
    assert len(found) == train.n_pairs
    assert sorted(found.tolist()) == pytest.approx(sorted(expected), rel=1e-4)


def test_a_long_epoch_is_cut_and_scaled(benchmark: ModuleType) -> None:
    run = training(SL(), epochs=20, batch=4)
    took, share = benchmark.epoch_seconds(run, 0.0)
    assert share == pytest.approx(1 / run.batches.steps)
    assert took > 0
    assert run.progress.epoch == 1
    assert benchmark.epoch_seconds(run, 60.0)[1] == 1.0


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
    assert (drawn["loss"], drawn["against"], exact["loss"], exact["against"]) == ("bpr", "drawn", "bpr", "all")
    for row in (drawn, exact):
        assert row["seconds"] > 0
        assert row["times_sl"] == pytest.approx(row["seconds"] / row["sl_seconds"], rel=0.2)
        assert 0 < row["above_start_mb"] < row["peak_mb"]
        assert 0.05 <= row["top_share"] <= 1
        assert row["epochs"] == 8
    assert json.loads((tmp_path / "losses.json").read_text()) == [drawn, exact]
    assert (tmp_path / "losses.md").read_text().count("| bpr |") == 2
    assert (tmp_path / "losses.svg").read_text().startswith("<svg")
