"""Killed, interrupted, out of room, not allowed to write: whatever happens on the way, the run ends with the same bits.

Every attempt is a real process of the real command, and every kill a real one.
"""

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from attempts import SOURCE, Attempts, contents
from command import Answer
from shortlist.errors import InputError
from shortlist.runs import CHECKPOINT, open_run
from shortlist.training.checkpoint import load

SETTINGS = ("model.dim=8", "loss.tau=0.2", "loss.refresh=2", "optimizer.lr=0.05", "training.validate_every=2",
            "training.checkpoint_every=0")  # fmt: skip


@dataclass(frozen=True)
class Work:
    """A training, and what comes of it when nothing disturbs it."""

    attempts: Attempts
    arguments: tuple[object, ...]
    result: dict[str, Any]

    def attempt(self, out: Path, **how: Any) -> Answer:
        """Begin, or go on if there is something to go on from."""
        goes_on = ["--resume"] if (out / CHECKPOINT).is_file() else []
        return self.attempts(*self.arguments, "--out", out, *goes_on, **how)

    def seconds_now(self, out: Path) -> float:
        """How long it takes, on a machine that may be busier now than before, when nothing disturbs it."""
        began = time.monotonic()
        assert self.attempts(*self.arguments, "--out", out, "--overwrite").code == 0
        return time.monotonic() - began

    def look(self, out: Path) -> str:
        """What a person finds: a whole run, a whole checkpoint, or nothing. Never less than that."""
        try:
            open_run(out)
        except InputError:
            if not (out / CHECKPOINT).exists():
                return "nothing"
            load(out / CHECKPOINT)
            return "a checkpoint"
        assert contents(out) == self.result
        return "a run"

    def finish(self, out: Path) -> None:
        """Go on undisturbed; nothing but the run, the same to the last bit, is there afterwards."""
        if self.look(out) != "a run":
            answer = self.attempt(out)
            assert (answer.code, answer.err) == (0, "")
        assert contents(out) == self.result
        assert not (out / CHECKPOINT).exists()


def work(attempts: Attempts, folder: Path, users: int, items: int, epochs: int) -> Work:
    rng = np.random.default_rng(0)
    tastes = 5
    lines = ["user_id,item_id"]
    for user in range(users):
        liked = items // tastes * (user % tastes) + rng.choice(items // tastes, min(12, items // 8), replace=False)
        lines += [f"person-{user:03},{1000 + item}" for item in liked]
    table = folder / "clicks.csv"
    table.write_text("\n".join(lines) + "\n")
    settings = [word for text in (*SETTINGS, f"training.epochs={epochs}") for word in ("--set", text)]
    arguments = ("train", table, "--loss", "slatk", "--k", 10, "--json", *settings)
    answer = attempts(*arguments, "--out", folder / "run")
    assert (answer.code, answer.err) == (0, "")
    return Work(attempts, arguments, contents(folder / "run"))


@pytest.fixture(scope="module")
def training(attempts: Attempts, tmp_path_factory: pytest.TempPathFactory) -> Work:
    return work(attempts, tmp_path_factory.mktemp("training"), users=300, items=200, epochs=12)


@pytest.fixture(scope="module")
def short(attempts: Attempts, tmp_path_factory: pytest.TempPathFactory) -> Work:
    """As short as a training can be, for tests that try many of them."""
    return work(attempts, tmp_path_factory.mktemp("short"), users=40, items=40, epochs=2)


def moments(seconds: float, number: int, seed: int) -> list[float]:
    """Moments that are spread over a duration, and a little beyond it, in random order."""
    rng = random.Random(seed)
    spread = [1.05 * seconds * (place + rng.random()) / number for place in range(number)]
    rng.shuffle(spread)
    return spread


