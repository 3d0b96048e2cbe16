"""A study on disk, shared by several processes. Trials of a process that ends are queued again."""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from shortlist import __version__
from shortlist.errors import InputError, WriteError, WriteTargetError, missing_extra
from shortlist.files import atomic_file
from shortlist.locks import wait_for_lock
from shortlist.runs import RunLocked
from shortlist.runs.folder import lock, writing
from shortlist.training.checkpoint import config_diff
from shortlist.tuning.space import Space, distributions, rounded

STUDY, LOCKS = "study.db", ".locks"
"""The Optuna database, and the folder with the locks of trials."""

OWN = ("best.safetensors", "trials.csv", "report.html")
"""Further files of a study: the weights of the best trial, the table of the trials and the report."""

NAME = "shortlist"
FORMAT = 1
"""Version of the format; increased when older studies cannot be read."""

RANDOM = 8
"""Number of random trials before the sampler uses their results."""

KEPT = 75.0
"""Percentile of the finished trials at the same epoch that a trial has to reach to avoid pruning."""

MIN_EPOCH_FRACTION = 0.25
"""Fraction of its epochs before a trial can be pruned: high learning rates are better at first only."""

PRESET_MARGIN = 0.01
"""Relative margin by which a trial must exceed those with known settings; it offsets selection bias."""


def adjusted_value(value: float, start: str) -> float:
    """The value on validation with the margin for known settings, where the trial started from them.

    >>> adjusted_value(0.5, "default") > adjusted_value(0.504, "") > adjusted_value(0.5, "")
    True
    """
    return value * (1 + PRESET_MARGIN) if start else value


@dataclass(frozen=True)
class Trial:
    """A trial: its settings and its result."""

    number: int
    state: str
    """``done``, ``pruned`` (stopped early because others were better), ``failed``, ``running`` or ``waiting``."""
    value: float | None
    """On validation: the best epoch of a finished trial, the last reported value of a pruned one."""
    settings: Mapping[str, Any]
    start: str = ""
    """The name of the initial point, if it is one."""
    seconds: float = 0.0
    epochs: int = 0
    why: str = ""


def margin_note(trials: Sequence[Trial], chosen: Trial) -> str:
    """A note on better trials within the margin where one with known settings was chosen; empty otherwise.

    >>> chosen = Trial(0, "done", 0.5, {}, "default")
    >>> margin_note([chosen, Trial(1, "done", 0.504, {})], chosen)
    ' (others reach 0.5040, less than 1 % above known settings)'
    """
    most = max((each.value for each in trials if each.state == "done" and each.value is not None), default=0.0)
    if chosen.value is None or most <= chosen.value:
        return ""
    return f" (others reach {most:.4f}, less than {PRESET_MARGIN:.0%} above known settings)".replace("%", " %")


