"""A study on the disk: trials that several processes take and give back, and that a kill does not lose."""

from __future__ import annotations

import fcntl
import json
import math
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from shortlist import __version__
from shortlist.errors import InputError, WriteError, WriteTargetError, missing_extra
from shortlist.runs import RunLocked
from shortlist.runs.folder import lock, writing
from shortlist.training.checkpoint import config_diff
from shortlist.tuning.space import Space, distributions, rounded

STUDY, LOCKS = "study.db", ".locks"
"""The study itself, which Optuna reads and writes, and where the locks of trials are."""

NAME = "shortlist"
FORMAT = 1
"""Grows when what a study holds means something else."""

RANDOM = 8
"""How many trials there are before what they say decides where the next one is."""

KEPT = 75.0
"""The percentage of the trials that were brought to their end within which a trial has to be at the same epoch."""

MIN_EPOCH_FRACTION = 0.25
"""The share of its epochs that any trial is given: high learning rates are quick, and not the best for that."""

PRESET_MARGIN = 0.01
"""By what share a trial has to be better than those that began from known settings: the best of many is too good."""


def adjusted_value(value: float, start: str) -> float:
    """What a value on validation counts for, by the name of the known settings that it began from, if any.

    >>> adjusted_value(0.5, "default") > adjusted_value(0.504, "") > adjusted_value(0.5, "")
    True
    """
    return value * (1 + PRESET_MARGIN) if start else value


@dataclass(frozen=True)
class Trial:
    """What a trial tried and what came of it."""

    number: int
    state: str
    """``done``, ``pruned`` (given up as others were better by then), ``failed``, ``running`` or ``waiting``."""
    value: float | None
    """On validation: the best epoch's for one that is done, the last that was seen for one that was given up."""
    settings: Mapping[str, Any]
    start: str = ""
    """The name of the point that it began from, for the first ones."""
    seconds: float = 0.0
    epochs: int = 0
    why: str = ""


def margin_note(trials: Sequence[Trial], taken: Trial) -> str:
    """In words, what other trials reached where one of known settings was taken; nothing where none was better.

    >>> taken = Trial(0, "done", 0.5, {}, "default")
    >>> margin_note([taken, Trial(1, "done", 0.504, {})], taken)
    ' (others reach 0.5040, which is not 1 % above known settings)'
    """
    most = max((each.value for each in trials if each.state == "done" and each.value is not None), default=0.0)
    if taken.value is None or most <= taken.value:
        return ""
    return f" (others reach {most:.4f}, which is not {PRESET_MARGIN:.0%} above known settings)".replace("%", " %")


