"""The work of `shortlist tune`: trials in one process or in several, and the best of them as a run."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shortlist.cli.load_flags import load_options
from shortlist.cli.output import step
from shortlist.cli.tune.progress import live, nobody, say
from shortlist.cli.workers import run_workers
from shortlist.errors import Interrupted

if TYPE_CHECKING:
    from shortlist.data import Split
    from shortlist.runs import Run
    from shortlist.tuning import Space, Study


@dataclass(frozen=True)
class Job:
    """What is tuned, for how long, and where: all that another process needs to help."""

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
        """Where settings are looked for."""
        from shortlist.tuning import space_of

        return space_of(self.model, self.loss, self.k, self.values, self.texts)


def tuned(
    job: Job, out: Path, ks: Sequence[int] | None, *, overwrite: bool, again: str, anew: bool = False
) -> tuple[Run, Study]:
    """Tune, and write the best run; ``again`` is what to do if it is stopped, ``anew`` removes an earlier study."""
    from shortlist.cli.train import watching
    from shortlist.data import load
    from shortlist.runs import checked_ks, default_ks
    from shortlist.tuning import finish, prepare
    from shortlist.tuning.study import optuna

    optuna()  # without it there is no need to read anything
    space, options, started = job.space(), load_options(job.flags), time.perf_counter()
    with step(f"reading {job.data}"):
        split = load(job.data, options)
    seconds = {"load": time.perf_counter() - started}
    lengths = checked_ks([job.k, *(ks or default_ks(split.train.n_items))], split.train.n_items)
    with watching(space.plan({})) as watch:
        study = prepare(
            job.folder,
            space,
            split,
            protocol=options.protocol,
            seed=options.seed,
            until=job.until,
            anew=anew,
            watch=watch,
        )
        try:
            with live(study, job.until) as speak:
                _compute(job, study, split, speak)
        except KeyboardInterrupt:
            done = sum(each.state in ("done", "pruned", "failed") for each in study.trials())
            raise Interrupted(f"stopped after {done} trials; {again}") from None
        source = {"data": {"source": job.data, **options.settings()}}
        outcome = finish(
            study,
            split,
            out,
            config={**source, "protocol": options.protocol, "seed": options.seed},
            ks=lengths,
            seconds=seconds,
            overwrite=overwrite,
            watch=watch,
        )
    return outcome.run, study


def _compute(job: Job, study: Study, split: Split, speak: bool) -> None:
    """Trials, here or in several processes."""
    from shortlist.tuning import work

    if job.jobs == 1:
        work(study, split, until=job.until, most=job.trials, told=say if speak else nobody)
        return
    run_workers("tune", job.jobs, _share, job, speak)


def _share(job: Job, speak: bool) -> None:
    """What one of several processes does."""
    from shortlist.data import load
    from shortlist.tuning import prepare, work

    options = load_options(job.flags)
    split = load(job.data, options)
    study = prepare(job.folder, job.space(), split, protocol=options.protocol, seed=options.seed)
    work(study, split, until=job.until, most=job.trials, told=say if speak else nobody)
