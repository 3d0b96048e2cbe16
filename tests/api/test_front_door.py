"""The calls that `shortlist` exports, from a frame to lists, metrics, a report and a saved run."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import torch

import shortlist as sl
from command import Command
from shortlist.losses import registry as losses
from shortlist.models import registry as models
from shortlist.training import Progress

SETTINGS = {"training.epochs": 4, "loss.tau": 0.2}


def purchases(n_users: int = 60) -> pl.DataFrame:
    """Users of two tastes, in the order of their purchases."""
    rng = np.random.default_rng(0)
    rows = [
        (f"c{user:02}", f"s{item:02}", 1_700_000_000 + int(rng.integers(10**6)))
        for user in range(n_users)
        for item in rng.choice(20, 7, replace=False) + 20 * (user % 2)
    ]
    return pl.DataFrame(rows, schema=["customer", "sku", "ts"], orient="row")


@pytest.fixture(scope="module")
def split() -> sl.Split:
    return sl.load(purchases(), user="customer", item="sku", time="ts", split="last", seed=0)


@pytest.fixture(scope="module")
def rec(split: sl.Split) -> sl.Recommender:
    return sl.fit(split, "mf", sl.SL(tau=0.2), settings={"training.epochs": 4})


class TestImport:
    def test_importing_shortlist_imports_nothing_heavy(self) -> None:
        program = "import shortlist, sys; print([m for m in ('torch', 'polars', 'numpy', 'rich') if m in sys.modules])"
        answer = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
        assert answer.stdout.strip() == "[]"

    def test_every_export_can_be_imported(self) -> None:
        for name in sl.__all__:
            assert getattr(sl, name) is not None
        assert set(sl.__all__) <= set(dir(sl))

    def test_every_registered_model_and_loss_is_exported(self) -> None:
        """Those of this library; tests register more."""
        for registry in (models, losses):
            own = [cls for cls in registry.values() if cls.__module__.startswith("shortlist.")]
            assert [cls.__name__ for cls in own if getattr(sl, cls.__name__, None) is not cls] == []

    def test_an_unknown_name_is_an_attribute_error(self) -> None:
        with pytest.raises(AttributeError, match="no attribute 'nothing'"):
            _ = sl.nothing  # type: ignore[attr-defined]


FRAMES: dict[str, tuple[Callable[[pl.DataFrame], Any], type]] = {
    "polars": (lambda frame: frame, pl.DataFrame),
    "lazy": (lambda frame: frame.lazy(), pl.DataFrame),
    "pandas": (lambda frame: frame.to_pandas(), pd.DataFrame),
    "arrow": (lambda frame: frame.to_arrow(), pa.Table),
}


@pytest.mark.parametrize("library", FRAMES)
def test_frames_come_back_in_the_library_that_they_came_in(library: str, split: sl.Split, tmp_path: Path) -> None:
    make, kind = FRAMES[library]
    given = sl.load(make(purchases()), user="customer", item="sku", time="ts", split="last", seed=0)
    np.testing.assert_array_equal(given.train.indices, split.train.indices)
    rec = sl.fit(given, "ease", progress=False)
    opened = rec.save(tmp_path / "run")
    for one in (rec, opened, sl.open(tmp_path / "run")):
        assert type(one.recommend(["c03"], k=2)) is kind
        assert type(one.recommend(history=["s01"], k=2)) is kind
        assert type(one.similar(["s01"], k=2)) is kind


def test_a_duckdb_relation_is_read() -> None:
    duckdb = pytest.importorskip("duckdb")
    frame = purchases()
    relation = duckdb.sql("SELECT * FROM frame")
    given = sl.load(relation, user="customer", item="sku", time="ts", split="last", seed=0)
    assert given.train.n_pairs == frame.height - 2 * 60


class TestFit:
    def test_names_and_instances_train_the_same_model(self, split: sl.Split) -> None:
        by_name = sl.fit(split, "mf", "slatk", k=5, settings={**SETTINGS, "model.dim": 8})
        model, loss = sl.MF(dim=8), sl.SLAtK(k=5, tau=0.2)
        by_instance = sl.fit(split, model, loss, training=sl.TrainingSettings(epochs=4))
        assert by_name.config == by_instance.config
        for name, tensor in by_name.model.state().items():
            assert torch.equal(by_instance.model.state()[name], tensor)
        assert model.state() == {}, "the instance that was passed is not changed"

    def test_the_command_trains_the_same_model(self, shortlist: Command, tmp_path: Path) -> None:
        """Temperature search, early stopping and all; from a CSV file in both cases."""
        table = tmp_path / "clicks.csv"
        purchases().write_csv(table)
        flags = ("--user", "customer", "--item", "sku", "--time", "ts", "--seed", "3")
        words = ("--model", "mf", "--loss", "sl", "--k", "5", "--set", "training.epochs=6", "--out", tmp_path / "run")
        assert shortlist("train", table, *flags, *words).code == 0
        split = sl.load(table, user="customer", item="sku", time="ts", seed=3)
        rec = sl.fit(split, "mf", "sl", k=5, settings={"training.epochs": 6})
        run = sl.open(tmp_path / "run")
        assert rec.config == run.config
        assert rec.fitted.metrics["test"] == run.fitted.metrics["test"]
        for name, tensor in rec.model.state().items():
            assert torch.equal(run.model.state()[name], tensor)

    def test_a_run_folder_is_written_and_resumed(self, split: sl.Split, tmp_path: Path) -> None:
        whole = sl.fit(split, "mf", "sl", settings=SETTINGS)
        slow = {**SETTINGS, "training.checkpoint_every": 0.0}

        def interrupt(progress: Progress, share: float) -> None:
            if progress.epoch == 2:
                raise KeyboardInterrupt

        from shortlist.experiment import Callbacks

        with pytest.raises(sl.ShortlistError, match="stopped in epoch 3"):
            sl.fit(split, "mf", "sl", settings=slow, out=tmp_path / "run", callbacks=Callbacks(epoch=interrupt))
        rec = sl.fit(split, "mf", "sl", settings=slow, out=tmp_path / "run", resume=True)
        assert rec.fitted_run().folder == tmp_path / "run"
        for name, tensor in whole.model.state().items():
            assert torch.equal(rec.model.state()[name], tensor)

    def test_callbacks_follow_the_training(self, split: sl.Split) -> None:
        from shortlist.experiment import Callbacks

        epochs: list[int] = []
        callbacks = Callbacks(epoch=lambda progress, share: epochs.append(progress.epoch) if share == 0 else None)
        sl.fit(split, "mf", "sl", settings=SETTINGS, callbacks=callbacks)
        assert epochs == [1, 2, 3, 4]

    def test_a_tracker_receives_the_curves(self, split: sl.Split, tmp_path: Path) -> None:
        pytest.importorskip("tensorboard")
        sl.fit(split, "mf", "sl", settings=SETTINGS, trackers=f"tensorboard={tmp_path / 'boards'}")
        assert any((tmp_path / "boards").rglob("events.out*"))

    def test_tuning_within_a_time(self, split: sl.Split, tmp_path: Path) -> None:
        pytest.importorskip("optuna")
        rec = sl.fit(split, "mf", "sl", tune="3s", settings={"training.epochs": 3}, out=tmp_path / "tuned")
        assert rec.config["tuned"]["trials"]["done"] >= 1
        assert rec.config["training"]["epochs"] == 3, "what the caller has set is not searched"
        assert sl.open(tmp_path / "tuned").evaluate()["ndcg@20"] == rec.evaluate()["ndcg@20"]

    @pytest.mark.parametrize("name", sorted(name for name in models if models[name].task == "collaborative"))
    def test_every_model_has_fit(self, name: str, split: sl.Split) -> None:
        model = models[name]()
        options = {"training": sl.TrainingSettings(epochs=1, beat_popularity=False)} if model.is_trained else {}
        assert model.fit(split, seed=1, **options) is model
        assert model.score(np.array([0, 1])).shape == (2, split.train.n_items)

    def test_what_is_no_split_is_loaded(self, split: sl.Split, tmp_path: Path) -> None:
        purchases().rename({"customer": "user"}).write_csv(tmp_path / "clicks.csv")
        rec = sl.fit(tmp_path / "clicks.csv", "popularity")
        assert rec.split.train.n_users == split.train.n_users
        assert rec.config["data"]["source"] == str(tmp_path / "clicks.csv")

    def test_a_preset_is_a_start(self, split: sl.Split) -> None:
        rec = sl.fit(split, "mf", preset="slatk-health-mf", settings={**SETTINGS, "training.beat_popularity": False})
        assert (rec.config["loss"]["name"], rec.config["k"]) == ("slatk", 20)


class TestRecommender:
    def test_lists_leave_out_what_is_known(self, rec: sl.Recommender) -> None:
        lists = rec.recommend(k=40)
        known = {
            (user, item)
            for part in (rec.split.train, rec.split.valid, rec.split.test)
            if part is not None
            for user, item in zip(
                part.user_ids.gather(part.users_of_pairs()), part.item_ids.gather(part.indices), strict=True
            )
        }
        listed = set(lists.select("user_id", "item_id").rows())
        assert not listed & known
        everything = rec.recommend(k=40, filter_seen=False)
        assert set(everything.select("user_id", "item_id").rows()) == listed | known

    def test_the_measured_lists_may_hold_items_of_test(self, rec: sl.Recommender) -> None:
        lists = rec.recommend(k=10, filter_seen="measured")
        test = rec.split.test
        assert test is not None
        held = pl.DataFrame(
            {"user_id": test.user_ids.gather(test.users_of_pairs()), "item_id": test.item_ids.gather(test.indices)}
        )
        hits = held.join(lists, on=["user_id", "item_id"], how="left")
        recall = hits.group_by("user_id").agg(pl.col("rank").is_not_null().mean())["rank"].mean()
        assert recall == pytest.approx(rec.evaluate()["recall@10"])
        assert held.join(rec.recommend(k=40), on=["user_id", "item_id"]).is_empty()
        refused(lambda: rec.recommend(k=3, filter_seen="test"), "filter_seen: expected True, False or 'measured'")  # type: ignore[arg-type]

    def test_lists_agree_with_the_scores(self, rec: sl.Recommender) -> None:
        lists = rec.recommend(["c05"], k=3, filter_seen=False)
        user = rec.fitted.users.index("c05")
        scores = rec.model.score(np.array([user]))[0]
        best = rec.split.train.item_ids.gather(scores.topk(3).indices.numpy())
        assert lists["item_id"].to_list() == best.to_list()

    def test_only_and_exclude(self, rec: sl.Recommender) -> None:
        few = ["s01", "s02", "s03", "s21"]
        assert set(rec.recommend(["c00"], k=4, only=few, filter_seen=False)["item_id"]) == set(few)
        without = rec.recommend(["c00"], k=3, only=few, exclude=["s01"], filter_seen=False)
        assert set(without["item_id"]) == {"s02", "s03", "s21"}

    def test_a_history_of_a_training_user_gives_a_similar_list(self, rec: sl.Recommender) -> None:
        train = rec.split.train
        history = train.item_ids.gather(train.row(rec.fitted.users.index("c07"))).to_list()
        folded = rec.recommend(history=history, k=10)["item_id"]
        assert len(set(folded) & {f"s{item:02}" for item in range(20, 40)}) >= 7
        assert not set(folded) & set(history)

    def test_an_unknown_user_gets_popular_items_if_asked_for(self, rec: sl.Recommender) -> None:
        lists = rec.recommend(["c01", "nobody"], k=3, unknown_users="popular")
        assert lists["user_id"].to_list() == ["c01"] * 3 + ["nobody"] * 3
        counts = rec.split.train.item_counts()
        scores = lists.filter(user_id="nobody")["score"].to_list()
        assert scores == sorted(counts.tolist(), reverse=True)[:3]

    def test_columns_as_in_the_data(self, rec: sl.Recommender, tmp_path: Path) -> None:
        assert rec.recommend(["c01"], k=3, columns="data").columns == ["customer", "sku", "rank", "score"]
        assert rec.recommend(history=["s01"], k=3, columns="data").columns == ["sku", "rank", "score"]
        opened = rec.save(tmp_path / "run")
        assert opened.recommend(["c01"], k=3, columns="data").columns == ["customer", "sku", "rank", "score"]
        frame = purchases().rename({"customer": "user", "sku": "title"})
        odd = sl.fit(sl.load(frame, item="title", seed=0), "popularity")
        refused(lambda: odd.recommend(k=3, columns="data"), "columns: expected names other than rank, score and title")
        refused(lambda: rec.recommend(k=3, columns="mine"), "columns: expected 'standard' or 'data'")  # type: ignore[arg-type]

    def test_unknown_ids_are_skipped_if_asked_for(self, rec: sl.Recommender) -> None:
        lists = rec.recommend(["nobody", "c01"], k=3, unknown_users="skip", only=["s01", "x"], strict=False)
        assert set(lists["user_id"]) <= {"c01"}
        plain = rec.recommend(["c01"], k=3, only=["s01"])
        assert lists.equals(plain)
        history = rec.recommend(history=["x", "s01"], k=3, strict=False)
        assert history.equals(rec.recommend(history=["s01"], k=3))
        nothing = rec.recommend(history=["x"], k=3, strict=False)["item_id"].to_list()
        assert nothing == rec.recommend(["nobody"], k=3, unknown_users="popular")["item_id"].to_list()
        refused(lambda: rec.recommend(["c01"], only=["s01", "x"]), "item: unknown id 'x'")
        refused(lambda: rec.recommend(["c01"], unknown_users="none"), "unknown_users: expected")  # type: ignore[arg-type]

    @pytest.mark.parametrize("model", ["ease", "item_knn", "ials", "mf", "lightgcn", "pooled", "simplex", "ncf"])
    def test_similar_items(self, split: sl.Split, model: str) -> None:
        trained = model in ("mf", "lightgcn", "pooled", "simplex")
        settings = {**SETTINGS, "training.beat_popularity": False} if trained else {}
        if model == "ncf":
            settings = {"training.epochs": 2, "training.beat_popularity": False}
        found = sl.fit(split, model, "sl" if trained else None, settings=settings, progress=False).similar("s05", k=5)
        assert found.columns == ["item_id", "similar_id", "rank", "score"]
        assert found["item_id"].to_list() == ["s05"] * 5
        assert "s05" not in found["similar_id"].to_list()
        assert found["score"].to_list() == sorted(found["score"].to_list(), reverse=True)
        if model in ("ease", "item_knn", "mf"):
            same_taste = {f"s{item:02}" for item in range(20)}
            assert set(found["similar_id"]) <= same_taste

    def test_metrics_are_those_of_the_run(self, rec: sl.Recommender, tmp_path: Path) -> None:
        opened = rec.save(tmp_path / "run")
        for part in ("test", "valid"):
            found = rec.evaluate(part=part)
            for name, value in rec.fitted.metrics[part].items():
                assert found[name] == value
                assert opened.evaluate(part=part)[name] == value
        assert rec.evaluate(ks=[3]).per_user["ndcg@3"].mean() == pytest.approx(rec.evaluate(ks=[3])["ndcg@3"])
        assert "auc" in rec.evaluate(pairwise=True)
        again = sl.evaluate(rec.model, rec.split)
        assert again["ndcg@20"] == rec.evaluate()["ndcg@20"]

    def test_a_split_keeps_its_protocol(self) -> None:
        """Under irbenchmark, validation items may be listed at test; a split made so is evaluated so everywhere."""
        frame = purchases()
        ours = sl.load(frame, user="customer", item="sku", seed=0)
        theirs = sl.load(frame, user="customer", item="sku", seed=0, protocol="irbenchmark")
        assert [len(each.exclusions("test")) for each in (ours, theirs)] == [2, 1]
        assert theirs.valid is not None
        rec = sl.fit(theirs, "popularity")
        listed = rec.recommend(k=40, filter_seen="measured").select("user_id", "item_id").rows()
        valid = theirs.valid
        held = zip(valid.user_ids.gather(valid.users_of_pairs()), valid.item_ids.gather(valid.indices), strict=True)
        assert set(held) <= set(listed)

    def test_compare(self, rec: sl.Recommender, split: sl.Split) -> None:
        ease = sl.fit(split, sl.EASE(regularization=10.0))
        table = sl.compare(rec, ease, metric="ndcg@10")
        assert table.means == {"mf with sl": rec.evaluate()["ndcg@10"], "ease": ease.evaluate()["ndcg@10"]}
        assert table.to_frame()["difference"][0] == pytest.approx(table.means["ease"] - table.means["mf with sl"])
        assert list(sl.compare(ease, ease).means) == ["ease", "ease (2)"]

    def test_a_report_is_one_page(self, rec: sl.Recommender, tmp_path: Path) -> None:
        pytest.importorskip("altair")
        page = rec.report(tmp_path / "page.html", titles={"s01": "a red hat"})
        assert (tmp_path / "page.html").read_text() == page.content
        assert page.content.count("<svg") >= 5
        assert "iframe" in page._repr_html_()

    def test_representations_for_people(self, rec: sl.Recommender, split: sl.Split) -> None:
        assert repr(rec) == "Recommender(mf with sl; 60 users, 40 items, 300 pairs for training)"
        for shown in (rec, rec.evaluate(), split, split.train, sl.compare(rec, rec)):
            assert shown._repr_html_().startswith("<table>")
        assert "ndcg@20" in repr(rec.evaluate())

    def test_markup_in_ids_is_escaped(self) -> None:
        frame = pl.DataFrame({"user": ["<b>a</b>", "b", "c"] * 4, "item": [f"<i>{n}</i>" for n in range(12)]})
        rec = sl.fit(sl.load(frame, valid_share=0.0), "popularity")
        assert "<b>" not in rec._repr_html_()


def refused(call: Callable[[], Any], text: str) -> None:
    """The call is refused with one clear sentence."""
    with pytest.raises(sl.InputError) as caught:
        call()
    assert text in str(caught.value)
    assert "\n" not in str(caught.value)


class TestBadInput:
    def test_data(self) -> None:
        frame = purchases()
        options: dict[str, Any] = {"user": "customer", "item": "sku"}
        refused(lambda: sl.load(frame, user="who", item="sku"), "expected a column 'who' for the user")
        null = frame.with_columns(sku=pl.when(pl.col("ts") == frame["ts"][4]).then(None).otherwise("sku"))
        refused(lambda: sl.load(null, **options), "row 4, column 'sku': expected an id, received nothing")
        weights = frame.with_columns(w=pl.lit(1.0)).to_pandas()
        weights.loc[2, "w"] = np.nan
        refused(lambda: sl.load(weights, **options, weight="w"), "row 2, column 'w': expected a number")
        times = frame.with_columns(ts=pl.lit("yesterday"))
        refused(lambda: sl.load(times, **options, time="ts"), "row 0, column 'ts': expected a number or an ISO date")
        refused(lambda: sl.load(frame.filter(customer="c00"), **options), "expected at least two users")
        refused(lambda: sl.load(frame.clear(), **options), "expected")
        refused(lambda: sl.load(42), "expected a path, a name or a DataFrame")

    def test_models_and_losses(self, split: sl.Split) -> None:
        refused(lambda: sl.fit(split, "mff"), "unknown name 'mff'; did you mean 'mf'?")
        refused(lambda: sl.fit(split, "mf", "slatkk"), "did you mean 'slatk'?")
        refused(lambda: sl.fit(split, "ease", "sl"), "ease: expected no loss")
        refused(lambda: sl.fit(split, "mf", sl.SLAtK(k=5), k=10), "fit.k: expected 5, the K of the loss")
        refused(lambda: sl.fit(split, "mf", settings={"lr": 0.1}), "expected names such as model.…")
        refused(lambda: sl.fit(split, "mf", settings={"optimizer.lrr": 0.1}), "unknown parameter 'lrr'")
        refused(lambda: sl.fit(split, "mf", "slatk", k=1000), "1000")
        refused(lambda: sl.fit(split, "mf", tune="soon"), "expected a time such as 90s, 2m or 1h")

    def test_models_that_were_not_fitted(self, split: sl.Split) -> None:
        for model in (sl.MF(), sl.EASE(), sl.Popularity(), sl.NCF(), sl.LightGCN()):
            name = type(model).__name__
            refused(lambda m=model: sl.evaluate(m, split), f"{name}: expected a fitted model")  # type: ignore[misc]
        refused(lambda: sl.MF().score(np.array([0])), "MF: expected a fitted model")

    def test_lists(self, rec: sl.Recommender, split: sl.Split) -> None:
        refused(lambda: rec.recommend(["c0x"]), "user: unknown id 'c0x'; did you mean")
        refused(lambda: rec.recommend(history=["s99", "s98"]), "item: unknown ids 's99', 's98'")
        refused(lambda: rec.recommend(history=[]), "history: expected at least one item")
        refused(lambda: rec.recommend(["c01"], history=["s01"]), "expected users or a history, received both")
        refused(lambda: rec.recommend(["c01"], k=0), "K: expected a whole number from 1 to 40")
        refused(lambda: rec.similar(["s99"]), "item: unknown id 's99'")
        popular = sl.fit(split, "popularity")
        refused(lambda: popular.similar(["s01"]), "Popularity: expected a model with item similarities")
        ncf = sl.fit(split, "ncf", settings={"training.epochs": 1, "training.beat_popularity": False})
        refused(lambda: ncf.recommend(history=["s01"]), "NCF: expected a model that supports histories")

    def test_runs(self, rec: sl.Recommender, split: sl.Split, tmp_path: Path) -> None:
        refused(lambda: sl.open(tmp_path / "nothing"), "expected the folder of a run, received nothing")
        (tmp_path / "other").mkdir()
        (tmp_path / "other" / "thesis.txt").write_text("mine")
        refused(lambda: rec.save(tmp_path / "other"), "expected a new or empty folder")
        refused(lambda: rec.save(tmp_path / "other", overwrite=True), "expected an earlier run to overwrite")
        refused(lambda: sl.compare(rec), "expected two or more recommenders")
        other = sl.load(purchases(), user="customer", item="sku", seed=9)
        refused(
            lambda: sl.compare(rec, sl.fit(other, "popularity")),
            "expected the same test part, received other test items",
        )
        refused(lambda: rec.fitted_run(), "save it first")
