"""Attempts at the command, each in a process of its own that may be killed at any moment.

Importing the library takes longer than a small training. So one process imports it and forks for each attempt: what
is killed is a real process with real files, and nothing of it is left but those files.
"""

import io
import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr, suppress
from pathlib import Path
from typing import Any, NoReturn

import pytest

from command import Answer

SOURCE = str(Path(__file__).parents[1] / "src")
TOUCHES = {"open", "os.mkdir", "os.rename", "os.remove", "os.rmdir", "shutil.rmtree"}
"""Python's audit events of which each stands for a change on the disk, or (open) for the moment before one."""


class Attempts:
    """The process that forks, seen from the tests."""

    def __init__(self) -> None:
        environment = {**os.environ, "PYTHONPATH": SOURCE, "OMP_NUM_THREADS": "1", "POLARS_MAX_THREADS": "1"}
        self._process = subprocess.Popen(
            [sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        )

    def __call__(self, *arguments: object, **how: Any) -> Answer:
        """Run the command. ``how`` are the keywords of :func:`attempt`; a signal's number, negative, is the code."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(json.dumps([[str(argument) for argument in arguments], how]), file=self._process.stdin, flush=True)
        return Answer(*json.loads(self._process.stdout.readline()))

    def close(self) -> None:
        self._process.communicate()


@pytest.fixture(scope="session")
def attempts() -> Iterator[Attempts]:
    process = Attempts()
    yield process
    process.close()


def attempt(
    arguments: list[str],
    *,
    after: float | None = None,
    send: int = signal.SIGKILL,
    touch: int | None = None,
    largest_file: int | None = None,
) -> tuple[int, str, str]:
    """Fork, run the command in the child, and tell how it ended.

    ``after`` so many seconds it is sent a signal; at the ``touch``-th touch of the disk it kills itself;
    ``largest_file`` stands for a disk that is full.
    """
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        child = os.fork()
        if child == 0:
            os.dup2(out.fileno(), 1)
            os.dup2(err.fileno(), 2)
            _run(arguments, touch, largest_file)
        began, ended, status = time.monotonic(), 0, 0
        while not ended:
            ended, status = os.waitpid(child, os.WNOHANG)
            if not ended and after is not None and time.monotonic() - began >= after:
                os.kill(child, send)  # it has not been waited for: the number is still its own
                ended, status = os.waitpid(child, 0)
            time.sleep(0.001)
        out.seek(0)
        err.seek(0)
        return os.waitstatus_to_exitcode(status), out.read(), err.read()


def _run(arguments: list[str], touch: int | None, largest_file: int | None) -> NoReturn:
    """The child: never returns into the code of its parent."""
    from shortlist.cli import main

    code: Any = 70
    try:
        if touch is not None:
            _die_at(touch)
        if largest_file is not None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (largest_file, largest_file))
        signal.signal(signal.SIGINT, signal.default_int_handler)
        main(arguments)
    except SystemExit as end:
        code = end.code
    finally:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _die_at(number: int) -> None:
    """Kill this process at one of its touches of the disk, or halfway through writing a file."""
    from shortlist.runs import run
    from shortlist.training import checkpoint

    left = [number]

    def is_due() -> bool:
        left[0] -= 1
        return left[0] == 0

    def die() -> NoReturn:
        os.kill(os.getpid(), signal.SIGKILL)
        raise AssertionError

    def watch(event: str, details: tuple[Any, ...]) -> None:
        writes = event in TOUCHES and not (event == "open" and "site-packages" in str(details[0]))
        if writes and is_due():
            die()

    def torn(write: Callable[..., Any], path_at: int) -> Callable[..., Any]:
        def write_and_perhaps_die(*values: Any, **named: Any) -> Any:
            result = write(*values, **named)
            if is_due():
                os.truncate(values[path_at], os.path.getsize(values[path_at]) // 2)  # noqa: PTH202
                die()
            return result

        return write_and_perhaps_die

    run.save_file = torn(run.save_file, 1)  # type: ignore[attr-defined]
    checkpoint.save_file = torn(checkpoint.save_file, 1)  # type: ignore[attr-defined]
    Path.write_bytes = torn(Path.write_bytes, 0)  # type: ignore[method-assign]
    Path.write_text = torn(Path.write_text, 0)  # type: ignore[method-assign]
    sys.addaudithook(watch)


def serve() -> None:
    """Answer requests until there are no more."""
    import altair  # noqa: F401
    import vl_convert  # noqa: F401

    from shortlist.cli import run

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with (
        tempfile.TemporaryDirectory() as folder,
        redirect_stderr(io.StringIO()),
    ):  # refused, but not before all is imported
        run(["train", f"{folder}/nothing", "--out", f"{folder}/run"])
        run(["bench", f"{folder}/nothing", "--out", f"{folder}/grid"])
        run(["tune", f"{folder}/nothing", "--out", f"{folder}/study"])
    for line in sys.stdin:
        arguments, how = json.loads(line)
        print(json.dumps(attempt(arguments, **how)), flush=True)


def contents(run: Path) -> dict[str, Any]:
    """All of a run that must not depend on what happened on the way."""
    names = ("config.json", "model.safetensors", "per_user.parquet", "ids.parquet", "history.parquet")
    metrics = json.loads((run / "metrics.json").read_text())
    del metrics["seconds"]
    log = [json.loads(line) for line in (run / "log.jsonl").read_text().splitlines()]
    figures = [{key: value for key, value in line.items() if key != "seconds"} for line in log]
    return {**{name: (run / name).read_bytes() for name in names}, "metrics": metrics, "log": figures}


if __name__ == "__main__":
    with suppress(BrokenPipeError, KeyboardInterrupt):
        serve()
