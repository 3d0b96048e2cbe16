"""TensorBoard and MLflow are told all of a training, once, whatever happens: read by readers of their own."""

import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NoReturn

import pytest

from attempts import SOURCE, contents
from command import Command, says
from shortlist.data import load as load_data
from shortlist.experiment import Callbacks, fit, plan
from shortlist.runs import CHECKPOINT, open_run
from shortlist.tracking import MLflow, TensorBoard, Tracker, trackers
from shortlist.tracking.base import flatten
from shortlist.training import Progress
from shortlist.training.checkpoint import load

SETTINGS = (
    "model.dim=8",
    "loss.tau=0.2",
    "optimizer.lr=0.05",
    "training.validate_every=2",
    "training.temperature_epochs=0",
)


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """As it is set up for MLflow, until the test is over."""
    for name, value in trackers.ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    for name in ("MLFLOW_TRACKING_URI", "MLFLOW_EXPERIMENT_NAME"):
        monkeypatch.delenv(name, raising=False)


def words(table: Path, folder: Path, *others: object, epochs: int = 6) -> list[object]:
    """A training that tells both."""
    settings = [word for text in (*SETTINGS, f"training.epochs={epochs}") for word in ("--set", text)]
    both = ["--log", f"tensorboard={folder / 'boards'}", "--log", f"mlflow={folder / 'store'}"]
    return ["train", table, "--loss", "slatk", "--k", 10, "--json", *settings, "--out", folder / "run", *both, *others]


def interrupt(*_: object, **__: object) -> NoReturn:
    raise KeyboardInterrupt


Curves = dict[str, list[tuple[int, float]]]
"""Steps and values by name."""


