"""Whole studies on a small table: never worse than what training does by itself, and measured once."""

import time
from pathlib import Path
from typing import Any, NoReturn

import polars as pl
import pytest

from shortlist.data import LoadOptions, Split, load
from shortlist.errors import InputError, ShortlistError, WriteError
from shortlist.experiment import ExperimentConfig, fit, plan
from shortlist.metrics import EvaluationSet, evaluate_set
from shortlist.training import Progress
from shortlist.tuning import Space, Study, finish, prepare, space_of, work
from shortlist.tuning.tune import WEIGHTS, _value

CONFIG = {"data": {"source": "clicks"}, "protocol": "shortlist", "seed": 0}
FIXED = {"model": {"dim": "8"}, "training": {"epochs": "8", "validate_every": "2", "temperature_epochs": "2"}}


@pytest.fixture(scope="module")
def split(clicks: Path) -> Split:
    return load(clicks, LoadOptions(seed=0))


@pytest.fixture(autouse=True)
def short_pilots(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shortlist.training.temperature.STEPS", 2)


def begun(folder: Path, split: Split, space: Space | None = None) -> Study:
    return prepare(folder, space or space_of("mf", "slatk", 5, texts=FIXED), split, protocol="shortlist", seed=0)


def facts(study: Study) -> list[Any]:
    return [(each.number, each.state, each.value, dict(each.settings), each.start) for each in study.trials()]


class TestResults:
    def test_the_first_trial_is_what_training_does_by_itself(self, split: Split, tmp_path: Path) -> None:
        study = begun(tmp_path / "study", split)
        work(study, split, most=1)
        usual = fit(plan("mf", "slatk", 5, texts=FIXED), split, tmp_path / "usual", config=CONFIG)
        outcome = finish(study, split, tmp_path / "tuned", config=CONFIG)
        for name in ("loss", "optimizer", "training", "model", "k"):
            assert outcome.run.config[name] == usual.run.config[name]
        assert outcome.run.metrics["test"] == usual.run.metrics["test"]
        assert study.trials()[0].value == usual.run.metrics["valid"]["ndcg@5"]

    def test_the_best_on_validation_is_the_run(self, split: Split, tmp_path: Path) -> None:
        study = begun(tmp_path / "study", split)
        work(study, split, most=9)
        trials = study.trials()
        values = {each.number: each.value for each in trials if each.state == "done"}
        run = finish(study, split, tmp_path / "run", config=CONFIG).run
        assert run.metrics["valid"]["ndcg@5"] == max(values.values()) >= values[0]
        assert run.config["tuned"]["metric"] == "ndcg@5"
        assert run.config["tuned"]["validation"] == max(values.values())
        assert sum(run.config["tuned"]["trials"].values()) == len(trials) == 9
        assert run.metrics["seconds"]["tune"] == pytest.approx(sum(each.seconds for each in trials), abs=1e-3)
        best = trials[run.config["tuned"]["trial"]]
        settings = study.space.plan(best.settings)
        again = fit(settings, split, tmp_path / "again", config=CONFIG).run
        for name in ("model.safetensors", "per_user.parquet"):  # the model that was kept is the one of a training
            assert (again.folder / name).read_bytes() == (run.folder / name).read_bytes()
        (tmp_path / "study" / WEIGHTS).write_bytes(b"torn")
        refitted = finish(study, split, tmp_path / "refitted", config=CONFIG).run
        assert (refitted.folder / "model.safetensors").read_bytes() == (run.folder / "model.safetensors").read_bytes()
        assert refitted.metrics["epochs"] == run.metrics["epochs"] == again.metrics["epochs"]

    def test_test_is_evaluated_once(self, split: Split, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        looked = []

        assert split.valid is not None
        assert split.test is not None
        parts = {id(split.valid.indices): "valid", id(split.test.indices): "test"}

        def watched(scorer: Any, asked: EvaluationSet, *others: Any, **named: Any) -> Any:
            looked.append(parts[id(asked.truth.items_P)])
            return evaluate_set(scorer, asked, *others, **named)

        for place in ("experiment.experiment", "tasks.evaluation", "training.loop"):
            monkeypatch.setattr(f"shortlist.{place}.evaluate_set", watched)
        study = begun(tmp_path / "study", split)
        work(study, split, most=4)
        assert set(looked) == {"valid"}
        finish(study, split, tmp_path / "run", config=CONFIG)
        assert looked.count("test") == 1

    def test_baselines_by_their_own_parameters(self, split: Split, tmp_path: Path) -> None:
        study = begun(tmp_path / "study", split, space_of("ease", None, 5))
        work(study, split, most=6)
        run = finish(study, split, tmp_path / "run", config=CONFIG).run
        usual = fit(plan("ease", k=5), split, tmp_path / "usual", config=CONFIG).run
        assert study.trials()[0].value == usual.metrics["valid"]["ndcg@5"]
        assert run.metrics["valid"]["ndcg@5"] == max(each.value or 0 for each in study.trials())
        assert run.config["model"]["regularization"] == study.trials()[run.config["tuned"]["trial"]].settings[
            "model.regularization"
        ]  # fmt: skip

    def test_time_that_is_over_leaves_one_trial(self, split: Split, tmp_path: Path) -> None:
        study = begun(tmp_path / "study", split)
        work(study, split, until=0.0)
        assert [each.state for each in study.trials()].count("done") == 1
        assert finish(study, split, tmp_path / "run", config=CONFIG).run.config["tuned"]["trial"] == 0
        work(study, split, until=0.0)
        assert [each.state for each in study.trials()].count("done") == 1

    def test_the_search_for_the_temperature_has_a_share_of_the_time(self, split: Split, tmp_path: Path) -> None:
        """Its trials would take many minutes; the training itself stops early."""
        endless = {"epochs": "1000000", "temperature_epochs": "1000000", "validate_every": "1", "patience": "1"}
        space, began = space_of("mf", "sl", 5, texts={**FIXED, "training": endless}), time.monotonic()
        how: Any = {"protocol": "shortlist", "seed": 0}
        study = prepare(tmp_path / "study", space, split, **how, until=began + 4.0)
        assert 0.9 < time.monotonic() - began < 60
        work(study, split, until=0.0)
        (trial,) = study.trials()
        assert (trial.state, trial.start, trial.settings["loss.tau"]) == ("done", "default", 0.2)

    def test_time_that_is_over_ends_a_trial_once_another_has_a_result(
        self, split: Split, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """As when several processes began before there was any."""
        study, other = begun(tmp_path / "study", split), begun(tmp_path / "study", split)
        questions, real = 0, Study.best

        def best(self: Study) -> Any:
            nonlocal questions
            questions += self is study
            return real(self)

        def slowly(
            chosen: ExperimentConfig, split: Split, seed: int, floor: Any, after_epoch: Any, look: Any
        ) -> NoReturn:
            with monkeypatch.context() as patch:
                patch.setattr("shortlist.tuning.tune._value", _value)
                for _ in range(2000):
                    look()
                work(other, split, until=0.0)
            while True:
                look()

        monkeypatch.setattr("shortlist.tuning.tune.PATIENCE", 0.2)
        monkeypatch.setattr("shortlist.tuning.tune._value", slowly)
        monkeypatch.setattr(Study, "best", best)
        work(study, split, until=0.0)
        states = [each.state for each in study.trials()]
        assert (states.count("done"), states.count("running")) == (1, 1)
        assert questions < 200

    def test_what_decides_can_be_another_metric(self, split: Split, tmp_path: Path) -> None:
        texts = {**FIXED, "training": {**FIXED["training"], "metric": "recall@3"}}
        study = begun(tmp_path / "study", split, space_of("mf", "sl", 5, texts=texts))
        work(study, split, most=2)
        run = finish(study, split, tmp_path / "run", config=CONFIG).run
        assert run.config["tuned"]["metric"] == "recall@3"
        assert run.config["tuned"]["validation"] == run.metrics["valid"]["recall@3"]


class TestDuringTraining:
    def test_interrupted_and_resumed_is_the_same(self, split: Split, tmp_path: Path) -> None:
        once = begun(tmp_path / "once", split)
        work(once, split, most=11)
        for count in (1, 4, 10, 11):
            work(begun(tmp_path / "often", split), split, most=count)
        assert facts(begun(tmp_path / "often", split)) == facts(once)
        assert len({str(each[3]) for each in facts(once)}) == 11
        assert {each[1] for each in facts(once)} == {"done", "pruned"}

    @pytest.mark.parametrize(
        ("problem", "why"),
        [
            (ShortlistError("it collapsed"), "it collapsed"),
            (RuntimeError("matrix is\nsingular"), "RuntimeError: matrix is singular"),
            (MemoryError(), "MemoryError"),
        ],
    )
    def test_failed_trials_are_reported_and_skipped(
        self, split: Split, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, problem: Exception, why: str
    ) -> None:
        def sometimes(chosen: ExperimentConfig, *others: Any) -> Any:
            if chosen.optimizer.lr == 0.01:  # as two of the starts have it
                raise problem
            return _value(chosen, *others)

        monkeypatch.setattr("shortlist.tuning.tune._value", sometimes)
        study = begun(tmp_path / "study", split)
        work(study, split, most=5)
        failed = [each for each in study.trials() if each.state == "failed"]
        assert [(each.start, each.why) for each in failed] == [
            ("slatk-electronic-mf", why),
            ("slatk-health-mf", why),
        ]
        tuned = finish(study, split, tmp_path / "run", config=CONFIG).run.config["tuned"]
        assert tuned["trials"]["failed"] == 2

    def test_settings_that_do_not_go_together_are_a_failed_trial(self, split: Split, tmp_path: Path) -> None:
        """Three layers, as by default, have a third one; one or two, which are tried, have not."""
        fixed = {**FIXED, "model": {"dim": "8", "contrast_layer": "3"}}
        study = begun(tmp_path / "study", split, space_of("xsimgcl", "sl", 5, texts=fixed))
        work(study, split, most=6)
        states = {each.settings["model.layers"] >= 3: each.state == "failed" for each in study.trials()}
        assert states == {True: False, False: True}
        why = next(each.why for each in study.trials() if each.state == "failed")
        assert why.startswith("XSimGCL.contrast_layer: expected at most")
        assert finish(study, split, tmp_path / "run", config=CONFIG).run.config["model"]["layers"] >= 3

    def test_the_reason_is_reported_when_all_trials_fail(
        self, split: Split, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("shortlist.tuning.tune._value", lambda *_: (float("nan"), Progress()))
        study = begun(tmp_path / "study", split)
        work(study, split, most=2)
        with pytest.raises(ShortlistError, match="no trial of 2 had a result: the metric became nan"):
            finish(study, split, tmp_path / "run", config=CONFIG)
        assert not (tmp_path / "run").exists()

    def test_the_time_limit_holds_when_all_trials_fail(
        self, split: Split, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def wrong(*_: Any) -> NoReturn:
            raise TypeError("no such thing")

        monkeypatch.setattr("shortlist.tuning.tune._value", wrong)
        study = begun(tmp_path / "study", split)
        work(study, split, until=0.0, most=3)
        assert [each.why for each in study.trials()] == ["TypeError: no such thing"]
        with pytest.raises(ShortlistError, match="no trial of 1 had a result: TypeError: no such thing"):
            finish(study, split, tmp_path / "run", config=CONFIG)

    @pytest.mark.parametrize("problem", [WriteError("no room"), InputError("wrong"), KeyboardInterrupt()])
    def test_errors_not_caused_by_the_settings_are_raised(
        self, split: Split, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, problem: BaseException
    ) -> None:
        def stop(*_: Any) -> Any:
            raise problem

        study = begun(tmp_path / "study", split)
        with monkeypatch.context() as patch:
            patch.setattr("shortlist.tuning.tune._value", stop)
            with pytest.raises(type(problem)):
                work(study, split, most=1)
        work(study, split, most=1)
        assert [(each.start, each.state) for each in study.trials()] == [("default", "done")]


def test_without_a_validation_part(clicks: Path, tmp_path: Path) -> None:
    split = load(clicks, LoadOptions(valid_share=0.0))
    with pytest.raises(InputError, match=r"tune: expected a validation part to judge by \(--valid-share 0.1\)"):
        begun(tmp_path / "study", split)
    assert not (tmp_path / "study").exists()


def test_a_list_that_the_catalogue_cannot_fill(split: Split, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"K: expected a whole number from 1 to 40 \(the catalogue\), received 41"):
        begun(tmp_path / "study", split, space_of("ease", None, 41))
    assert not (tmp_path / "study").exists()


def test_another_split_is_another_study(split: Split, clicks: Path, tmp_path: Path) -> None:
    work(begun(tmp_path / "study", split, space_of("ease", None, 5)), split, most=1)
    other = load(clicks, LoadOptions(seed=3))
    with pytest.raises(InputError, match="made with other data or settings: data: expected"):
        begun(tmp_path / "study", other, space_of("ease", None, 5))
    with pytest.raises(InputError, match=r"made with other data or settings: model\.name: expected 'ease'"):
        begun(tmp_path / "study", split, space_of("item_knn", None, 5))
    assert (
        pl.DataFrame(
            [vars(each) for each in begun(tmp_path / "study", split, space_of("ease", None, 5)).trials()]
        ).height
        == 1
    )