class TestKills:
    def test_at_random_moments(self, training: Work, tmp_path: Path) -> None:
        kills, found, life = 0, [], 0
        while kills < 40 or found.count("a checkpoint") < 10:
            assert len(found) < 400
            for moment in moments(training.seconds_now(tmp_path / "undisturbed"), 20, seed=len(found)):
                out = tmp_path / f"{life}"
                before = training.look(out)
                answer = training.attempt(out, after=moment)
                found.append(training.look(out))
                assert found[-1] != "nothing" or before == "nothing"  # what was there once is not lost again
                if answer.code == -signal.SIGKILL:
                    kills += 1
                else:
                    assert (answer.code, answer.err) == (0, "")
                life += found[-1] == "a run"
        training.finish(tmp_path / f"{life}")
        assert life >= 1

    def test_at_every_touch_of_the_disk(self, short: Work, tmp_path: Path) -> None:
        """Before each change, and halfway through each file: from the first checkpoint to the end of the run."""
        found = []
        for touch in count(1):
            out = tmp_path / f"{touch}" / "run"
            answer = short.attempt(out, touch=touch)
            if answer.code == 0:
                break
            assert answer.code == -signal.SIGKILL
            found.append(short.look(out))
            short.finish(out)
            left_over = [path.name for path in out.parent.iterdir() if path != out]
            assert left_over == [] or (found[-1] == "a run" and left_over[0].startswith((".run.new-", ".run.old-")))
        steps = ["nothing", "a checkpoint", "a run"]
        assert found == sorted(found, key=steps.index)  # what was there once is not lost again
        assert min(found.count(step) for step in steps) > 1
        assert len(found) > 40

    def test_of_an_attempt_that_replaces_an_earlier_run(self, short: Work, training: Work, tmp_path: Path) -> None:
        """The earlier run stands until the new one takes its place, which can be resumed all the while."""
        out, found = tmp_path / "run", []
        for moment in moments(short.seconds_now(tmp_path / "undisturbed"), 6, seed=1):
            answer = training.attempts(*training.arguments, "--out", out, "--overwrite")
            assert answer.code == 0
            answer = short.attempts(*short.arguments, "--out", out, "--overwrite", after=moment)
            found.append(contents(out))
            assert found[-1] in (training.result, short.result)
            if (out / CHECKPOINT).exists():
                assert short.attempts(*short.arguments, "--out", out, "--resume").code == 0
                assert contents(out) == short.result
        assert training.result in found

    def test_of_the_command_from_its_start(self, training: Work, tmp_path: Path) -> None:
        """Once without any fork, imports and all."""
        out = tmp_path / "run"
        arguments = [*training.arguments, "--set", "training.epochs=100000", "--set", "training.patience=100000"]
        process = start(*arguments, "--out", out)
        wait_for(lambda: (out / "log.jsonl").exists(), process)
        process.kill()
        process.communicate()
        assert process.returncode == -signal.SIGKILL
        assert training.look(out) == "a checkpoint"
        answer = training.attempt(out)
        assert answer.code == 2
        assert "training.epochs: expected 100000, received 12" in answer.err
        assert training.look(out) == "a checkpoint"


def start(*arguments: object) -> subprocess.Popen[str]:
    environment = {**os.environ, "PYTHONPATH": SOURCE, "OMP_NUM_THREADS": "1"}
    words = [sys.executable, "-m", "shortlist", *map(str, arguments)]
    return subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)


def wait_for(condition: Any, process: subprocess.Popen[str], seconds: float = 120) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert process.poll() is None
        assert time.monotonic() < end
        time.sleep(0.01)


