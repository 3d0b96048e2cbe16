"""TensorBoard and MLflow trackers. Each needs an extra, which is imported on use."""

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
from shortlist.tracking.base import End, Line, Log, Point, RunInfo, Tracker, digest, epoch_points, final_point, one_line


def parse_tracker(text: str) -> Tracker:
    """Parse ``tensorboard[=DIR]`` or ``mlflow[=URI]``; the extra must be installed.

    >>> parse_tracker("tensorbord")
    Traceback (most recent call last):
    ...
    shortlist.errors.InputError: --log: unknown tracker 'tensorbord'; did you mean 'tensorboard'? (known: mlflow, ...)
    """
    name, equals, place = text.partition("=")
    if equals and not place:
        raise InputError(f"--log: expected a place after {text!r}, received none")
    if name == "tensorboard":
        return TensorBoard(Path(place or "tensorboard"))
    if name == "mlflow":
        return MLflow(place or os.environ.get("MLFLOW_TRACKING_URI") or "mlruns")
    raise unknown("--log", "tracker", name, ["tensorboard", "mlflow"])


@dataclass(frozen=True)
class TensorBoard:
    """A TensorBoard log directory, with a folder for each run."""

    place: Path

    def __post_init__(self) -> None:
        _imported("tensorboard", "tensorboard.plugins.hparams.summary_v2")

    @property
    def name(self) -> str:
        """The name of the tracker."""
        return "tensorboard"

    def check(self) -> None:
        """Check that the folder can be written to. Leaves nothing behind."""
        with writing(self.place):
            nearest = next(path for path in (self.place, *self.place.absolute().parents) if path.exists())
            Path(tempfile.mkdtemp(dir=nearest)).rmdir()

    def open(self, info: RunInfo) -> Log:
        """Create an event file."""
        return _EventFile(self.place, info)


EVENTS = "events.out.tfevents."
"""Prefix of the file names that TensorBoard reads."""


class _EventFile:
    """An event file. It is closed after each epoch, so that nothing is lost and errors are raised at once.

    A resumed training writes all epochs again to a new file and removes the old one, as does a training that
    overwrites an earlier run: no epoch is logged twice. Runs of the same name in other folders are kept apart.
    """

    def __init__(self, place: Path, info: RunInfo) -> None:
        from tensorboard.compat.proto.event_pb2 import SessionLog
        from tensorboard.plugins.hparams.summary_v2 import hparams_pb

        mark, folder = digest(str(info.folder))[:8], place / info.name
        if any(path.suffix != f".{mark}" for path in folder.glob(f"{EVENTS}*")):
            folder = place / f"{info.name}-{mark}"
        folder.mkdir(parents=True, exist_ok=True)
        earlier = list(folder.glob(f"{EVENTS}*.{mark}"))
        # files are read in the order of their names; two attempts may start within a second
        self._path, self._last = folder / f"{EVENTS}{time.time_ns()}.shortlist.{mark}", 0
        settings = {
            name: value if isinstance(value, bool | int | float | str) else str(value)
            for name, value in info.settings().items()
        }
        self._write(
            {"file_version": "brain.Event:2"},
            {"session_log": SessionLog(status=SessionLog.START)},
            {"summary": hparams_pb(settings, trial_id=folder.name)},
        )
        for path in earlier:
            path.unlink()

    def epochs(self, lines: Sequence[Line]) -> None:
        new = epoch_points(lines, self._last)
        self._write(*map(_scalars, new))
        self._last = new[-1].step if new else self._last

    def close(self, end: End, metrics: Mapping[str, Any]) -> None:
        if metrics:
            self._write(_scalars(final_point(metrics)))

    def _write(self, *events: Mapping[str, Any]) -> None:
        from tensorboard.compat.proto.event_pb2 import Event
        from tensorboard.summary.writer.record_writer import RecordWriter

        with self._path.open("ab") as file:
            records = RecordWriter(file)
            for event in events:
                records.write(Event(**{"wall_time": time.time(), **event}).SerializeToString())


def _scalars(point: Point) -> dict[str, Any]:
    from tensorboard.compat.proto.summary_pb2 import Summary

    values = [Summary.Value(tag=name, simple_value=value) for name, value in point.values.items()]
    return {"wall_time": point.when, "step": point.step, "summary": Summary(value=values)}


