"""What tuning shows while it goes on: a line in a terminal, a line for each new best elsewhere."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from shortlist.errors import ShortlistError

if TYPE_CHECKING:
    from rich.text import Text

    from shortlist.tuning import Study, Trial


@contextmanager
def live(study: Study, until: float) -> Iterator[bool]:
    """A line on stderr for as long as the work goes on; whether nobody looks at it, and lines are to be printed."""
    from rich.console import Console
    from rich.live import Live

    console = Console(stderr=True)
    if not console.is_terminal:
        yield True
        return
    from shortlist.tuning import Study

    seen = Study(study.folder, study.space, study.identity)  # one of its own: the other is busy in another thread
    seen.open()
    with Live(get_renderable=lambda: _line(seen, until), console=console, refresh_per_second=2, transient=True):
        yield False


def _line(study: Study, until: float) -> Text:
    """Trials done, the time left, the best with its settings: what a narrow terminal cuts off comes last."""
    from rich.text import Text

    try:
        trials, best = study.trials(), study.best()
    except ShortlistError:  # the work itself will say so
        return Text("")
    done = sum(each.state in ("done", "pruned", "failed") for each in trials)
    given_up = sum(each.state == "pruned" for each in trials)
    parts = [f"{done} trials" + (f" ({given_up} given up)" if given_up else "")]
    if until < math.inf:
        left = max(0, round(until - time.monotonic()))
        parts.append(f"{left // 60}:{left % 60:02} left" if left or best else "as long as the first trial takes")
    parts += [f"trial {each.number}" + ("" if each.value is None else f" {each.value:.4f}")
              for each in trials if each.state == "running"]  # fmt: skip
    if best is not None:
        parts.append(f"best {best.value:.4f} with {_settings(best)}")
    return Text("  ".join(parts), overflow="ellipsis", no_wrap=True)


def say(trial: Trial, best: Trial | None) -> None:
    """A line on stderr for a trial that is the best so far, where nobody looks."""
    if best is not None and trial.number == best.number:
        took = f"{trial.seconds:.1f} s"
        print(f"trial {trial.number}: {trial.value:.4f} with {_settings(trial)}, {took}", file=sys.stderr, flush=True)


def nobody(trial: Trial, best: Trial | None) -> None:
    """Nobody is told."""


def _settings(trial: Trial) -> str:
    return " ".join(f"{name}={value}" for name, value in trial.settings.items())
