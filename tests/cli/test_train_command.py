"""`shortlist train` with a loss: what it does, and what it says when it cannot."""

import json
import math
import re
from collections.abc import Callable
from itertools import pairwise, product
from pathlib import Path
from typing import NoReturn

import numpy as np
import pytest

from attempts import contents
from command import Answer, Command, says
from shortlist.data import load as load_data
from shortlist.errors import InputError
from shortlist.experiment import plan
from shortlist.experiment.experiment import training_of
from shortlist.experiment.presets import PRESETS, Preset
from shortlist.losses import Loss
from shortlist.runs import CHECKPOINT, open_run
from shortlist.runs.folder import lock
from shortlist.training.checkpoint import load
from shortlist.training.temperature import best_temperature, trial_epochs
from terminal import watched

SETTINGS = ("model.dim=8", "optimizer.lr=0.05", "training.epochs=6", "training.validate_every=2",
            "training.checkpoint_every=0", "training.temperature_epochs=0")  # fmt: skip


def settings(*texts: str) -> list[str]:
    return [word for text in texts for word in ("--set", text)]


def words(table: Path, out: Path, *others: object) -> list[object]:
    return ["train", table, "--loss", "slatk", "--k", 10, *settings(*SETTINGS), "--json", "--out", out, *others]


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.fixture(scope="session")
def tastes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three hundred people with five tastes among two hundred things: enough for a training to go wrong."""
    rng = np.random.default_rng(0)
    pairs = [(u, 40 * (u % 5) + item) for u in range(300) for item in rng.choice(40, 12, replace=False)]
    path = tmp_path_factory.mktemp("tastes") / "tastes.csv"
    path.write_text("user_id,item_id\n" + "".join(f"{user},{item}\n" for user, item in pairs))
    return path


class TestValid:
    def test_from_table_to_lists(self, shortlist: Command, clicks: Path, tmp_path: Path) -> None:
        out = tmp_path / "run"
        trained = shortlist(*words(clicks, out))
        assert (trained.code, trained.err) == (0, "")
        assert trained.json == {"run": str(out), **json.loads((out / "metrics.json").read_text())}
        config = open_run(out).config
        assert config["loss"]["name"] == "slatk"
        assert (config["k"], config["loss"]["k"], config["model"]["dim"]) == (10, 10, 8)
        assert (config["optimizer"]["lr"], config["training"]["epochs"]) == (0.05, 6)
        assert shortlist("evaluate", out, "--json").json["test"] == pytest.approx(trained.json["test"])
        assert len(shortlist("recommend", out, "--user", "person-07", "--k", 5, "--json").json["items"]) == 5
        assert [path.name for path in tmp_path.iterdir()] == ["run"]

    def test_a_seed_decides_all(self, shortlist: Command, clicks: Path, tmp_path: Path) -> None:
        for name, seed in (("one", 3), ("same", 3), ("other", 4)):
            assert shortlist(*words(clicks, tmp_path / name, "--seed", seed)).code == 0
        one, same, other = (contents(tmp_path / name) for name in ("one", "same", "other"))
        assert one == same
        assert one["model.safetensors"] != other["model.safetensors"]
        assert one["metrics"] != other["metrics"]

    def test_presets(self, shortlist: Command, clicks: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        values = {"model": {"dim": 6}, "loss": {"tau": 0.3}, "training": {"epochs": 3}}
        monkeypatch.setitem(PRESETS, "slatk-clicks-mf", Preset("clicks", "mf", "slatk", 7, values))
        arguments = ["train", clicks, "--preset", "slatk-clicks-mf", "--set", "training.epochs=2", "--json"]
        assert shortlist(*arguments, "--out", tmp_path / "run").code == 0
        config = open_run(tmp_path / "run").config
        assert (config["model"]["dim"], config["k"], config["loss"]["k"], config["loss"]["tau"]) == (6, 7, 7, 0.3)
        assert config["training"]["epochs"] == 2
        assert shortlist(*arguments, "--loss", "bpr", "--out", tmp_path / "bpr").code == 0  # which has no temperature
        config = open_run(tmp_path / "bpr").config
        assert (config["model"]["dim"], config["k"], "tau" in config["loss"]) == (6, 7, False)
        answer = shortlist("train", clicks, "--preset", "slatk-click-mf", "--out", tmp_path / "other")
        says(answer, 2, "presets: unknown name 'slatk-click-mf'; did you mean 'slatk-clicks-mf'?")

    @pytest.mark.parametrize("command", ["train", "tune"])
    def test_help_names_all_presets(self, shortlist: Command, command: str) -> None:
        shown = shortlist(command, "--help").out
        content = set(re.findall(r"[a-z0-9]+", shown.split("LOSS-SET-MODEL")[1].split("For instance")[0]))
        alone = {name for name in PRESETS if "yelp2018" in name}  # which the help tells as a whole
        parts = [
            dict.fromkeys(words) for words in zip(*(name.split("-") for name in PRESETS.keys() - alone), strict=True)
        ]
        assert content >= {word for words in parts for word in words} | {"yelp2018"}
        assert all(name in re.sub(r"[\s│]+", "", shown) for name in alone)
        assert set(PRESETS) == {"-".join(words) for words in product(*parts)} | alone  # the help promises all

    def test_a_terminal_sees_how_training_goes_and_the_log_grows(self, tastes: Path, tmp_path: Path) -> None:
        out = tmp_path / "run"
        slowly = settings("training.epochs=100", "training.patience=1000", "optimizer.lr=0.003")
        arguments = [*words(tastes, out), "--loss", "sl", *slowly]
        program = "import shortlist.cli as cli, shortlist.progress as progress; progress.DELAY = 0; cli.main()"
        lengths = set()

        def look() -> None:
            if (out / "log.jsonl").exists():
                lengths.add((out / "log.jsonl").read_text().count("\n"))

        code, printed, shown = watched(["-c", program, *arguments], columns=160, meanwhile=look)
        assert code == 0
        assert json.loads(printed)["run"] == str(out)
        assert len(lengths) > 5
        numbers = re.search(r"epoch (\d+)/100  loss \d\.\d{4}  ndcg@10 0\.\d{4} \(best 0\.\d{4} at \d+\)", shown)
        assert numbers is not None
        assert re.search(r"\d%.*0:00:\d\d", shown)  # how much is done, and the time left
        log = [json.loads(line) for line in (out / "log.jsonl").read_text().splitlines()]
        assert [line["epoch"] for line in log if "epoch" in line] == list(range(1, 101))
        assert log[1].keys() == {"epoch", "loss", "lr", "seconds", "valid ndcg"}
        self.times_and_rates_are_told(log[:100], json.loads(printed)["seconds"]["train"])

    def times_and_rates_are_told(self, log: list[dict[str, float]], total: float) -> None:
        """Every epoch's own seconds are the step from the line before; the rate falls in a line to a hundredth."""
        seconds = [0.0, *(line["seconds"] for line in log)]
        assert all(before < after for before, after in pairwise(seconds))
        assert seconds[-1] == total
        steps = 2  # 300 people, 256 at once
        for line in log:
            done = (line["epoch"] - 1 + (steps - 1) / steps) / len(log)
            assert line["lr"] == pytest.approx(0.003 * (1 - 0.99 * done), rel=1e-12)


