"""Progress of tuning: a live line in a terminal, otherwise a line for each new best trial."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from shortlist.cli.output import echo
from shortlist.errors import ShortlistError
from shortlist.formatting import plain

if TYPE_CHECKING:
    from rich.text import Text

    from shortlist.tuning import Study, Trial


@contextmanager
def live_line(study: Study, until: float) -> Iterator[bool]:
    """Show a live line on stderr for the length of the block. Yields whether lines must be printed instead."""
    from rich.console import Console
    from rich.live import Live

    console = Console(stderr=True)
    if not console.is_terminal:
        yield True
        return
    from shortlist.tuning import Study

    seen = Study(study.folder, study.space, study.identity)  # a second connection: the first is used in another thread
    seen.open()
    with Live(get_renderable=lambda: _line(seen, until), console=console, refresh_per_second=2, transient=True):
        yield False


def _line(study: Study, until: float) -> Text:
    """Finished trials, time left, running trials, and the best with its settings, which is cut off first."""
    from rich.text import Text

    try:
        trials, best = study.trials(), study.best()
    except ShortlistError:  # raised by the work itself
        return Text("")
    done = sum(each.state in ("done", "pruned", "failed") for each in trials)
    given_up = sum(each.state == "pruned" for each in trials)
    parts = [f"{done} trials" + (f" ({given_up} pruned)" if given_up else "")]
    if until < math.inf:
        left = max(0, round(until - time.monotonic()))
        parts.append(f"{left // 60}:{left % 60:02} left" if left or best else "until the first trial ends")
    parts += [f"trial {each.number}" + ("" if each.value is None else f" {each.value:.4f}")
              for each in trials if each.state == "running"]  # fmt: skip
    if best is not None:
        parts.append(f"best {best.value:.4f} with {_settings(best)}")
    return Text(plain("  ".join(parts)), overflow="ellipsis", no_wrap=True)


def print_trial(trial: Trial, best: Trial | None) -> None:
    """Print a trial to stderr if it is the best so far."""
    if best is not None and trial.number == best.number:
        took = f"{trial.seconds:.1f} s"
        echo(f"trial {trial.number}: {trial.value:.4f} with {_settings(trial)}, {took}", err=True)


def ignore_trial(trial: Trial, best: Trial | None) -> None:
    """Print nothing."""


def _settings(trial: Trial) -> str:
    return " ".join(f"{name}={value}" for name, value in trial.settings.items())