def board(folder: Path) -> tuple[Curves, dict[str, Any]]:
    """The scalars and the settings that TensorBoard reads."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    from tensorboard.plugins.hparams import metadata

    reader = EventAccumulator(str(folder), size_guidance={"scalars": 0})
    reader.Reload()
    curves = {tag: [(each.step, each.value) for each in reader.Scalars(tag)] for tag in reader.Tags()["scalars"]}
    content = reader.SummaryMetadata(metadata.SESSION_START_INFO_TAG).plugin_data.content
    settings = metadata.parse_session_start_info_plugin_data(content).hparams
    return curves, {name: getattr(value, value.WhichOneof("kind")) for name, value in settings.items()}


def tracked(store: Path) -> list[tuple[Any, Curves]]:
    """The runs that MLflow has, each with the whole history of its metrics."""
    from mlflow.tracking import MlflowClient

    client = MlflowClient(str(store))
    experiment = client.get_experiment_by_name("shortlist")
    assert experiment is not None
    found = []
    for run in client.search_runs([experiment.experiment_id]):
        history = {name: client.get_metric_history(run.info.run_id, name) for name in run.data.metrics}
        found.append((run, {name: [(each.step, each.value) for each in entries] for name, entries in history.items()}))
    return found


def epochs_of(run: Path) -> Curves:
    """The curves of a run by its own log."""
    curves: Curves = {}
    before = 0.0
    for line in map(json.loads, (run / "log.jsonl").read_text().splitlines()):
        if "epoch" in line:
            step, values = line.pop("epoch"), dict(line)
            values["seconds"], before = line["seconds"] - before, line["seconds"]
            for name, value in values.items():
                curves.setdefault(f"epoch/{name.replace(' ', '_')}", []).append((step, value))
    return curves


def figures_of(run: Path) -> Curves:
    """What the run was measured to do, at the epoch that it kept."""
    metrics = open_run(run).metrics
    parts = {f"{part}/{name}": value for part in ("test", "valid", "seconds") for name, value in metrics[part].items()}
    counts = {name: metrics[name] for name in ("users", "skipped_users", "epochs")}
    return {name: [(metrics["epochs"], value)] for name, value in {**parts, **counts}.items()}


def assert_same(answer_json: Curves, own: Curves, *, times: bool = True) -> None:
    """To the precision of TensorBoard, which keeps 32 bits; the seconds to those of the log."""
    assert answer_json.keys() == own.keys()
    for name in answer_json:
        assert [step for step, _ in answer_json[name]] == [step for step, _ in own[name]], name
        if times or name != "epoch/seconds":
            assert [value for _, value in answer_json[name]] == pytest.approx(
                [value for _, value in own[name]], rel=1e-6
            ), name


def by_mlflow(curves: Curves) -> Curves:
    return {name.replace("@", "_at_"): values for name, values in curves.items()}


class TestTrain:
    def test_all_values_are_logged(self, shortlist: Command, clicks: Path, tmp_path: Path) -> None:
        answer = shortlist(*words(clicks, tmp_path))
        assert (answer.code, answer.err) == (0, "")
        out = tmp_path / "run"
        assert answer.json == {"run": str(out), **json.loads((out / "metrics.json").read_text())}
        own = {**epochs_of(out), **figures_of(out)}
        assert [step for step, _ in own["epoch/loss"]] == [1, 2, 3, 4, 5, 6]
        assert [step for step, _ in own["epoch/valid_ndcg"]] == [2, 4, 6]
        curves, settings = board(tmp_path / "boards" / "run")
        assert_same(curves, own)
        ((run, history),) = tracked(tmp_path / "store")
        assert_same(history, by_mlflow(own))
        assert (run.info.run_name, run.info.status) == ("run", "FINISHED")
        assert run.data.tags["shortlist.run"] == str(out)
        config = open_run(out).config
        assert settings["run"] == run.data.params["run"] == str(out)
        for section in ("model", "loss", "optimizer", "training", "data"):
            for name, value in flatten(config[section], ".").items():
                plain = value if isinstance(value, bool | int | float | str) else str(value)
                assert settings[f"{section}.{name}"] == plain
                assert run.data.params[f"{section}.{name}"] == str(value)
        assert {name.split(".")[0] for name in settings} == config.keys() - {"format"} | {"run"}
        assert sorted(path.name for path in tmp_path.iterdir()) == ["boards", "run", "store"]

    def test_the_run_itself_is_the_same(self, shortlist: Command, clicks: Path, tmp_path: Path) -> None:
        assert shortlist(*words(clicks, tmp_path)).code == 0
        plain = words(clicks, tmp_path / "plain")
        assert shortlist(*plain[: plain.index("--log")]).code == 0
        assert contents(tmp_path / "run") == contents(tmp_path / "plain" / "run")

    def test_a_baseline_has_only_metrics(self, shortlist: Command, clicks: Path, tmp_path: Path) -> None:
        out = tmp_path / "ease"
        log = ["--log", f"tensorboard={tmp_path / 'boards'}", "--log", f"mlflow={tmp_path / 'store'}"]
        assert shortlist("train", clicks, "--model", "ease", "--out", out, *log).err == ""
        curves, settings = board(tmp_path / "boards" / "ease")
        assert_same(curves, figures_of(out))
        assert settings["model.name"] == "ease"
        ((run, history),) = tracked(tmp_path / "store")
        assert_same(history, by_mlflow(figures_of(out)))
        assert run.data.params["model.regularization"] == str(settings["model.regularization"])

    def test_a_new_training_replaces_the_old_log(self, shortlist: Command, clicks: Path, tmp_path: Path) -> None:
        """In TensorBoard, where a folder is a run; MLflow keeps both."""
        assert shortlist(*words(clicks, tmp_path, epochs=8)).code == 0
        assert shortlist(*words(clicks, tmp_path, "--overwrite", "--seed", 1)).code == 0
        own = {**epochs_of(tmp_path / "run"), **figures_of(tmp_path / "run")}
        curves, settings = board(tmp_path / "boards" / "run")
        assert_same(curves, own)
        assert settings["seed"] == 1
        runs = {run.data.params["seed"]: history for run, history in tracked(tmp_path / "store")}
        assert_same(runs["1"], by_mlflow(own))
        assert len(runs["0"]["epoch/loss"]) == 8

    def test_a_duplicate_tracker_is_used_once(self, shortlist: Command, clicks: Path, tmp_path: Path) -> None:
        twice = ["--log", f"mlflow={tmp_path / 'store'}"] * 2
        assert shortlist("train", clicks, "--model", "popularity", "--out", tmp_path / "run", *twice).err == ""
        assert [run.info.status for run, _ in tracked(tmp_path / "store")] == ["FINISHED"]

    def test_runs_of_one_name_are_kept_apart(self, shortlist: Command, clicks: Path, tmp_path: Path) -> None:
        log = ["--log", f"tensorboard={tmp_path / 'boards'}"]
        for place, model in (("here", "ease"), ("there", "popularity"), ("there", "item_knn")):
            given = ["--model", model, "--out", tmp_path / place / "run", "--overwrite"]
            assert shortlist("train", clicks, *given, *log).err == ""
        first, second = sorted((tmp_path / "boards").iterdir())
        assert first.name == "run"
        assert second.name.startswith("run-")
        assert [board(folder)[1]["model.name"] for folder in (first, second)] == ["ease", "item_knn"]
        assert [len(list(folder.iterdir())) for folder in (first, second)] == [1, 1]

    def test_the_places_where_none_are_named(
        self, shortlist: Command, clicks: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(tmp_path)
        given = ["train", clicks, "--model", "popularity", "--log", "tensorboard", "--log", "mlflow", "--out"]
        assert shortlist(*given, "one").err == ""
        assert sorted(path.name for path in tmp_path.iterdir()) == ["mlruns", "one", "tensorboard"]
        monkeypatch.setenv("MLFLOW_TRACKING_URI", str(tmp_path / "elsewhere"))
        assert shortlist(*given, "two").err == ""
        for place, name in (("mlruns", "one"), ("elsewhere", "two")):
            assert [run.info.run_name for run, _ in tracked(tmp_path / place)] == [name]

    def test_cells_of_a_grid_are_runs_named_as_their_folders(
        self, shortlist: Command, clicks: Path, tmp_path: Path
    ) -> None:
        grid, out = tmp_path / "grid.yaml", tmp_path / "out"
        quick = "{model.dim: 8, training.epochs: 3, training.validate_every: 1, loss.tau: 0.2}"
        grid.write_text(
            "title: Small\ndatasets: [clicks.csv]\nlosses: [sl]\nbaselines: [popularity]\nseeds: [0, 1]\nk: 5\n"
            f"metrics: [ndcg@5]\nsettings:\n- {{when: {{model: mf}}, set: {quick}}}\n"
        )
        log = ["--log", f"tensorboard={tmp_path / 'boards'}", "--log", f"mlflow={tmp_path / 'store'}"]
        assert shortlist("bench", grid, "--data", clicks.parent, "--out", out, "--json", *log).code == 0
        names = {path.name for path in out.iterdir() if (path / "config.json").is_file()}
        assert len(names) == 4
        runs = {run.info.run_name: (run, history) for run, history in tracked(tmp_path / "store")}
        assert {path.name for path in (tmp_path / "boards").iterdir()} == names == runs.keys()
        for name in names:
            own = {**epochs_of(out / name), **figures_of(out / name)}
            assert_same(board(tmp_path / "boards" / name)[0], own)
            run, history = runs[name]
            assert_same(history, by_mlflow(own))
            assert run.data.params["seed"] == str(open_run(out / name).config["seed"])


class TestResume:
    def test_after_a_kill(self, shortlist: Command, clicks: Path, tmp_path: Path) -> None:
        """Killed when more had been told than the checkpoint holds. No database is needed for any of it."""
        arguments = words(clicks, tmp_path, "--set", "training.checkpoint_every=0.3", epochs=400)
        arguments += ["--set", "training.patience=1000", "--set", "training.beat_popularity=false"]
        out = tmp_path / "run"

        def kept() -> int:
            return int(load(out / CHECKPOINT).facts["progress"]["epoch"])

        for _ in range(3):  # a checkpoint may come between the look and the kill
            answer_json = killed(arguments, tmp_path, when=lambda epochs: 0 < kept() < epochs - 1)
            if 0 < kept() < answer_json:
                break
        else:
            pytest.fail("never killed between two checkpoints")
        ((run, _),) = tracked(tmp_path / "store")
        assert run.info.status == "RUNNING"
        answer = shortlist(*arguments, "--resume")
        assert (answer.code, answer.err) == (0, "")
        own = {**epochs_of(out), **figures_of(out)}
        assert [step for step, _ in own["epoch/loss"]] == list(range(1, 401))
        assert_same(board(tmp_path / "boards" / "run")[0], own)
        ((ended, whole),) = tracked(tmp_path / "store")
        assert_same(whole, by_mlflow(own), times=False)  # what was told before it was killed took its own time
        assert (ended.info.run_id, ended.info.status) == (run.info.run_id, "FINISHED")
        assert ended.data.params == run.data.params

    def test_resumed_with_a_new_tracker(self, shortlist: Command, clicks: Path, tmp_path: Path) -> None:
        arguments = words(clicks, tmp_path, "--set", "training.checkpoint_every=0")
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("shortlist.experiment.experiment.evaluate_task", interrupt)
            quiet = [word for word in arguments if word != "--log" and "=" + str(tmp_path) not in str(word)]
            assert shortlist(*quiet).code == 130
        assert shortlist(*arguments, "--resume").err == ""
        own = {**epochs_of(tmp_path / "run"), **figures_of(tmp_path / "run")}
        assert_same(board(tmp_path / "boards" / "run")[0], own)
        ((_, history),) = tracked(tmp_path / "store")
        assert_same(history, by_mlflow(own))

    def test_the_final_status_is_logged(self, shortlist: Command, clicks: Path, tmp_path: Path) -> None:
        arguments = words(clicks, tmp_path, "--set", "training.checkpoint_every=0")
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("shortlist.experiment.experiment.evaluate_task", interrupt)
            assert shortlist(*arguments).code == 130
        ((run, history),) = tracked(tmp_path / "store")
        assert run.info.status == "KILLED"
        assert "test/ndcg_at_10" not in history
        assert shortlist(*arguments, "--resume").err == ""
        ((run, history),) = tracked(tmp_path / "store")
        assert run.info.status == "FINISHED"
        assert [step for step, _ in history["epoch/loss"]] == [1, 2, 3, 4, 5, 6]

    def test_a_failure_is_logged(self, shortlist: Command, clicks: Path, tmp_path: Path) -> None:
        arguments = words(clicks, tmp_path, "--set", "optimizer.lr=1e30")
        arguments[arguments.index("slatk")] = "bpr"
        place = arguments.index("loss.tau=0.2")
        answer = shortlist(*arguments[: place - 1], *arguments[place + 1 :])
        assert answer.code == 1
        assert "became" in answer.err
        ((run, history),) = tracked(tmp_path / "store")
        assert run.info.status == "FAILED"
        assert "test/ndcg_at_10" not in history


def killed(arguments: list[object], folder: Path, when: Callable[[int], bool]) -> int:
    """Start the command without the packages that it must not need, kill it, and say how much it had told both."""
    for name in ("run", "boards", "store"):
        shutil.rmtree(folder / name, ignore_errors=True)
    program = (
        "import sys; sys.modules.update(sqlalchemy=None, alembic=None, tensorflow=None, pandas=None);"
        "import shortlist.cli as cli, shortlist.tracking.trackers as trackers; trackers.PAUSE = 0; cli.main()"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", program, *map(str, arguments)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env={**os.environ, "PYTHONPATH": SOURCE, "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    log, end = folder / "run" / "log.jsonl", time.monotonic() + 120
    while not (log.is_file() and when(log.read_text().count("\n"))):
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < end
        time.sleep(0.002)
    process.kill()
    assert process.communicate()[1] == ""
    assert process.returncode == -signal.SIGKILL
    ((_, history),) = tracked(folder / "store")
    return min(len(curves["epoch/loss"]) for curves in (board(folder / "boards" / "run")[0], history))


class TestFailuresInTheMiddle:
    """A line of warning, and the run is as it would have been."""

    @pytest.fixture
    def trained(self, clicks: Path, tmp_path: Path) -> Callable[..., tuple[Path, list[str]]]:
        def train(name: str, *places: Tracker, epoch: Callable[[int], None] = lambda number: None) -> Any:
            values = {"model": {"dim": 8}, "loss": {"tau": 0.2}, "training": {"epochs": 6, "validate_every": 2}}
            warned: list[str] = []

            def at(progress: Progress, share: float) -> None:
                if share == 0:
                    epoch(progress.epoch)

            callbacks = Callbacks(epoch=at, warning=warned.append)
            config = {"data": {"source": "clicks"}, "protocol": "shortlist", "seed": 0}
            fit(plan("mf", "slatk", 10, values=values), load_data(clicks), tmp_path / name, config=config,
                callbacks=callbacks, trackers=places)  # fmt: skip
            return tmp_path / name, warned

        return train

    def test_a_store_that_is_gone(
        self, trained: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(trackers, "PAUSE", 0.0)
        store = tmp_path / "store"

        def remove(epoch: int) -> None:
            if epoch == 3:
                shutil.rmtree(store)
                store.write_text("no store")

        places = (MLflow(str(store)), TensorBoard(tmp_path / "boards"))
        out, warned = trained("run", *places, epoch=remove)
        (line,) = warned
        assert line.startswith("mlflow: tracking disabled after an error; training continues: ")
        assert "\n" not in line
        assert contents(out) == contents(trained("undisturbed")[0])
        assert_same(board(tmp_path / "boards" / "run")[0], {**epochs_of(out), **figures_of(out)})  # the other is told

    def test_no_room(self, trained: Callable[..., Any], tmp_path: Path) -> None:
        """A limit on the size of files stands for a disk that is full; what was told before can be read."""
        before = resource.getrlimit(resource.RLIMIT_FSIZE)

        def fill(epoch: int) -> None:
            (events,) = (tmp_path / "boards" / "run").iterdir()
            limit = events.stat().st_size if epoch == 3 else before[0]
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, before[1]))

        try:
            out, warned = trained("run", TensorBoard(tmp_path / "boards"), epoch=fill)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
        assert warned == [
            "tensorboard: tracking disabled after an error; training continues: [Errno 27] File too large"
        ]
        assert contents(out) == contents(trained("undisturbed")[0])
        assert [step for step, _ in board(tmp_path / "boards" / "run")[0]["epoch/loss"]] == [1, 2, 3]

    def test_a_server_that_is_gone(
        self, shortlist: Command, clicks: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(trackers, "PAUSE", 0.0)
        monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
        with server(most_batches=3) as (uri, batches):
            arguments = words(clicks, tmp_path)
            answer = shortlist(*arguments[: arguments.index("--log")], "--log", f"mlflow={uri}")
        assert answer.code == 0
        assert answer.err.count("\n") == 1
        assert answer.err.startswith("shortlist: mlflow: tracking disabled after an error; training continues: ")
        answer_json = {(entry["key"], entry["step"]) for batch in batches for entry in batch.get("metrics", [])}
        assert {("epoch/loss", 1), ("epoch/loss", 2)} <= answer_json
        assert ("epoch/loss", 4) not in answer_json
        assert open_run(tmp_path / "run").metrics == {key: answer.json[key] for key in answer.json if key != "run"}


@contextmanager
def server(most_batches: int) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """As much of MLflow's server as a run needs, up to a batch after which it breaks off every connection."""
    batches: list[dict[str, Any]] = []
    answers = {
        "experiments/get-by-name": {"experiment": {"experiment_id": "1", "name": "shortlist"}},
        "runs/create": {"run": {"info": {"run_id": "a", "run_uuid": "a", "status": "RUNNING"}, "data": {}}},
        "runs/log-batch": {},
    }

    class Handler(BaseHTTPRequestHandler):
        def answer(self) -> None:
            path = self.path.partition("?")[0].removeprefix("/api/2.0/mlflow/")
            sent = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            if len(batches) == most_batches:
                self.close_connection = True
                return
            if path == "runs/log-batch":
                batches.append(json.loads(sent))
            content = json.dumps(answers[path]).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_POST = answer

        def log_message(self, *_: object) -> None:
            pass

    host = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=host.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{host.server_address[1]}", batches
    finally:
        host.shutdown()
        thread.join()
        host.server_close()