class TestBadSettings:
    @pytest.mark.parametrize(
        ("given", "said"),
        [
            ("--set loss.tau=0", "SLAtK.tau: expected a number above 0, received 0.0"),
            ("--set loss.tau=-0.2", "SLAtK.tau: expected a number above 0, received -0.2"),
            ("--set loss.tau=nan", "SLAtK.tau: expected a number above 0, received nan"),
            ("--set loss.tau=inf", "SLAtK.tau: expected a number above 0, received inf"),
            ("--set loss.tau=warm", "SLAtK.tau: expected a number above 0, received 'warm'"),
            ("--set loss.tau_w=0", "SLAtK.tau_w: expected a number above 0"),
            ("--loss sl --set loss.tau=0", "SL.tau: expected a number above 0"),
            ("--k 0", "K: expected a whole number of at least 1, received 0"),
            ("--k -5", "K: expected a whole number of at least 1, received -5"),
            ("--k 41", "K: expected a whole number from 1 to 40 (the catalogue), received 41"),
            ("--k ten", "--k"),
            ("--set loss.k=0", "SLAtK.k: expected a whole number at least 1, received 0"),
            ("--set loss.k=41", "SLAtK.k: expected at most 40"),
            ("--loss slatkk", "losses: unknown name 'slatkk'; did you mean 'slatk'?"),
            ("--model mff", "models: unknown name 'mff'; did you mean 'mf'?"),
            ("--set loss.tua=1", "unknown parameter 'tua'; did you mean 'tau'?"),
            ("--set model.dims=1", "unknown parameter 'dims'; did you mean 'dim'?"),
            ("--set optimizer.learning=1", "OptimizerSettings: unknown parameter 'learning'"),
            ("--set training.epoch=1", "unknown parameter 'epoch'; did you mean 'epochs'?"),
            ("--set los.tau=1", "--set: unknown section 'los'; did you mean 'loss'?"),
            ("--set tau=1", "--set: expected SECTION.KEY=VALUE"),
            ("--set training.epochs=many", "TrainingSettings.epochs: expected a whole number at least 1"),
            ("--set training.epochs=2.5", "received '2.5'"),
            ("--set training.epochs=0", "TrainingSettings.epochs: expected a whole number at least 1, received 0"),
            ("--set training.batch=0", "TrainingSettings.batch"),
            ("--set training.candidates=some", "expected one of 'auto', 'all', 'shared', 'pairs', received 'some'"),
            ("--set optimizer.lr=0", "OptimizerSettings.lr: expected a number above 0"),
            ("--set optimizer.lr=1e39", "OptimizerSettings.lr: expected a number above 0 and at most "),
            ("--set optimizer.lr=inf", "OptimizerSettings.lr: expected a number above 0"),
            ("--set optimizer.beta1=0.9999", "OptimizerSettings.beta2: expected a number above beta1²"),
            ("--set model.item_bias=perhaps", "MF.item_bias: expected true or false, received 'perhaps'"),
            ("--set loss.weight=free", "expected one of 'published', 'detached', received 'free'"),
            ("--set training.metric=ndgc", "training.metric: expected one of ndcg, "),
            ("--set training.metric=ndcg@", "training.metric: expected one of ndcg, "),
            ("--set training.metric=ndcg@0", "received 'ndcg@0'"),
            ("--set training.metric=ndcg@²", "received 'ndcg@²'"),
            ("--set training.metric=ndcg@41", "from 1 to 40 (the catalogue), received 41"),
            ("--model ease", "ease: expected no loss or training settings (it has none), received slatk"),
            ("--preset slatk-nowhere", "presets: unknown name 'slatk-nowhere'"),
            ("--seed -1", "--seed: expected"),
        ],
    )
    def test_one_line_and_nothing_written(
        self, shortlist: Command, clicks: Path, tmp_path: Path, given: str, said: str
    ) -> None:
        says(shortlist(*words(clicks, tmp_path / "run"), *given.split()), 2, said)
        assert list(tmp_path.iterdir()) == []

    def test_settings_of_training_for_a_model_without(self, shortlist: Command, clicks: Path, tmp_path: Path) -> None:
        answer = shortlist("train", clicks, "--model", "ease", "--set", "training.epochs=3", "--out", tmp_path / "run")
        says(answer, 2, "ease: expected no loss or training settings (it has none), received training")
        assert list(tmp_path.iterdir()) == []


