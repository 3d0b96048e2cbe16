"""TensorBoard and MLflow, as places that a run is told to. Each is an extra, imported when it is asked for."""

from __future__ import annotations

import logging
import os
import tempfile
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from shortlist.errors import InputError, ShortlistError, missing_extra, unknown
from shortlist.runs.folder import writing
from shortlist.tracking.base import End, Line, Log, Point, RunInfo, Tracker, digest, figures, in_a_line, points


def tracker(text: str) -> Tracker:
    """A sink from ``tensorboard[=DIR]`` or ``mlflow[=URI]``; the extra that it needs must be installed.

    >>> tracker("tensorbord")
    Traceback (most recent call last):
    ...
    shortlist.errors.InputError: --log: unknown sink 'tensorbord'; did you mean 'tensorboard'? (known: mlflow, ...)
    """
    name, equals, place = text.partition("=")
    if equals and not place:
        raise InputError(f"--log: expected a place after {text!r}, received none")
    if name == "tensorboard":
        return TensorBoard(Path(place or "tensorboard"))
    if name == "mlflow":
        return MLflow(place or os.environ.get("MLFLOW_TRACKING_URI") or "mlruns")
    raise unknown("--log", "sink", name, ["tensorboard", "mlflow"])


@dataclass(frozen=True)
class TensorBoard:
    """A folder that TensorBoard shows, with a folder for each run."""

    place: Path

    def __post_init__(self) -> None:
        _imported("tensorboard", "tensorboard.plugins.hparams.summary_v2")

    @property
    def name(self) -> str:
        """What it is called."""
        return "tensorboard"

    def check(self) -> None:
        """Whether the folder can be written. Leaves nothing behind."""
        with writing(self.place):
            nearest = next(path for path in (self.place, *self.place.absolute().parents) if path.exists())
            Path(tempfile.mkdtemp(dir=nearest)).rmdir()

    def open(self, about: RunInfo) -> Log:
        """Begin a file of events."""
        return _EventFile(self.place, about)


EVENTS = "events.out.tfevents."
"""How the names of files begin that TensorBoard reads."""


class _EventFile:
    """A file of events. It is closed after each epoch: what has been told stays told, and errors come at once.

    A training that goes on tells of all epochs again, in a new file, and so does one that begins anew in the folder of
    an earlier run: the old file declared void and removed, nothing is there twice. Runs of the same name from other
    places are kept apart.
    """

    def __init__(self, place: Path, about: RunInfo) -> None:
        from tensorboard.compat.proto.event_pb2 import SessionLog
        from tensorboard.plugins.hparams.summary_v2 import hparams_pb

        mark, folder = digest(str(about.folder))[:8], place / about.name
        if any(path.suffix != f".{mark}" for path in folder.glob(f"{EVENTS}*")):
            folder = place / f"{about.name}-{mark}"
        folder.mkdir(parents=True, exist_ok=True)
        earlier = list(folder.glob(f"{EVENTS}*.{mark}"))
        # files are read in the order of their names, and two tries may follow one another within a second
        self._path, self._last = folder / f"{EVENTS}{time.time_ns()}.shortlist.{mark}", 0
        settings = {
            name: value if isinstance(value, bool | int | float | str) else str(value)
            for name, value in about.settings().items()
        }
        self._write(
            {"file_version": "brain.Event:2"},
            {"session_log": SessionLog(status=SessionLog.START)},
            {"summary": hparams_pb(settings, trial_id=folder.name)},
        )
        for path in earlier:
            path.unlink()

    def epochs(self, lines: Sequence[Line]) -> None:
        new = points(lines, self._last)
        self._write(*map(_scalars, new))
        self._last = new[-1].step if new else self._last

    def close(self, end: End, metrics: Mapping[str, Any]) -> None:
        if metrics:
            self._write(_scalars(figures(metrics)))

    def _write(self, *events: Mapping[str, Any]) -> None:
        from tensorboard.compat.proto.event_pb2 import Event
        from tensorboard.summary.writer.record_writer import RecordWriter

        with self._path.open("ab") as file:
            records = RecordWriter(file)
            for event in events:
                records.write(Event(**{"wall_time": time.time(), **event}).SerializeToString())


def _scalars(point: Point) -> dict[str, Any]:
    from tensorboard.compat.proto.summary_pb2 import Summary

    values = [Summary.Value(tag=name, simple_value=value) for name, value in point.figures.items()]
    return {"wall_time": point.when, "step": point.step, "summary": Summary(value=values)}


PAUSE = 1.0
"""Seconds from one message to MLflow to the next, at least: small epochs take less time than a message."""

