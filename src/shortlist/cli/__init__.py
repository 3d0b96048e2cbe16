"""The command `shortlist`."""

from __future__ import annotations

import os
import signal
import sys
import warnings
from collections.abc import Sequence
from typing import NoReturn

DONE, FAILED, BAD_INPUT, INTERRUPTED = 0, 1, 2, 130
"""Exit codes; every error prints one line to stderr."""


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the command and exit. ``SHORTLIST_DEBUG=1`` in the environment prints tracebacks."""
    _share_cores()
    _prepare_streams()
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _interrupt)
    try:
        sys.exit(run(sys.argv[1:] if arguments is None else arguments))
    except KeyboardInterrupt:  # while the commands were being imported
        sys.exit(_say("interrupted", INTERRUPTED))


def run(arguments: Sequence[str]) -> int:
    """Run the command. Returns the exit code."""
    from shortlist.cli.app import Abort, UsageError, app
    from shortlist.errors import InputError, Interrupted, ShortlistError
    from shortlist.parameters import RenamedParameter

    warnings.simplefilter("once", RenamedParameter)
    warnings.showwarning = _show_warning
    try:
        code = app(list(arguments), prog_name="shortlist", standalone_mode=False)
        sys.stdout.flush()
        if code == INTERRUPTED:  # typer turns Ctrl-C into this code
            return _say("interrupted", INTERRUPTED)
        return code if isinstance(code, int) else DONE
    except UsageError as problem:
        return _fail(problem, problem.format_message(), BAD_INPUT)
    except InputError as problem:
        from shortlist.cli.load_flags import as_flags

        return _fail(problem, as_flags(str(problem)), BAD_INPUT)
    except Interrupted as problem:
        return _say(str(problem), INTERRUPTED)
    except ShortlistError as problem:
        return _fail(problem, str(problem), FAILED)
    except BrokenPipeError:  # the reader of stdout has closed it
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
    except (KeyboardInterrupt, Abort):
        return _say("interrupted", INTERRUPTED)
    except Exception as problem:
        if isinstance(problem, MemoryError) or "allocate memory" in str(problem):
            first_line = next(iter(str(problem).splitlines()), "")
            return _fail(problem, f"not enough memory: {first_line:.300}", FAILED)
        return _fail(
            problem, f"{type(problem).__name__}: {problem!s:.300} (set SHORTLIST_DEBUG=1 for a traceback)", FAILED
        )
    except BaseException:  # libraries in other languages may turn Ctrl-C into a BaseException
        if not _interrupts:
            raise
        return _say("interrupted", INTERRUPTED)


def _share_cores() -> None:
    """Let waiting OpenMP threads sleep early; must be called before torch is imported.

    By default torch's OpenMP (libgomp) spins 300,000 times before a waiting thread sleeps, here 1000 times. On a busy
    machine a spinning thread occupies the core that the awaited thread needs, in every operation: training takes tens
    of times as long (``benchmarks/busy_machine.py``). Settings in the environment are kept.
    """
    if "OMP_WAIT_POLICY" not in os.environ:
        os.environ.setdefault("GOMP_SPINCOUNT", "1000")


def _prepare_streams() -> None:
    """Make output possible everywhere: closed streams go nowhere, and what an encoding lacks is written as escapes."""
    for descriptor in (0, 1, 2):  # in order: the lowest free descriptor is taken
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: PTH123, SIM115
        elif hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")


_interrupts: list[int] = []


def _interrupt(number: int, frame: object) -> NoReturn:
    """Raise KeyboardInterrupt and record it: libraries in other languages turn it into errors of their own."""
    _interrupts.append(number)
    raise KeyboardInterrupt


def _fail(problem: BaseException, message: str, code: int) -> int:
    if _interrupts:
        return _say("interrupted", INTERRUPTED)
    if os.environ.get("SHORTLIST_DEBUG", "0") not in {"", "0"}:
        raise problem
    return _say(message, code)


def _show_warning(message: Warning | str, *details: object, **more: object) -> None:
    """Print a warning as one line, like errors."""
    _say(str(message), DONE)


def _say(message: str, code: int) -> int:
    from shortlist.formatting import plain

    print("shortlist:", plain(" ".join(message.split())), file=sys.stderr)
    return code