@pytest.fixture
def stopped(shortlist: Command, clicks: Path, tmp_path: Path) -> tuple[Path, Path]:
    """A table, and a run that was interrupted when all epochs were done."""
    table, out = tmp_path / "clicks.csv", tmp_path / "run"
    table.write_bytes(clicks.read_bytes())

    def interrupt(*_: object, **__: object) -> NoReturn:
        raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("shortlist.experiment.experiment.evaluate_task", interrupt)
        says(shortlist(*words(table, out)), 130, "shortlist: interrupted\n")
    assert sorted(files(out)) == [CHECKPOINT, "log.jsonl"]
    return table, out


class TestBadResumes:
    @pytest.mark.parametrize(
        ("given", "said"),
        [
            ("--set loss.tau=0.37", "loss.tau: expected "),
            ("--loss sl", "loss.name: expected 'slatk', received 'sl'"),
            ("--k 11", "k: expected 10, received 11"),
            ("--set model.dim=9", "model.dim: expected 8, received 9"),
            ("--set optimizer.lr=0.01", "optimizer.lr: expected 0.05, received 0.01"),
            ("--set training.epochs=7", "training.epochs: expected 6, received 7"),
            ("--seed 1", "data.seed: expected 0, received 1"),
            ("--protocol irbenchmark", "protocol: expected 'shortlist', received 'irbenchmark'"),
            ("--test-share 0.5", "data.test_share: expected 0.2, received 0.5"),
        ],
    )
    def test_other_settings(self, shortlist: Command, stopped: tuple[Path, Path], given: str, said: str) -> None:
        table, out = stopped
        before = files(out)
        answer = shortlist(*words(table, out, "--resume"), *given.split())
        says(answer, 2, f"{out / CHECKPOINT}: made with other data or settings: {said}")
        assert files(out) == before

    @pytest.mark.parametrize(
        "given",
        [
            "--set training.checkpoint_every=7",
            "--set training.metric=ndcg@10",
            "--set training.temperature_epochs=3 --set loss.tau=0.2",
            "--core 1",
            "--test-share 0.3",  # which rounds to as many
        ],
    )
    def test_settings_that_leave_the_result_as_it_is(
        self, shortlist: Command, stopped: tuple[Path, Path], given: str
    ) -> None:
        table, out = stopped
        answer = shortlist(*words(table, out, "--resume"), *given.split())
        assert (answer.code, answer.err) == (0, "")

    def test_another_search_for_the_temperature(self, shortlist: Command, stopped: tuple[Path, Path]) -> None:
        table, out = stopped
        answer = shortlist(*words(table, out, "--resume"), *settings("training.temperature_epochs=3"))
        says(answer, 2, "made with other data or settings: training.temperature_epochs: expected 0, received 3")

    def test_other_data(self, shortlist: Command, stopped: tuple[Path, Path], ease: Path) -> None:
        table, out = stopped
        before, rows = files(out), table.read_text()
        table.write_text(rows.replace("person-07,", "person-08,", 1))
        says(shortlist(*words(table, out, "--resume")), 2, "made with other data or settings: pairs: ")
        assert files(out) == before
        other = table.with_name("other.csv")  # the same pairs under another name are the same data
        other.write_text(rows)
        assert shortlist(*words(other, out, "--resume")).code == 0

    def test_a_checkpoint_cut_short(self, shortlist: Command, stopped: tuple[Path, Path]) -> None:
        table, out = stopped
        whole = (out / CHECKPOINT).read_bytes()
        for length in (0, 5, len(whole) // 2, len(whole) - 1):
            (out / CHECKPOINT).write_bytes(whole[:length])
            before = files(out)
            answer = shortlist(*words(table, out, "--resume"))
            says(answer, 2, f"{out / CHECKPOINT}: expected a complete checkpoint, received a damaged file")
            assert files(out) == before
        (out / CHECKPOINT).write_bytes(whole)
        assert shortlist(*words(table, out, "--resume")).code == 0

    @pytest.mark.parametrize("share", [0.001, 0.1, 0.5, 0.9, 0.999])
    def test_an_altered_checkpoint(self, shortlist: Command, stopped: tuple[Path, Path], share: float) -> None:
        table, out = stopped
        altered = bytearray((out / CHECKPOINT).read_bytes())
        altered[int(share * len(altered))] ^= 1
        (out / CHECKPOINT).write_bytes(altered)
        before = files(out)
        says(shortlist(*words(table, out, "--resume")), 2, f"{out / CHECKPOINT}: expected ")
        assert files(out) == before

    def test_nothing_to_resume(self, shortlist: Command, stopped: tuple[Path, Path]) -> None:
        table, out = stopped
        assert shortlist(*words(table, out, "--resume")).code == 0
        before = files(out)
        says(shortlist(*words(table, out, "--resume")), 2, "a checkpoint to resume from, received a finished run")
        assert files(out) == before
        letters = out.with_name("letters")
        letters.mkdir()
        (letters / "dear.txt").write_text("x")
        says(shortlist(*words(table, letters, "--resume")), 2, "a checkpoint to resume from, received other files")
        assert list(files(letters)) == ["dear.txt"]

    def test_a_run_that_is_still_in_training(self, shortlist: Command, stopped: tuple[Path, Path]) -> None:
        table, out = stopped
        before = files(out)
        with lock(out):  # as another process would
            says(shortlist(*words(table, out, "--resume")), 2, "expected a run that nobody trains")
            says(shortlist(*words(table, out, "--overwrite")), 2, "received one that is in training")
        assert files(out) == before
        assert shortlist(*words(table, out, "--resume")).code == 0

    def test_neither_resumed_nor_overwritten(self, shortlist: Command, stopped: tuple[Path, Path]) -> None:
        table, out = stopped
        before = files(out)
        says(shortlist(*words(table, out)), 2, "expected a new or empty folder", "(--resume or --overwrite?)")
        says(shortlist("evaluate", out), 2, "expected a finished run, received one that stopped on the way")
        assert files(out) == before
        assert shortlist(*words(table, out, "--overwrite", "--seed", 1)).code == 0
        assert open_run(out).config["seed"] == 1


class TestTemperature:
    """Where nobody sets the temperature, it is found before training begins, and not lost again."""

    def interrupted_at(self, place: str, shortlist: Command, *arguments: object) -> Answer:
        def interrupt(*_: object, **__: object) -> NoReturn:
            raise KeyboardInterrupt

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(place, interrupt)
            return shortlist(*arguments)

    def test_a_resumed_run_does_not_search_the_temperature_again(
        self, shortlist: Command, clicks: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("shortlist.training.temperature.STEPS", 3)
        whole, out = tmp_path / "whole", tmp_path / "run"
        look = settings("training.temperature_epochs=1")
        assert shortlist(*words(clicks, whole), *look).code == 0
        answer = self.interrupted_at("shortlist.training.loop.best_temperature", shortlist, *words(clicks, out))
        assert answer.code == 0  # it was not looked for where it is not to be
        answer = self.interrupted_at(
            "shortlist.experiment.experiment.evaluate_task", shortlist, *words(clicks, out), *look, "--overwrite"
        )
        says(answer, 130, "interrupted")
        looked = load(out / CHECKPOINT).facts["progress"]["log"][0]
        answer = self.interrupted_at(
            "shortlist.training.loop.best_temperature", shortlist, *words(clicks, out), *look, "--resume"
        )
        assert (answer.code, answer.err) == (0, "")
        assert contents(out) == contents(whole)
        took = answer.json["seconds"]
        assert list(took) == ["load", "temperature_search", "train", "evaluate"]
        assert {"event": "temperature_search", "seconds": took["temperature_search"]} == looked

    def test_an_interruption_of_the_search_leaves_nothing_and_can_be_resumed(
        self, shortlist: Command, clicks: Path, tmp_path: Path
    ) -> None:
        look = settings("training.temperature_epochs=1")
        arguments = [*words(clicks, tmp_path / "run"), *look]
        answer = self.interrupted_at("shortlist.tasks.WholeCatalogue.epoch", shortlist, *arguments)
        says(answer, 130, "shortlist: interrupted\n")
        assert list(tmp_path.iterdir()) == []
        answer = shortlist(*arguments, "--resume")
        note = f"shortlist: {tmp_path / 'run'}: nothing to resume; starting a new training\n"
        assert (answer.code, answer.err) == (0, note)
        assert shortlist(*words(clicks, tmp_path / "whole"), *look).code == 0
        assert contents(tmp_path / "run") == contents(tmp_path / "whole")

    def test_a_temperature_that_fails_is_not_chosen(
        self, shortlist: Command, clicks: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("shortlist.training.temperature.FACTORS", (5e-42, 2.0))
        monkeypatch.setattr("shortlist.training.temperature.STEPS", 3)
        assert shortlist(*words(clicks, tmp_path / "run"), *settings("training.temperature_epochs=1")).code == 0
        run = open_run(tmp_path / "run")
        assert run.config["loss"]["tau"] == 0.4
        assert list(run.metrics["seconds"]) == ["load", "temperature_search", "train", "evaluate"]

    @pytest.mark.parametrize(
        ("loss", "expected"),
        [("sl", [0.2, 0.1, 0.4, 0.05]), ("psl", [0.1, 0.05, 0.2, 0.025]), ("listnet", [1, 0.5, 2, 0.25])],
    )
    def test_trials_are_around_the_default_of_the_loss(
        self, clicks: Path, loss: str, expected: list[float], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("shortlist.training.temperature.STEPS", 3)
        best, tried = self.found(clicks, loss, lambda done: -abs(done - 2.0))  # the third is best
        assert tried == expected
        assert best == expected[2]

    @pytest.mark.parametrize(
        ("until", "tried", "best"),
        [(-1, [], 0.2), (2, [], 0.2), (3, [0.2], 0.2), (6, [0.2, 0.1], 0.1), (11, [0.2, 0.1, 0.4], 0.4)],
    )
    def test_the_best_trial_within_the_time_is_used(
        self, clicks: Path, until: float, tried: list[float], best: float, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A trial takes three steps, each of which takes a second here; each temperature is better than the last."""
        now = 0.0

        def after_step(loss: Loss, rate: float) -> None:
            nonlocal now
            now += 1.0

        monkeypatch.setattr("shortlist.training.temperature.STEPS", 3)
        monkeypatch.setattr("shortlist.training.temperature.monotonic", lambda: now)
        monkeypatch.setattr("shortlist.losses.Loss.after_step", after_step)
        assert self.found(clicks, "sl", float, until=until) == (best, tried)

    def found(
        self, table: Path, loss: str, value: Callable[[int], float], until: float = math.inf
    ) -> tuple[float, list[float]]:
        """The temperature that is found where the value depends on how many were tried before, and what was tried."""
        chosen, tried = plan("mf", loss, values={"training": {"temperature_epochs": 1}}), []
        training = training_of(chosen, load_data(table), seed=0)
        training._validated = lambda model: value(len(tried))  # type: ignore[method-assign]

        def noted(default: float, trial: Callable[[float], float], until: float) -> float:
            def noting(tau: float) -> float:
                reached = trial(tau)
                tried.append(tau)
                return reached

            return best_temperature(default, noting, until)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("shortlist.training.loop.best_temperature", noted)
            best = training.search_temperature(until)
        assert best is not None
        assert training.loss.settings()["tau"] == best
        return best, tried

    @pytest.mark.parametrize(
        ("epochs", "temperature_epochs", "expected"),
        [(400, 6, 250), (400, 300, 300), (40, 6, 40), (40, 300, 40), (5, 6, 5)],
    )
    def test_no_trial_is_longer_than_the_training(
        self, clicks: Path, epochs: int, temperature_epochs: int, expected: int
    ) -> None:
        """With so few people an epoch is one step, of which a trial wants 250."""
        chosen = plan("mf", "sl", values={"training": {"epochs": epochs, "temperature_epochs": temperature_epochs}})
        steps = training_of(chosen, load_data(clicks), seed=0).batches.steps
        assert trial_epochs(steps, temperature_epochs, epochs) == expected


class TestFailures:
    def test_a_loss_that_is_not_finite(self, shortlist: Command, clicks: Path, tmp_path: Path) -> None:
        out = tmp_path / "run"
        answer = shortlist(*words(clicks, out, "--loss", "bpr", "--set", "optimizer.lr=1e30"))
        says(answer, 1, "became", "in epoch ", "; try an optimizer.lr below 1e+30\n")
        assert re.search(r"in epoch \d+;", answer.err)
        kept = load(out / CHECKPOINT)
        assert all(bool(tensor.isfinite().all()) for tensor in kept.tensors.values())
        assert not (out / "metrics.json").exists()
        with pytest.raises(InputError, match="stopped on the way"):
            open_run(out)

    def test_a_run_that_collapses(self, shortlist: Command, tastes: Path, tmp_path: Path) -> None:
        """SL@K as published, with a small temperature of the weight."""
        out = tmp_path / "run"
        published = ("loss.weight=published", "loss.positive_weight=1", "loss.tau=0.2", "loss.refresh=5")
        answer = shortlist(*words(tastes, out), *settings(*published, "loss.tau_w=0.05", "training.epochs=60"))
        says(answer, 1, "training collapsed by epoch ", "ndcg fell from ", "try a larger loss.tau_w")
        assert sorted(files(out)) == [CHECKPOINT, "log.jsonl"]
        assert load(out / CHECKPOINT).facts["progress"]["epoch"] > 0

    def test_a_run_that_learns_nothing(self, shortlist: Command, tmp_path: Path) -> None:
        """A few things that everybody takes: popularity is hard to beat, above all by a step size that is none."""
        rng = np.random.default_rng(0)
        rows = [(user, item) for user in range(80) for item in {*rng.integers(0, 6, 6), *rng.integers(0, 60, 3)}]
        (tmp_path / "t.csv").write_text("user,item\n" + "".join(f"{user},{item}\n" for user, item in rows))
        out = tmp_path / "run"
        answer = shortlist(*words(tmp_path / "t.csv", out, "--set", "optimizer.lr=1e-9"))
        says(answer, 1, "training did not exceed popularity: ndcg ", "; try ")
        assert sorted(files(out)) == [CHECKPOINT, "log.jsonl"]

    def test_a_failure_keeps_the_earlier_run(self, shortlist: Command, clicks: Path, tmp_path: Path) -> None:
        out = tmp_path / "run"
        assert shortlist(*words(clicks, out)).code == 0
        before = files(out)
        answer = shortlist(*words(clicks, out, "--overwrite", "--loss", "bpr", "--set", "optimizer.lr=1e30"))
        assert answer.code == 1
        after = files(out)
        assert {name: after[name] for name in before} == before


@pytest.mark.parametrize(
    ("protocol", "reason"),
    [("shortlist", "test lists leave out validation items too"), ("irbenchmark", "may be in test lists")],
)
def test_the_summary_says_why_levels_differ(
    shortlist: Command, clicks: Path, tmp_path: Path, protocol: str, reason: str
) -> None:
    answer = shortlist("train", clicks, "--model", "popularity", "--protocol", protocol, "--out", tmp_path / "run")
    assert "Validation and test differ in level: " in answer.out
    assert reason in " ".join(answer.out.split())