MOST_METRICS, MOST_PARAMS = 1000, 100
"""What MLflow takes at once."""

ENVIRONMENT = {
    "MLFLOW_ALLOW_FILE_STORE": "true",  # who names a folder means one
    "MLFLOW_DISABLE_TELEMETRY": "true",  # nobody else is told
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",  # where --json prints its object
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "2",  # training waits meanwhile
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "10",
}
"""How MLflow is set up where the environment does not say otherwise."""


@dataclass(frozen=True)
class MLflow:
    """A tracking store: a server, a database or a folder."""

    uri: str

    def __post_init__(self) -> None:
        for name, value in ENVIRONMENT.items():
            os.environ.setdefault(name, value)
        with _quiet():
            _imported("mlflow", "mlflow.tracking")

    @property
    def name(self) -> str:
        """What it is called."""
        return "mlflow"

    def check(self) -> None:
        """Whether the store answers, and has an experiment for the runs, or takes one."""
        try:
            self._experiment()
        except Exception as problem:
            raise ShortlistError(
                f"mlflow: expected a tracking store that answers, received {in_a_line(problem)}"
            ) from problem

    def open(self, about: RunInfo) -> Log:
        """Begin a run, or find the one to go on with."""
        return _TrackedRun(*self._experiment(), about)

    def _experiment(self) -> tuple[Any, str]:
        """A client, and the id of the experiment, which is made if it is not there."""
        name = os.environ.get("MLFLOW_EXPERIMENT_NAME") or "shortlist"
        with _quiet():
            from mlflow.exceptions import MlflowException
            from mlflow.tracking import MlflowClient

            client = MlflowClient(self.uri)
            found = client.get_experiment_by_name(name)
            if found is None:
                try:
                    return client, client.create_experiment(name)
                except MlflowException:  # another process was faster, or there is something wrong
                    found = client.get_experiment_by_name(name)
                    if found is None:
                        raise
            return client, found.experiment_id


class _TrackedRun:
    """A run in MLflow. What it has of an earlier try stays, and is not told twice: MLflow would keep both."""

    def __init__(self, client: Any, experiment: str, about: RunInfo) -> None:
        with _quiet():
            from mlflow.entities import Param

            run = _earlier_try(client, experiment, about.key) if about.resumed else None
            if run is None:
                tags = {"shortlist.run": str(about.folder), "shortlist.key": about.key}
                run = client.create_run(experiment, run_name=about.name, tags=tags)
            else:
                client.update_run(run.info.run_id, status="RUNNING")
            self._client, self._id = client, run.info.run_id
            settings = [Param(name, str(value)) for name, value in about.settings().items()]
            missing = [param for param in settings if param.key not in run.data.params]
            for start in range(0, len(missing), MOST_PARAMS):
                client.log_batch(self._id, params=missing[start : start + MOST_PARAMS])
            self._known = {
                (name, entry.step) for name in run.data.metrics for entry in client.get_metric_history(self._id, name)
            }
        self._lines: Sequence[Line] = ()
        self._last, self._sent = 0, float("-inf")

    def epochs(self, lines: Sequence[Line]) -> None:
        self._lines = lines
        if time.monotonic() - self._sent >= PAUSE:
            self._tell(points(lines, self._last))
            self._sent = time.monotonic()

    def close(self, end: End, metrics: Mapping[str, Any]) -> None:
        self._tell([*points(self._lines, self._last), figures(metrics)])
        with _quiet():
            self._client.set_terminated(self._id, end.upper())

    def _tell(self, new: Sequence[Point]) -> None:
        with _quiet():
            from mlflow.entities import Metric

            entries = [
                Metric(name.replace("@", "_at_"), value, int(1000 * point.when), point.step)
                for point in new
                for name, value in point.figures.items()
            ]
            entries = [entry for entry in entries if (entry.key, entry.step) not in self._known]
            for start in range(0, len(entries), MOST_METRICS):
                self._client.log_batch(self._id, metrics=entries[start : start + MOST_METRICS])
        self._last = new[-1].step if new else self._last


def _earlier_try(client: Any, experiment: str, key: str) -> Any:
    """The run that a training that stopped has left, if there is one."""
    found = client.search_runs(
        [experiment],
        f"tags.`shortlist.key` = '{key}' and attributes.status != 'FINISHED'",
        order_by=["attributes.start_time DESC"],
        max_results=1,
    )
    return found[0] if found else None


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep a package from talking: what goes wrong is told in one line, and only once."""
    silenced = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(silenced)


def _imported(package: str, module: str) -> None:
    """See that a package is there, before anything is done."""
    try:
        __import__(module)
    except ImportError as error:
        raise missing_extra("--log", package, package, error) from error
