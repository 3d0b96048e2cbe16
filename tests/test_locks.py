"""Locks by each mechanism, with real files and real processes; msvcrt itself is a stand-in over ``lockf``."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import SimpleNamespace

import pytest

from shortlist import locks
from shortlist.locks import is_locked, try_lock, wait_for_lock

fcntl = pytest.importorskip("fcntl")

SETUP = {
    "flock": "",
    "msvcrt": """
import fcntl, types
def locking(descriptor, mode, size):
    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
locks.fcntl, locks.msvcrt = None, types.SimpleNamespace(locking=locking, LK_NBLCK=2)
""",
    "claims": "locks.fcntl = locks.msvcrt = None\n",
}
HOLD = """
with locks.try_lock(folder) as is_taken:
    print(is_taken, flush=True)
    sys.stdin.readline()
"""
COUNT = """
for _ in range(40):
    with locks.wait_for_lock(folder):
        number = int(counter.read_text())
        time.sleep(0.0005)
        counter.write_text(str(number + 1))
"""


@pytest.fixture(params=list(SETUP))
def mechanism(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """This process uses the mechanism; so do those that :func:`process` starts for it."""

    def locking(descriptor: int, mode: int, size: int) -> None:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)

    if request.param != "flock":
        monkeypatch.setattr(locks, "fcntl", None)
        stand_in = SimpleNamespace(locking=locking, LK_NBLCK=2) if request.param == "msvcrt" else None
        monkeypatch.setattr(locks, "msvcrt", stand_in)
    return str(request.param)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "folder").mkdir()
    return tmp_path / "folder"


@contextmanager
def process(mechanism: str, folder: Path, work: str) -> Iterator[subprocess.Popen[str]]:
    program = f"""
import sys, time
from pathlib import Path
from shortlist import locks
folder, counter = Path({str(folder)!r}), Path({str(folder.parent / "counter")!r})
{SETUP[mechanism]}
{work}
"""
    environment = {**os.environ, "PYTHONPATH": str(Path(locks.__file__).parents[1])}
    started = subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    )
    with started:
        try:
            yield started
        finally:
            with suppress(OSError):
                started.kill()


def answer(started: subprocess.Popen[str]) -> str:
    assert started.stdout is not None
    return started.stdout.readline().strip()


def test_within_a_process(mechanism: str, folder: Path) -> None:
    assert not is_locked(folder)
    with try_lock(folder) as first:
        assert first
        assert is_locked(folder)
        assert is_locked(folder)  # checking a lock does not take it
        with try_lock(folder) as second:
            assert not second
        assert is_locked(folder)  # nor does a failed attempt release it
    assert not is_locked(folder)
    with try_lock(folder) as again:
        assert again


def test_a_folder_that_does_not_exist(mechanism: str, tmp_path: Path) -> None:
    assert not is_locked(tmp_path / "nowhere" / "folder")
    assert list(tmp_path.iterdir()) == []


def test_checking_leaves_nothing(mechanism: str, folder: Path) -> None:
    assert not is_locked(folder)
    assert [path.name for path in folder.parent.iterdir()] == ["folder"]


def test_between_processes(mechanism: str, folder: Path) -> None:
    with process(mechanism, folder, HOLD) as holder:
        assert answer(holder) == "True"
        assert is_locked(folder)
        with try_lock(folder) as is_taken:
            assert not is_taken
        with process(mechanism, folder, HOLD) as other:
            assert answer(other) == "False"
        holder.communicate("go on\n")
    assert not is_locked(folder)
    with try_lock(folder) as is_taken:
        assert is_taken


def test_a_kill_ends_the_lock(mechanism: str, folder: Path) -> None:
    with process(mechanism, folder, HOLD) as holder:
        assert answer(holder) == "True"
        holder.kill()
        assert holder.wait() == -signal.SIGKILL
    assert not is_locked(folder)
    with try_lock(folder) as is_taken:
        assert is_taken
    if mechanism == "claims":
        assert [path.name for path in folder.parent.iterdir()] == ["folder"]


def test_two_processes_never_hold_it_at_once(mechanism: str, folder: Path) -> None:
    counter = folder.parent / "counter"
    counter.write_text("0")
    with process(mechanism, folder, COUNT) as one, process(mechanism, folder, COUNT) as other:
        assert (one.wait(60), other.wait(60)) == (0, 0)
    assert counter.read_text() == "80"


def test_waiting(mechanism: str, folder: Path) -> None:
    with process(mechanism, folder, HOLD.replace("sys.stdin.readline()", "time.sleep(0.3)")) as holder:
        assert answer(holder) == "True"
        began = time.monotonic()
        with wait_for_lock(folder):
            assert time.monotonic() - began > 0.1
            assert holder.wait(10) == 0


def test_checking_keeps_nobody_out(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    check = os.open(folder, os.O_RDONLY)
    fcntl.flock(check, fcntl.LOCK_SH)
    monkeypatch.setattr("shortlist.locks.sleep", lambda seconds: os.close(check))  # the check ends meanwhile
    with try_lock(folder) as is_taken:
        assert is_taken


def test_a_file_system_without_locks(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(descriptor: int, kind: int) -> None:
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr(locks.fcntl, "flock", refuse)
    with try_lock(folder) as first, try_lock(folder) as second:
        assert first
        assert second
    assert not is_locked(folder)


class TestClaims:
    @pytest.fixture(autouse=True)
    def claims(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(locks, "fcntl", None)
        monkeypatch.setattr(locks, "msvcrt", None)

    def test_another_host_counts_as_running(self, folder: Path) -> None:
        (folder.parent / ".folder.lock-0a0b0c0d-1-00000000").touch()
        assert is_locked(folder)
        with try_lock(folder) as is_taken:
            assert not is_taken

    def test_a_process_of_another_user_counts_as_running(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        def forbid(process: int, number: int) -> None:
            raise PermissionError

        with process("claims", folder, HOLD) as holder:
            assert answer(holder) == "True"
            monkeypatch.setattr(os, "kill", forbid)
            assert is_locked(folder)
            monkeypatch.undo()
            holder.communicate("go on\n")

    def test_folders_whose_names_begin_alike(self, folder: Path) -> None:
        other = folder.with_name("folder.lock")
        other.mkdir()
        with try_lock(other):
            assert not is_locked(folder)
