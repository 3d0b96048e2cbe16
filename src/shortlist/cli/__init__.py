"""The command `shortlist`."""

from __future__ import annotations

import os
import signal
import sys
import warnings
from collections.abc import Sequence
from typing import NoReturn

DONE, FAILED, BAD_INPUT, INTERRUPTED = 0, 1, 2, 130
"""Exit codes; each but the first comes with one clear line on stderr."""


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the command and exit. With ``SHORTLIST_DEBUG=1`` in the environment, failures show where they come from."""
    _share_cores()
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _interrupt)
    try:
        sys.exit(run(sys.argv[1:] if arguments is None else arguments))
    except KeyboardInterrupt:  # while the commands were being imported
        sys.exit(_say("interrupted", INTERRUPTED))


def run(arguments: Sequence[str]) -> int:
    """Run the command; its exit code."""
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
        return _fail(problem, str(problem), BAD_INPUT)
    except Interrupted as problem:
        return _say(str(problem), INTERRUPTED)
    except ShortlistError as problem:
        return _fail(problem, str(problem), FAILED)
    except BrokenPipeError:  # whoever read our output has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
    except (KeyboardInterrupt, Abort):
        return _say("interrupted", INTERRUPTED)
    except Exception as problem:
        return _fail(problem, f"{type(problem).__name__}: {problem!s:.300} (SHORTLIST_DEBUG=1 tells more)", FAILED)
    except BaseException:  # a library in another language makes a panic of Ctrl-C, which is no Exception
        if not _interrupts:
            raise
        return _say("interrupted", INTERRUPTED)


def _share_cores() -> None:
    """Let a thread that waits for others soon go to sleep; to be called before torch is loaded.

    By default torch's OpenMP (libgomp) turns its waiting loop 300,000 times first, here 1000 times. Where another
    program wants a core as well, the spinning thread holds the core that the awaited one needs, in every operation of
    every step: training takes tens of times as long (``benchmarks/busy_machine.py``). What the environment already says
    is left alone.
    """
    if "OMP_WAIT_POLICY" not in os.environ:
        os.environ.setdefault("GOMP_SPINCOUNT", "1000")


_interrupts: list[int] = []


def _interrupt(number: int, frame: object) -> NoReturn:
    """What Python does by itself, and remembered: libraries in other languages turn it into errors of their own."""
    _interrupts.append(number)
    raise KeyboardInterrupt


def _fail(problem: BaseException, message: str, code: int) -> int:
    if _interrupts:
        return _say("interrupted", INTERRUPTED)
    if os.environ.get("SHORTLIST_DEBUG", "0") not in {"", "0"}:
        raise problem
    return _say(message, code)


def _show_warning(message: Warning | str, *details: object, **more: object) -> None:
    """Print a warning as one line, as errors are."""
    _say(str(message), DONE)


def _say(message: str, code: int) -> int:
    print("shortlist:", " ".join(message.split()), file=sys.stderr)
    return code