class TestInterruptions:
    def test_at_random_moments(self, training: Work, tmp_path: Path) -> None:
        lines, tries, life = [], 0, 0
        while len(lines) < 8:
            assert tries < 100
            for moment in moments(training.seconds_now(tmp_path / "undisturbed"), 8, seed=tries):
                out = tmp_path / f"{life}"
                before = training.look(out)
                answer = training.attempt(out, after=moment, send=signal.SIGINT)
                after = training.look(out)
                assert after != "nothing" or before == "nothing"
                assert answer.code in {0, 130}
                if answer.code == 130:
                    *panic, line = answer.err.splitlines(keepends=True)  # what polars says of its own in rare moments
                    assert not panic or panic[0].lstrip().startswith("thread '")
                    assert "Traceback" not in answer.err
                    lines.append(line)
                life += after == "a run"
                tries += 1
        training.finish(tmp_path / f"{life}")
        assert all(
            line == "shortlist: interrupted\n"
            or (line.startswith("shortlist: stopped in epoch ") and line.endswith("; resume to continue\n"))
            for line in lines
        )

    @pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="needs /proc to see what a process has loaded")
    def test_while_the_command_is_being_loaded(self, training: Work, tmp_path: Path) -> None:
        process = start(*training.arguments, "--out", tmp_path / "run")
        wait_for(lambda: "libtorch" in Path(f"/proc/{process.pid}/maps").read_text(), process)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate()
        assert (process.returncode, out, err) == (130, "", "shortlist: interrupted\n")
        assert list(tmp_path.iterdir()) == []


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of its own, the size of which can be changed."""
    place = tmp_path / "disk"
    place.mkdir()
    if os.geteuid() != 0 or mount("-t", "tmpfs", "-o", "size=1m", "tmpfs", place) != 0:
        pytest.skip("a disk of one's own can be mounted by root only, and not everywhere")
    try:
        yield place
    finally:
        subprocess.run(["umount", "--lazy", place], check=True)


def mount(*arguments: object) -> int:
    return subprocess.run(["mount", *map(str, arguments)], capture_output=True, check=False).returncode


class TestNoRoom:
    def test_on_disks_of_all_sizes(self, short: Work, disk: Path) -> None:
        """From room for nothing to room for all: every write fails on some of them."""
        lines = []
        for kilobytes in count(4, 12):
            out = disk / f"{kilobytes}"
            assert mount("-o", f"remount,size={kilobytes}k", disk) == 0
            answer = short.attempt(out)
            if answer.code == 0:
                break
            assert answer.code == 1
            assert answer.err.count("\n") == 1
            assert "No space left on device" in answer.err
            assert short.look(out) in {"nothing", "a checkpoint"}
            lines.append(answer.err)
            assert mount("-o", "remount,size=4m", disk) == 0
            short.finish(out)
            assert [path.name for path in disk.iterdir()] == [out.name]
            for path in out.iterdir():
                path.unlink()
            out.rmdir()
        assert any("the checkpoint cannot be written" in line for line in lines)
        assert any("the run cannot be written" in line for line in lines)

    def test_on_a_full_disk_nothing_is_lost(self, short: Work, disk: Path) -> None:
        out = stopped(short, disk / "run")
        before = (out / CHECKPOINT).read_bytes()
        with pytest.raises(OSError, match="No space left"):
            (disk / "filler").write_bytes(bytes(2_000_000))
        answer = short.attempt(out)
        assert answer.code == 1
        assert answer.err.startswith(f"shortlist: {out / CHECKPOINT}: the checkpoint cannot be written: ")
        assert answer.err.count("\n") == 1
        assert (out / CHECKPOINT).read_bytes() == before
        assert sorted(path.name for path in out.iterdir()) == [CHECKPOINT, "log.jsonl"]
        (disk / "filler").unlink()
        short.finish(out)

    def test_with_a_limit_on_the_size_of_files(self, short: Work, tmp_path: Path) -> None:
        """What can be tried without mounting anything."""
        lines = []
        for kilobytes in range(1, 40, 3):
            out = tmp_path / f"{kilobytes}"
            answer = short.attempt(out, largest_file=1000 * kilobytes)
            if answer.code == 0:
                break
            assert answer.code == 1
            assert answer.err.count("\n") == 1
            assert "File too large" in answer.err
            assert short.look(out) in {"nothing", "a checkpoint"}
            lines.append(answer.err)
            short.finish(out)
        assert any("the checkpoint cannot be written" in line for line in lines)


class TestNotWritable:
    def test_a_disk_that_can_only_be_read(self, short: Work, disk: Path) -> None:
        out = stopped(short, disk / "run")
        before = {path.name: path.read_bytes() for path in out.iterdir()}
        assert mount("-o", "remount,ro", disk) == 0
        for target in (out, disk / "other"):
            answer = short.attempt(target)
            assert answer.code in {1, 2}
            assert answer.err.startswith(f"shortlist: {target}: ")
            assert answer.err.endswith("Read-only file system\n")
            assert answer.err.count("\n") == 1
        assert {path.name: path.read_bytes() for path in out.iterdir()} == before
        assert mount("-o", "remount,rw", disk) == 0
        short.finish(out)
        assert [path.name for path in disk.iterdir()] == ["run"]

    def test_the_disk_itself(self, short: Work, disk: Path) -> None:
        """A whole disk cannot change its name; better to hear of it at once than when all is done."""
        answer = short.attempt(disk)
        assert answer.code == 2
        assert "expected a folder that can be renamed, received a mount point" in answer.err
        assert list(disk.iterdir()) == []

    def test_a_place_below_a_file(self, short: Work, tmp_path: Path) -> None:
        (tmp_path / "file").write_text("mine")
        answer = short.attempt(tmp_path / "file" / "run")
        assert (answer.code, answer.err.count("\n")) == (2, 1)
        assert "expected a place to write a run to, received Not a directory" in answer.err
        assert (tmp_path / "file").read_text() == "mine"


def stopped(work: Work, out: Path) -> Path:
    """A run that was killed on its way, with a log."""
    for touch in count(1):
        work.attempt(out, touch=touch)
        if (out / "log.jsonl").exists():
            break
    assert work.look(out) == "a checkpoint"
    return out