PAUSE = 1.0
"""Minimum seconds between two requests to MLflow: short epochs take less time than a request."""

MOST_METRICS, MOST_PARAMS = 1000, 100
"""Limits of one MLflow request."""

ENVIRONMENT = {
    "MLFLOW_ALLOW_FILE_STORE": "true",  # a folder was named explicitly
    "MLFLOW_DISABLE_TELEMETRY": "true",  # no usage reports
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",  # stdout is reserved for --json
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "2",  # training waits for the answer
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "10",
}
"""Default environment of MLflow; variables that are set already are kept."""


@dataclass(frozen=True)
class MLflow:
    """An MLflow tracking store: a server, a database or a folder."""

    uri: str

    def __post_init__(self) -> None:
        for name, value in ENVIRONMENT.items():
            os.environ.setdefault(name, value)
        with _quiet():
            _imported("mlflow", "mlflow.tracking")

    @property
    def name(self) -> str:
        """The name of the tracker."""
        return "mlflow"

    def check(self) -> None:
        """Check that the store answers and that the experiment exists or can be created."""
        try:
            self._experiment()
        except Exception as problem:
            raise ShortlistError(
                f"mlflow: expected a tracking store that answers, received {one_line(problem)}"
            ) from problem

    def open(self, info: RunInfo) -> Log:
        """Start a run, or find the one to resume."""
        return _TrackedRun(*self._experiment(), info)

    def _experiment(self) -> tuple[Any, str]:
        """A client and the id of the experiment, which is created if it does not exist."""
        name = os.environ.get("MLFLOW_EXPERIMENT_NAME") or "shortlist"
        with _quiet():
            from mlflow.exceptions import MlflowException
            from mlflow.tracking import MlflowClient

            client = MlflowClient(self.uri)
            found = client.get_experiment_by_name(name)
            if found is None:
                try:
                    return client, client.create_experiment(name)
                except MlflowException:  # created by another process meanwhile, or a real error
                    found = client.get_experiment_by_name(name)
                    if found is None:
                        raise
            return client, found.experiment_id


class _TrackedRun:
    """A run in MLflow. Values of an earlier attempt are kept and not logged again: MLflow would keep both."""

    def __init__(self, client: Any, experiment: str, info: RunInfo) -> None:
        with _quiet():
            from mlflow.entities import Param

            run = _interrupted_run(client, experiment, info.key) if info.resumed else None
            if run is None:
                tags = {"shortlist.run": str(info.folder), "shortlist.key": info.key}
                run = client.create_run(experiment, run_name=info.name, tags=tags)
            else:
                client.update_run(run.info.run_id, status="RUNNING")
            self._client, self._id = client, run.info.run_id
            settings = [Param(name, str(value)) for name, value in info.settings().items()]
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
            self._log(epoch_points(lines, self._last))
            self._sent = time.monotonic()

    def close(self, end: End, metrics: Mapping[str, Any]) -> None:
        self._log([*epoch_points(self._lines, self._last), final_point(metrics)])
        with _quiet():
            self._client.set_terminated(self._id, end.upper())

    def _log(self, new: Sequence[Point]) -> None:
        with _quiet():
            from mlflow.entities import Metric

            entries = [
                Metric(name.replace("@", "_at_"), value, int(1000 * point.when), point.step)
                for point in new
                for name, value in point.values.items()
            ]
            entries = [entry for entry in entries if (entry.key, entry.step) not in self._known]
            for start in range(0, len(entries), MOST_METRICS):
                self._client.log_batch(self._id, metrics=entries[start : start + MOST_METRICS])
        self._last = new[-1].step if new else self._last


def _interrupted_run(client: Any, experiment: str, key: str) -> Any:
    """The unfinished run of an interrupted training, if there is one."""
    found = client.search_runs(
        [experiment],
        f"tags.`shortlist.key` = '{key}' and attributes.status != 'FINISHED'",
        order_by=["attributes.start_time DESC"],
        max_results=1,
    )
    return found[0] if found else None


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence a package: its errors are reported once, as one line."""
    silenced = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(silenced)


def _imported(package: str, module: str) -> None:
    """Check that a package is installed."""
    try:
        __import__(module)
    except ImportError as error:
        raise missing_extra("--log", package, package, error) from error
