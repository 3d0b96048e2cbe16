"""Runs whose model is refitted on all data after it was measured."""

import json
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import polars as pl
import pytest
import torch

import shortlist as sl
from command import Command, says
from shortlist.experiment import fit, plan
from shortlist.runs import CHECKPOINT, open_run
from shortlist.runs.folder import TRAINED
from shortlist.training import Training

SETTINGS = ("model.dim=8", "optimizer.lr=0.05", "training.epochs=6", "training.validate_every=2",
            "training.checkpoint_every=0", "loss.tau=0.2", "training.beat_popularity=false")  # fmt: skip


def train(table: Path, out: Path, *others: object) -> list[object]:
    sets = [word for text in SETTINGS for word in ("--set", text)]
    return ["train", table, "--loss", "sl", "--k", 5, *sets, "--out", out, *others]


def known_pairs(run: Path) -> set[tuple[Any, Any]]:
    ids, history = pl.read_parquet(run / "ids.parquet"), pl.read_parquet(run / "history.parquet")
    return {(ids["user_id"][user], ids["item_id"][item]) for user, item in history.select("user", "item").iter_rows()}


class TestCommand:
    def test_the_metrics_are_honest_and_the_model_has_seen_everything(
        self, shortlist: Command, clicks: Path, tmp_path: Path
    ) -> None:
        plain, final = tmp_path / "plain", tmp_path / "final"
        assert shortlist(*train(clicks, plain)).code == 0
        answer = shortlist(*train(clicks, final, "--final"))
        assert answer.code == 0
        assert "The metrics are of the model before refitting." in answer.out
        before, after = open_run(plain), open_run(final)
        for part in ("test", "valid"):
            assert after.metrics[part] == before.metrics[part]
        assert after.per_user.equals(before.per_user)
        assert (after.config["final"], after.config["final_epochs"]) == (True, before.metrics["epochs"])
        assert "metrics of the model before it was refitted" in (final / "model_card.md").read_text()
        whole = Training(
            sl.MF(**after.model.settings()),
            after.loss(),  # type: ignore[arg-type]
            after.split.whole(),
            training=sl.TrainingSettings(**after.config["training"]),
            optimizer=sl.OptimizerSettings(**after.config["optimizer"]),
            k=5,
            validate=False,
            stop_after=before.metrics["epochs"],
        )
        whole.run()
        for name, tensor in whole.model.state().items():
            assert torch.equal(tensor, after.model.state()[name])
            assert not torch.equal(tensor, before.model.state()[name])
        assert sorted(path.name for path in final.iterdir()) == sorted(path.name for path in plain.iterdir())

    def test_lists_leave_out_everything(self, shortlist: Command, clicks: Path, tmp_path: Path) -> None:
        assert shortlist(*train(clicks, tmp_path / "run", "--final", "--json")).json["final"] is True
        out = tmp_path / "lists.parquet"
        assert shortlist("recommend", tmp_path / "run", "--users", "all", "--k", 30, "--out", out).code == 0
        assert not known_pairs(tmp_path / "run") & set(pl.read_parquet(out).select("user_id", "item_id").iter_rows())

    def test_what_would_measure_it_again_is_refused(self, shortlist: Command, clicks: Path, tmp_path: Path) -> None:
        run = tmp_path / "run"
        assert shortlist("train", clicks, "--model", "ease", "--final", "--out", run).code == 0
        assert "final_epochs" not in open_run(run).config
        says(shortlist("evaluate", run), 2, "received one refitted on all data (final)")
        says(shortlist("report", run, "--out", tmp_path / "page.html"), 2, "refitted on all data (final)")
        other = tmp_path / "other"
        assert shortlist("train", clicks, "--model", "popularity", "--out", other).code == 0
        assert shortlist("compare", run, other).code == 0

    def test_tuned_first(self, shortlist: Command, clicks: Path, tmp_path: Path) -> None:
        pytest.importorskip("optuna")
        out = tmp_path / "run"
        assert shortlist("train", clicks, "--model", "item_knn", "--tune", "3s", "--final", "--out", out).code == 0
        run = open_run(out)
        assert run.config["final"] is True
        assert run.config["tuned"]["trials"]["done"] >= 1


