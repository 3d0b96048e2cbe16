"""Progress bars of an experiment."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from shortlist.experiment.config import ExperimentConfig
from shortlist.experiment.experiment import Callbacks
from shortlist.progress import progress_bar
from shortlist.training import Progress


@contextmanager
def progress_callbacks(chosen: ExperimentConfig) -> Iterator[Callbacks]:
    """A progress bar for each stage of an experiment; that of training shows loss and validation."""
    report: list[Any] = [lambda done, total, label="": None]

    @contextmanager
    def stage(label: str) -> Iterator[None]:
        with progress_bar(label) as report[0]:
            yield

    def epoch(progress: Progress, share: float) -> None:
        report[0](progress.epoch + share, chosen.training.epochs, _label(progress, chosen))

    yield Callbacks(stage=stage, epoch=epoch, evaluation=lambda done, total: report[0](done, total))


def _label(progress: Progress, chosen: ExperimentConfig) -> str:
    """Epoch, loss, validation value and its best, in one line."""
    parts = [f"epoch {progress.epoch}/{chosen.training.epochs}"]
    if progress.epoch:
        parts.append(f"loss {progress.loss:.4f}")
    if progress.value is not None:
        name, k = chosen.decides()
        parts.append(f"{name}@{k} {progress.value:.4f} (best {progress.best_value:.4f} at {progress.best_epoch})")
    return "  ".join(parts)
