"""Killed, out of room, left by the first process: whatever happens on the way, a study ends with the same trials.

Every attempt is a real process of the real command, and every kill a real one.
"""

import json
import random
import signal
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from attempts import Attempts
from processes import children, is_alive, needs_proc, started, wait_for
from shortlist.errors import InputError
from shortlist.runs import open_run
from shortlist.tuning import STUDY

TRIALS = 6


def words(table: Path, out: Path) -> list[object]:
    settings = ("model.dim=8", "training.epochs=4", "training.validate_every=2", "training.temperature_epochs=0")
    given = [word for text in settings for word in ("--set", text)]
    return ["tune", table, "--loss", "slatk", "--k", 5, *given, "--trials", TRIALS, "--out", out, "--json"]


def result(out: Path) -> tuple[list[Any], bytes, dict[str, Any]]:
    """All of a study that must not depend on what happened on the way."""
    table = pl.read_csv(out / "trials.csv").drop("trial", "seconds")
    run = open_run(out / "best")
    return table.rows(), (run.folder / "model.safetensors").read_bytes(), run.metrics["test"]


@pytest.fixture(scope="module")
def undisturbed(attempts: Attempts, clicks: Path, tmp_path_factory: pytest.TempPathFactory) -> Any:
    out = tmp_path_factory.mktemp("undisturbed") / "out"
    assert attempts(*words(clicks, out)).code == 0
    return result(out)


def test_kills(attempts: Attempts, clicks: Path, undisturbed: Any, tmp_path: Path) -> None:
    """At touches of the disk, some of them between a trial's end and its being written down, and at any moment."""
    out, rng, kills = tmp_path / "out", random.Random(0), 0
    for number in range(7):
        how = {"after": rng.random()} if number % 4 == 3 else {"touch": rng.randint(10, 50)}
        answer = attempts(*words(clicks, out), **how)
        if answer.code == 0:
            break
        assert answer.code == -signal.SIGKILL
        kills += 1
    assert attempts(*words(clicks, out)).code == 0
    assert kills >= 3
    assert result(out) == undisturbed


def test_no_room(attempts: Attempts, clicks: Path, undisturbed: Any, tmp_path: Path) -> None:
    """From room for nothing to room for all, in one folder: each time one line, and nothing of before is lost."""
    out, lines, counts = tmp_path / "out", [], []
    for kilobytes in (10, 20, 100, 128, 132, 140, 1000):
        answer = attempts(*words(clicks, out), largest_file=1000 * kilobytes)
        if answer.code == 0:
            break
        assert answer.code == 1, answer
        said = [line for line in answer.err.splitlines() if not line.startswith("trial ")]
        assert len(said) == 1
        assert "cannot be written" in said[0]
        lines.append(said[0])
        counts.append((out / STUDY).stat().st_size if (out / STUDY).exists() else 0)
    assert counts == sorted(counts)
    assert any("the study cannot be written" in line for line in lines)
    assert attempts(*words(clicks, out)).code == 0
    assert result(out) == undisturbed


@needs_proc
def test_helpers_do_not_outlive_the_first_process(attempts: Attempts, clicks: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    arguments = ["tune", clicks, "--model", "ease", "--k", 5, "--out", out]
    process = started(*arguments, "--jobs", 2, "--trials", 100000)
    wait_for(lambda: len(children(process.pid)) >= 2 and any((out / ".locks").glob("[0-9]*")), process)
    helpers = children(process.pid)
    process.kill()
    process.communicate()
    wait_for(lambda: not any(is_alive(helper) for helper in helpers))
    with pytest.raises(InputError):
        open_run(out / "best")
    answer = attempts(*arguments, "--trials", 1, "--json")
    assert answer.code == 0
    assert json.loads(answer.out)["trials"]["done"] >= 1