class TestResume:
    def stop_in(self, place: str, monkeypatch: pytest.MonkeyPatch) -> None:
        def interrupt(*_: object, **__: object) -> NoReturn:
            raise KeyboardInterrupt

        monkeypatch.setattr(place, interrupt)

    def test_a_kill_in_the_refit(
        self, shortlist: Command, clicks: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        whole, out = tmp_path / "whole", tmp_path / "run"
        assert shortlist(*train(clicks, whole, "--final")).code == 0
        epoch, trained = Training.epoch, []

        def stops(self: Training, *arguments: Any) -> None:
            if self.stop_after is not None and self.progress.epoch == 1:
                raise KeyboardInterrupt
            epoch(self, *arguments)

        def counted(self: Training, *arguments: Any) -> None:
            trained.append(self.stop_after)
            epoch(self, *arguments)

        with monkeypatch.context() as patch:
            patch.setattr(Training, "epoch", stops)
            says(shortlist(*train(clicks, out, "--final")), 130, "stopped in epoch 2")
        assert {CHECKPOINT, TRAINED} <= {path.name for path in out.iterdir()}
        says(shortlist(*train(clicks, out, "--resume")), 2, "expected final (--final)")
        says(shortlist(*train(clicks, out, "--final", "--resume", "--seed", 1)), 2, "expected 0, received 1")
        with monkeypatch.context() as patch:
            patch.setattr(Training, "epoch", counted)
            assert shortlist(*train(clicks, out, "--final", "--resume")).code == 0
        epochs = open_run(whole).config["final_epochs"]
        assert trained == [epochs] * (epochs - 1), "only the refit is continued"
        for name in ("model.safetensors", "per_user.parquet", "history.parquet"):
            assert (out / name).read_bytes() == (whole / name).read_bytes()
        assert open_run(out).metrics["test"] == open_run(whole).metrics["test"]
        assert TRAINED not in {path.name for path in out.iterdir()}

    def test_a_kill_before_the_refit(
        self, shortlist: Command, clicks: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        out = tmp_path / "run"
        with monkeypatch.context() as patch:
            self.stop_in("shortlist.experiment.experiment.evaluate_task", patch)
            says(shortlist(*train(clicks, out, "--final")), 130, "interrupted")
        assert shortlist(*train(clicks, out, "--final", "--resume")).code == 0
        assert open_run(out).is_final

    def test_another_attempt_forgets_the_first(
        self, shortlist: Command, clicks: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        out = tmp_path / "run"
        with monkeypatch.context() as patch:
            self.stop_in("shortlist.experiment.experiment.evaluate_task", patch)
            shortlist(*train(clicks, out, "--final"))
            shortlist(*train(clicks, out, "--final", "--overwrite", "--seed", 1))
        assert shortlist(*train(clicks, out, "--final", "--resume", "--seed", 1)).code == 0
        assert open_run(out).config["seed"] == 1


class TestPython:
    @pytest.fixture
    def split(self, clicks: Path) -> sl.Split:
        return sl.load(clicks, seed=0)

    def test_in_memory_and_saved(self, split: sl.Split, tmp_path: Path) -> None:
        rec = sl.fit(split, "ease", final=True)
        plain = sl.fit(split, "ease")
        assert rec.evaluate()["ndcg@20"] == plain.evaluate()["ndcg@20"]
        whole = sl.EASE().fit(split.whole())
        user = np.array([3])
        assert torch.equal(rec.model.score(user), whole.score(user))
        with pytest.raises(sl.InputError, match="refitted on all data"):
            rec.evaluate(ks=[3])
        saved = rec.save(tmp_path / "run")
        with pytest.raises(sl.InputError, match="refitted on all data"):
            saved.evaluate()
        assert sl.open(tmp_path / "run").recommend(k=3).equals(rec.recommend(k=3))
        assert sl.compare(saved, plain).means["ease"] == plain.evaluate()["ndcg@20"]

    def test_the_whole_has_all_events(self) -> None:
        rows = [("a", "x", 1), ("a", "y", 1), ("a", "x", 3), ("a", "z", 4), ("b", "y", 2), ("b", "z", 2), ("b", "x", 9)]
        frame = pl.DataFrame(rows, schema=["user", "item", "time"], orient="row")
        split, whole = sl.load(frame, split="last", valid_share=0.0), sl.Interactions.from_frame(frame)
        found = split.whole()
        for user in range(2):
            assert found.history(user).tolist() == whole.history(user).tolist()
        assert found.indices.tolist() == whole.indices.tolist()
        assert found.times is not None
        assert whole.times is not None
        assert found.times.tolist() == whole.times.tolist()

    def test_weights_of_parts_without_are_one(self, tmp_path: Path) -> None:
        (tmp_path / "train.csv").write_text("user,item,rating\na,x,3\nb,y,2\n")
        (tmp_path / "test.csv").write_text("user,item\na,y\nb,x\n")
        whole = sl.load(tmp_path, valid_share=0.0).whole()
        assert whole.weights is not None
        assert whole.weights.tolist() == [3, 1, 1, 2]


class TestNoTest:
    @pytest.mark.parametrize("final", [[], ["--final"]])
    def test_nothing_is_measured_on_test(
        self, shortlist: Command, clicks: Path, tmp_path: Path, final: list[str]
    ) -> None:
        out = tmp_path / "run"
        answer = shortlist(*train(clicks, out, "--test-share", 0, *final))
        assert answer.code == 0
        assert "Nothing was measured on test: there is no test part" in answer.out
        metrics = json.loads((out / "metrics.json").read_text())
        assert metrics["test"] == {}
        assert metrics["valid"]["ndcg@5"] > 0
        assert shortlist("recommend", out, "--user", "person-01", "--k", 3).code == 0

    def test_neither_on_validation(self, shortlist: Command, clicks: Path, tmp_path: Path) -> None:
        flags = ["--model", "ease", "--test-share", 0, "--valid-share", 0, "--out", tmp_path / "run"]
        answer = shortlist("train", clicks, *flags)
        assert answer.code == 0
        assert answer.out.startswith("Nothing was measured on test")
        assert set(pl.read_parquet(tmp_path / "run" / "history.parquet")["part"]) == {"train"}


def test_a_wrong_configuration_is_refused_before_training(clicks: Path) -> None:
    def trained(*_: object) -> NoReturn:
        raise AssertionError("trained")

    chosen = plan("ease")
    chosen.model.fit = trained  # type: ignore[method-assign, assignment]
    good = {"data": {"source": "x"}, "protocol": "shortlist", "seed": 0}
    for wrong in (
        {"seed": 0},
        {**good, "data": "x"},
        {**good, "seed": "0"},
        {**good, "protocol": 1},
        {**good, "x": {1}},
    ):
        with pytest.raises(sl.InputError, match="config"):
            fit(chosen, sl.load(clicks), config=wrong)  # type: ignore[arg-type]