class Study:
    """The trials in a folder. Any number of processes may work on it at once.

    A process locks its trial. If it is killed, the trial is still marked as running but its lock is free: the next
    process that requests a trial queues its point again. The random state of a trial depends only on the seed and the
    trials before it, so that an interrupted study gives the same results.
    """

    def __init__(self, folder: Path, space: Space, identity: Mapping[str, Any]) -> None:
        self.folder, self.path, self.space = folder, folder / STUDY, space
        self.seed = int(identity["seed"])
        self.identity = json.loads(json.dumps({"format": FORMAT, "shortlist": __version__, **identity}))
        self._study: Any = None

    def exists(self) -> bool:
        """Whether there is a study to resume."""
        return self.path.is_file()

    def remove(self) -> None:
        """Remove the files of a study. Its folder, and the files of others in it, are kept."""
        if not self.exists():
            return
        with writing(self.folder):
            for name in (*(f"{STUDY}{suffix}" for suffix in ("-journal", "-wal", "-shm")), *OWN, STUDY):
                (self.folder / name).unlink(missing_ok=True)
            for path in (self.folder / LOCKS).glob("*"):
                if path.name.isdecimal() and path.is_dir():
                    shutil.rmtree(path)

    def make(self, points: Sequence[tuple[str, Mapping[str, Any]]]) -> None:
        """Create a study with initial points. It is written atomically; an existing one is kept."""
        with self.alone(), self._stored():
            if self.exists():
                return
            with atomic_file(self.path) as draft:
                storage = self._storage(draft)
                study = optuna().create_study(study_name=NAME, storage=storage, direction="maximize")
                study.set_user_attr("identity", self.identity)
                study.set_user_attr("starts", [[name, dict(point)] for name, point in points])
                storage.remove_session()
                storage.engine.dispose()

    def open(self) -> None:
        """Read the study; version, data and settings must be the same."""
        with self._stored():
            try:
                self._study = optuna().load_study(study_name=NAME, storage=self._storage(self.path))
                made = self._study.user_attrs["identity"]
            except (KeyError, RuntimeError) as problem:
                raise self._foreign("something else") from problem
        if (made.get("format"), made.get("shortlist")) != (FORMAT, __version__):
            raise self._foreign(f"one made by {made.get('shortlist')}")
        difference = config_diff(made, self.identity)
        if difference is not None:
            raise InputError(f"{self.path}: made with other data or settings: {difference}")

    @contextmanager
    def next(self, most: int | None = None) -> Iterator[Any]:
        """The next trial, locked for the length of the block; None if there are ``most`` trials already."""
        states = optuna().trial.TrialState
        with ExitStack() as stack:
            with self.alone(), self._stored():
                self._take_back()
                counted = [each for each in self._trials() if each.state not in (states.FAIL, states.WAITING)]
                trial = None
                if most is None or len(counted) < most:
                    self._queue_start()
                    self._study.sampler = optuna().samplers.TPESampler(
                        seed=(self.seed * 1_000_003 + len(counted)) % (1 << 32),
                        multivariate=True,
                        n_startup_trials=RANDOM,
                    )
                    self._study.pruner = optuna().pruners.PercentilePruner(KEPT, n_startup_trials=2)
                    trial = self._study.ask(distributions(self.space))
                    stack.enter_context(lock(self._lock(trial.number)))
            yield trial

    def settings(self, trial: Any) -> dict[str, Any]:
        """The settings of a trial."""
        return rounded({**trial.params, **trial.user_attrs.get("beside", {})})

    def seen(self, trial: Any, value: float, epoch: int, share: float) -> bool:
        """Report a validation value after a fraction of the epochs. Returns whether to prune the trial.

        The first trial, with the default settings, is never pruned: no study ends with a worse result.
        """
        with self._stored():
            trial.report(value, epoch)
            may_stop = MIN_EPOCH_FRACTION <= share < 1 and trial.user_attrs.get("start") != "default"
            return may_stop and bool(trial.should_prune())

    def done(self, trial: Any, value: float | None, **facts: Any) -> Trial:
        """Record the end of a trial. One without a value was pruned, or failed with a reason."""
        state = optuna().trial.TrialState
        with self.alone(), self._stored():
            trial.set_user_attr("facts", facts)
            self._study.tell(trial, value, state=state.COMPLETE if value is not None else state.PRUNED)
            with suppress(OSError):
                self._lock(trial.number).rmdir()
        return next(each for each in self.trials() if each.number == trial.number)

    def put_back(self) -> None:
        """Queue the trials of processes that have ended again."""
        with self.alone(), self._stored():
            self._take_back()

    def trials(self) -> list[Trial]:
        """All trials, except for those that were queued again."""
        states = optuna().trial.TrialState
        names = {states.COMPLETE: "done", states.PRUNED: "pruned", states.RUNNING: "running", states.WAITING: "waiting"}
        found = []
        with self._stored():
            for each in self._trials():
                if each.state == states.FAIL:
                    continue
                facts = each.user_attrs.get("facts", {})
                value = each.value if each.state == states.COMPLETE else _last(each)
                state = "failed" if facts.get("why") else names[each.state]
                start = each.user_attrs.get("start", "")
                found.append(Trial(each.number, state, value, self.settings(each), start, **facts))
        return found

    def best(self) -> Trial | None:
        """The best trial on validation, with the margin for known settings; the first of equal ones."""
        done = [(each.value, each) for each in self.trials() if each.state == "done" and each.value is not None]
        ranked = [((adjusted_value(value, each.start), -each.number), each) for value, each in done]
        return max(ranked, key=lambda each: each[0], default=(None, None))[1]

    @property
    def enough(self) -> int:
        """Number of trials with different values that are needed to estimate the importance of settings."""
        return 2 * len(self.space.searched) + 2

    def importance(self) -> dict[str, float]:
        """Importance of each setting as a fraction, by PED-ANOVA; empty if there are too few trials.

        Pruned trials are included with their last value: they are most of the worse ones.
        """
        from optuna.importance import PedAnovaImportanceEvaluator, get_param_importances

        with self._stored():
            found = [(each, each.value if each.value is not None else _last(each)) for each in self._trials()]
        valued = [(each, value) for each, value in found if value is not None and each.state.is_finished()]
        if len({value for _, value in valued}) < self.enough:
            return {}
        copy = optuna().create_study(direction="maximize")
        for each, value in valued:
            made = optuna().trial.create_trial(params=each.params, distributions=each.distributions, value=value)
            copy.add_trial(made)
        shares = get_param_importances(copy, evaluator=PedAnovaImportanceEvaluator())
        return {name: share for name, share in shares.items() if math.isfinite(share)}

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Lock the study for the length of the block."""
        place = self.folder / LOCKS
        with writing(self.folder):
            place.mkdir(parents=True, exist_ok=True)
        with wait_for_lock(place):
            yield

    def _take_back(self) -> None:
        """Queue the points of trials whose process has ended, each once."""
        states = optuna().trial.TrialState
        trials = self._trials()
        again = {each.user_attrs.get("again") for each in trials}
        for each in trials:
            if each.state != states.RUNNING:
                continue
            try:
                with lock(self._lock(each.number)):
                    pass
            except RunLocked:
                continue
            if each.number not in again:
                point = {**each.params, **each.system_attrs.get("fixed_params", {})}
                kept = {name: value for name, value in each.user_attrs.items() if name != "facts"}
                self._study.enqueue_trial(point, user_attrs={**kept, "again": each.number})
            self._study.tell(each.number, state=states.FAIL)
            with suppress(OSError):
                self._lock(each.number).rmdir()

    def _queue_start(self) -> None:
        """Queue the next initial point, after requeued trials: the order is as without interruption."""
        trials, states = self._trials(), optuna().trial.TrialState
        known = {each.user_attrs.get("start") for each in trials}
        if any(each.state == states.WAITING for each in trials):
            return
        for name, point in self._study.user_attrs["starts"]:
            if name not in known:
                inside, beside = self.space.divided(point)
                self._study.enqueue_trial(inside, user_attrs={"start": name, "beside": beside})
                return

    def _trials(self) -> list[Any]:
        return list(self._study.get_trials(deepcopy=False))

    def _lock(self, number: int) -> Path:
        return self.folder / LOCKS / str(number)

    def _storage(self, path: Path) -> Any:
        patience = {"connect_args": {"timeout": 60.0}}
        return optuna().storages.RDBStorage(f"sqlite:///{path.resolve()}", engine_kwargs=patience)

    def _foreign(self, received: str) -> InputError:
        return InputError(f"{self.path}: expected a study made by shortlist {__version__}, received {received}")

    @contextmanager
    def _stored(self) -> Iterator[None]:
        """Turn database errors into one line."""
        from sqlalchemy.exc import SQLAlchemyError

        try:
            yield
        except (optuna().exceptions.StorageInternalError, SQLAlchemyError) as problem:
            reason = _innermost(problem)
            if "not a database" in reason or "malformed" in reason:
                raise InputError(f"{self.path}: expected a study, received a damaged file ({reason})") from problem
            if "readonly" in reason or "unable to open" in reason:
                raise WriteTargetError(
                    f"{self.path}: expected a study that can be written, received {reason}"
                ) from None
            raise WriteError(f"{self.path}: the study cannot be written: {reason}") from problem
        except OSError as problem:
            raise WriteError(f"{self.path}: the study cannot be written: {problem.strerror}") from problem


def optuna() -> ModuleType:
    """Import Optuna with logging off, or raise an error that says how to install it."""
    try:
        import optuna as package
    except ImportError as error:
        raise missing_extra("tune", "optuna", "tune", error) from error
    package.logging.set_verbosity(package.logging.ERROR)
    return package


def _last(trial: Any) -> float | None:
    """The last reported value of a trial."""
    values = trial.intermediate_values
    return values[max(values)] if values else None


def _innermost(problem: BaseException) -> str:
    """The message of the database itself."""
    while (cause := getattr(problem, "orig", None) or problem.__cause__) is not None:
        problem = cause
    return str(problem)