class Study:
    """The trials of a folder. Any number of processes may work on it at once.

    A process holds a lock for its trial. One that is killed leaves a trial that runs for ever by the study's account
    but whose lock is free: whoever asks for work next puts its point back in the queue. What is drawn for a trial
    depends on the seed and on the trials before it alone, so that a study that was killed goes on as it would have.
    """

    def __init__(self, folder: Path, space: Space, identity: Mapping[str, Any]) -> None:
        self.folder, self.path, self.space = folder, folder / STUDY, space
        self.seed = int(identity["seed"])
        self.identity = json.loads(json.dumps({"format": FORMAT, "shortlist": __version__, **identity}))
        self._study: Any = None

    def exists(self) -> bool:
        """Whether there is one to go on with."""
        return self.path.is_file()

    def remove(self) -> None:
        """Remove a study with all that belongs to it; a folder without one is left alone."""
        if self.exists():
            with writing(self.folder):
                shutil.rmtree(self.folder)

    def make(self, starts: Sequence[tuple[str, Mapping[str, Any]]]) -> None:
        """Begin a study with points that are tried first. It appears whole; where there is one already, that stays."""
        draft = self.folder / f".{STUDY}.new"
        with self.alone(), self._stored():
            if self.exists():
                return
            draft.unlink(missing_ok=True)
            storage = self._storage(draft)
            study = optuna().create_study(study_name=NAME, storage=storage, direction="maximize")
            study.set_user_attr("identity", self.identity)
            study.set_user_attr("starts", [[name, dict(point)] for name, point in starts])
            storage.remove_session()
            storage.engine.dispose()
            draft.replace(self.path)

    def open(self) -> None:
        """Read the study, if it is of this version, and about the same data and settings."""
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
        """A trial to run, held for as long as the context lasts; none when there are ``most`` already."""
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
        """What a trial is to try."""
        return rounded({**trial.params, **trial.user_attrs.get("beside", {})})

    def seen(self, trial: Any, value: float, epoch: int, share: float) -> bool:
        """Write down what validation says when a share of the epochs is done; whether to give the trial up.

        The first trial is what training does by itself, and is never given up: nothing worse can come of a study.
        """
        with self._stored():
            trial.report(value, epoch)
            may_stop = MIN_EPOCH_FRACTION <= share < 1 and trial.user_attrs.get("start") != "default"
            return may_stop and bool(trial.should_prune())

    def done(self, trial: Any, value: float | None, **facts: Any) -> Trial:
        """Write down how a trial ended; one without a value was given up, or failed with a reason."""
        state = optuna().trial.TrialState
        with self.alone(), self._stored():
            trial.set_user_attr("facts", facts)
            self._study.tell(trial, value, state=state.COMPLETE if value is not None else state.PRUNED)
            with suppress(OSError):
                self._lock(trial.number).rmdir()
        return next(each for each in self.trials() if each.number == trial.number)

    def put_back(self) -> None:
        """Queue again what nobody runs any more."""
        with self.alone(), self._stored():
            self._take_back()

    def trials(self) -> list[Trial]:
        """All trials, but for those that were queued again."""
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
        """The best on validation, with a head start for known settings; the first of them where several are."""
        done = [(each.value, each) for each in self.trials() if each.state == "done" and each.value is not None]
        ranked = [((adjusted_value(value, each.start), -each.number), each) for value, each in done]
        return max(ranked, key=lambda each: each[0], default=(None, None))[1]

    @property
    def enough(self) -> int:
        """How many trials of different figures it takes to tell the importance of settings."""
        return 2 * len(self.space.searched) + 2

    def importance(self) -> dict[str, float]:
        """How much each setting sets the better trials apart, as shares, by PED-ANOVA; none where trials are few.

        Trials that were given up count with what they had reached: they are most of the worse ones.
        """
        from optuna.importance import PedAnovaImportanceEvaluator, get_param_importances

        with self._stored():
            found = [(each, each.value if each.value is not None else _last(each)) for each in self._trials()]
        valued = [(each, value) for each, value in found if value is not None and each.state.is_finished()]
        if len({value for _, value in valued}) < self.enough:
            return {}
        whole = optuna().create_study(direction="maximize")
        for each, value in valued:
            made = optuna().trial.create_trial(params=each.params, distributions=each.distributions, value=value)
            whole.add_trial(made)
        shares = get_param_importances(whole, evaluator=PedAnovaImportanceEvaluator())
        return {name: share for name, share in shares.items() if math.isfinite(share)}

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Hold other processes off for a moment."""
        place = self.folder / LOCKS
        with writing(self.folder):
            place.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(place, os.O_RDONLY)
        try:
            with suppress(OSError):  # a file system without locks holds nobody off
                fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)

    def _take_back(self) -> None:
        """Queue the points of trials whose process is gone, each once."""
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
        """Queue the next of the points to begin with, behind what was taken back: the order is that of no kill."""
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
        """Say in one line why a study cannot be read or written."""
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
    """The package, quiet; or an error that says how to install it."""
    try:
        import optuna as package
    except ImportError as error:
        raise missing_extra("tune", "optuna", "tune", error) from error
    package.logging.set_verbosity(package.logging.ERROR)
    return package


def _last(trial: Any) -> float | None:
    """What a trial that was given up had reached."""
    values = trial.intermediate_values
    return values[max(values)] if values else None


def _innermost(problem: BaseException) -> str:
    """What the database itself said."""
    while (cause := getattr(problem, "orig", None) or problem.__cause__) is not None:
        problem = cause
    return str(problem)
