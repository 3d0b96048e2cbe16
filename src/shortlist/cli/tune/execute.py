"""Execution of `shortlist tune`: trials in one process or several, and the best one as a run."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shortlist.cli.load_flags import load_options, print_notes
from shortlist.cli.tune.progress import ignore_trial, live_line, print_trial
from shortlist.cli.workers import run_workers
from shortlist.errors import Interrupted
from shortlist.progress import progress_bar

if TYPE_CHECKING:
    from shortlist.data import Split
    from shortlist.runs import Run
    from shortlist.tuning import Space, Study


@dataclass(frozen=True)
class Job:
    """A tuning job: everything that a worker process needs."""

    data: str
    folder: Path
    model: str
    loss: str | None
    k: int
    values: Mapping[str, Mapping[str, Any]]
    texts: Mapping[str, Mapping[str, str]]
    flags: dict[str, str]
    until: float = math.inf
    trials: int | None = None
    jobs: int = 1
    began: float = field(default_factory=time.monotonic)

    def space(self) -> Space:
        """The search space."""
        from shortlist.tuning import space_of

        return space_of(self.model, self.loss, self.k, self.values, self.texts)


def run_tuning(
    job: Job,
    out: Path,
    ks: Sequence[int] | None,
    *,
    overwrite: bool,
    again: str,
    anew: bool = False,
    final: bool = False,
) -> tuple[Run, Study]:
    """Tune, and write the best run, refitted on all data if it is to be ``final``.

    ``again`` is the hint after an interruption; ``anew`` removes an earlier study.
    """
    from shortlist.data import load
    from shortlist.experiment import progress_callbacks
    from shortlist.runs import checked_ks, default_ks
    from shortlist.tuning import finish, prepare
    from shortlist.tuning.study import optuna

    optuna()  # fail early if it is not installed
    space, options, started = job.space(), load_options(job.flags), time.perf_counter()
    with progress_bar(f"reading {job.data}"):
        split = load(job.data, options)
    print_notes(split)
    seconds = {"load": time.perf_counter() - started}
    lengths = checked_ks([job.k, *(ks or default_ks(split.train.n_items))], split.train.n_items)
    with progress_callbacks(space.plan({})) as callbacks:
        study = prepare(
            job.folder,
            space,
            split,
            protocol=options.protocol,
            seed=options.seed,
            until=job.until,
            anew=anew,
            callbacks=callbacks,
        )
        try:
            with live_line(study, job.until) as print_lines:
                _compute(job, study, split, print_lines)
        except KeyboardInterrupt:
            done = sum(each.state in ("done", "pruned", "failed") for each in study.trials())
            raise Interrupted(f"stopped after {done} trials; {again}") from None
        source = {"data": {**split.origin, "source": job.data}}
        outcome = finish(
            study,
            split,
            out,
            config={**source, "protocol": options.protocol, "seed": options.seed},
            ks=lengths,
            seconds=seconds,
            overwrite=overwrite,
            callbacks=callbacks,
            final=final,
        )
    return outcome.run, study


def _compute(job: Job, study: Study, split: Split, print_lines: bool) -> None:
    """Run trials in this process or in workers."""
    from shortlist.tuning import work

    if job.jobs == 1:
        work(study, split, until=job.until, most=job.trials, on_trial=print_trial if print_lines else ignore_trial)
        return
    run_workers("tune", job.jobs, _share, job, print_lines)


def _share(job: Job, print_lines: bool) -> None:
    """Run trials in a worker."""
    from shortlist.data import load
    from shortlist.tuning import prepare, work

    options = load_options(job.flags)
    split = load(job.data, options)
    study = prepare(job.folder, job.space(), split, protocol=options.protocol, seed=options.seed)
    work(study, split, until=job.until, most=job.trials, on_trial=print_trial if print_lines else ignore_trial)
