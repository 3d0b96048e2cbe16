"""The benchmark of published figures: what it finds done, what it refuses, what it prints and writes."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest

import shortlist
from scripts import imported
from shortlist.errors import InputError
from shortlist.experiment import Preset

SCRIPT = Path(shortlist.__file__).parents[2] / "benchmarks" / "published.py"

QUICK = {
    "model": {"dim": 8},
    "loss": {"tau": 0.2},
    "training": {"epochs": 2, "batch": 8, "validate_every": 1, "beat_popularity": False},
}
PRESETS = {
    "sl-told": Preset("clicks.csv", "mf", "sl", 20, QUICK, {"ndcg@20": 0.5, "recall@20": 0.5}),
    "sl-untold": Preset("clicks.csv", "mf", "sl", 20, QUICK),
    "sl-elsewhere": Preset("nowhere.csv", "mf", "sl", 20, QUICK, {"ndcg@20": 0.5}),
}


@pytest.fixture
def benchmark(clicks: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """The script with presets that take no time, and a folder of its own for runs."""
    with imported(SCRIPT) as module:
        monkeypatch.setattr(module, "DATA", clicks.parent)
        monkeypatch.setattr(module, "PRESETS", dict(PRESETS))
        monkeypatch.setattr("torch.set_num_threads", lambda threads: None)
        monkeypatch.chdir(tmp_path)
        yield module


def called(benchmark: ModuleType, capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["published.py", "--runs", "runs", *arguments])
        benchmark.main()
    return capsys.readouterr().out


def test_what_is_there_is_not_trained_again(benchmark: ModuleType, tmp_path: Path) -> None:
    run = benchmark.cell("sl-told", 0, tmp_path / "run")
    before = (tmp_path / "run" / "model.safetensors").stat().st_mtime_ns
    assert benchmark.cell("sl-told", 0, tmp_path / "run").metrics == run.metrics
    assert (tmp_path / "run" / "model.safetensors").stat().st_mtime_ns == before


def test_a_temperature_that_was_found_is_the_preset_s(
    benchmark: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shortlist.training.temperature.STEPS", 3)
    looks = {**QUICK, "loss": {}, "training": {**QUICK["training"], "temperature_epochs": 1}}
    benchmark.PRESETS["sl-told"] = replace(PRESETS["sl-told"], settings=looks)
    run = benchmark.cell("sl-told", 0, tmp_path / "run")
    assert benchmark.cell("sl-told", 0, tmp_path / "run").config == run.config


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        (replace(PRESETS["sl-told"], settings={**QUICK, "loss": {"tau": 0.3}}), "loss.tau: expected 0.3, received 0.2"),
        (replace(PRESETS["sl-told"], settings={**QUICK, "model": {"dim": 9}}), "model.dim: expected 9, received 8"),
        (replace(PRESETS["sl-told"], k=10), "k: expected 10, received 20"),
        (replace(PRESETS["sl-told"], loss="slatk"), "loss.name: expected 'slatk', received 'sl'"),
    ],
)
def test_a_run_of_a_preset_that_has_changed_is_refused(
    benchmark: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str], changed: Preset, said: str
) -> None:
    called(benchmark, capsys, "--only", "sl-told", "--seeds", "1")
    benchmark.PRESETS["sl-told"] = changed
    with pytest.raises(InputError) as caught:
        called(benchmark, capsys, "--only", "sl-untold", "sl-told", "--seeds", "1")
    expected = "expected a run of the preset sl-told as it is now, received another one (remove it to train anew)"
    assert str(caught.value) == f"{Path('runs/sl-told-1')}: {expected}: {said}"
    assert [path.name for path in (tmp_path / "runs").iterdir()] == ["sl-told-1"]  # nothing was trained before


def test_every_figure_is_printed_once(benchmark: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    out = called(benchmark, capsys, "--only", "sl-told", "sl-untold", "sl-elsewhere", "--seeds", "0")
    lines = out.splitlines()
    assert [line.split()[1] for line in lines if line.startswith("metric")] == ["ndcg@20", "recall@20"]


def test_what_is_written(
    benchmark: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    out = called(benchmark, capsys, "--only", "sl-told", "--seeds", "0,1", "--json", "--write", "results")
    assert json.loads((tmp_path / "results" / "published.json").read_text()) == json.loads(out)["rows"]
    names = sorted(path.name for path in (tmp_path / "results").iterdir())
    assert names == ["published-curves.svg", "published.json", "published.md"]
    monkeypatch.setenv("COLUMNS", "200")
    with pytest.raises(SystemExit):
        called(benchmark, capsys, "--help")
    content = capsys.readouterr().out
    assert [name for name in names if f" {name}" not in content] == []