class TestDryRun:
    @pytest.mark.parametrize(
        ("tracker", "module"),
        [("tensorboard", "tensorboard.plugins.hparams.summary_v2"), ("mlflow", "mlflow.tracking")],
    )
    def test_an_extra_that_is_not_installed(
        self,
        shortlist: Command,
        clicks: Path,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
        tracker: str,
        module: str,
    ) -> None:
        monkeypatch.setitem(sys.modules, module, None)
        answer = shortlist("train", clicks, "--out", tmp_path / "run", "--log", f"{tracker}={tmp_path / 'place'}")
        says(answer, 1, f"--log: the package {tracker} cannot be imported", f"pip install 'shortlist[{tracker}]'")
        assert list(tmp_path.iterdir()) == []

    @pytest.mark.parametrize(
        ("given", "said"),
        [
            ("tensorbord", "--log: unknown tracker 'tensorbord'; did you mean 'tensorboard'?"),
            ("mlflow=", "--log: expected a place after 'mlflow=', received none"),
        ],
    )
    def test_unknown_trackers(self, shortlist: Command, clicks: Path, tmp_path: Path, given: str, said: str) -> None:
        says(shortlist("train", clicks, "--out", tmp_path / "run", "--log", given), 2, said)
        assert list(tmp_path.iterdir()) == []

    def test_a_folder_that_cannot_be_written(self, shortlist: Command, clicks: Path, tmp_path: Path) -> None:
        (tmp_path / "file").write_text("mine")
        for place in ("file", "file/boards"):
            answer = shortlist("train", clicks, "--out", tmp_path / "run", "--log", f"tensorboard={tmp_path / place}")
            says(answer, 2, f"{tmp_path / place}: expected a place to write", "received Not a directory")
        assert [path.name for path in tmp_path.iterdir()] == ["file"]

    def test_a_store_that_does_not_answer(
        self, shortlist: Command, clicks: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
        for uri in ("http://127.0.0.1:9", "nonsense://place"):
            answer = shortlist("train", clicks, "--out", tmp_path / "run", "--log", f"mlflow={uri}")
            says(answer, 1, "mlflow: expected a tracking store that answers, received ")
        assert list(tmp_path.iterdir()) == []
