"""`shortlist recommend --history`: people who were not there in training, by the command and from Python."""

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from command import Command
from shortlist.cli import run
from shortlist.errors import InputError
from shortlist.recommend import recommend, recommend_to
from shortlist.runs import open_run


@pytest.fixture(scope="module", params=["mf", "lightgcn", "pooled"])
def trained(request: pytest.FixtureRequest, clicks: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of a model of vectors; people like even or odd things."""
    folder = tmp_path_factory.mktemp("runs") / request.param
    settings = ["--set", "model.dim=8", "--set", "training.epochs=30", "--set", "training.batch=16"]
    options = ["--model", request.param, "--loss", "sl", "--set", "loss.tau=0.2", *settings]
    assert run([str(part) for part in ("train", clicks, *options, "--out", folder, "--json")]) == 0
    return folder


def test_recommendations_match_the_history(shortlist: Command, trained: Path) -> None:
    answer = shortlist("recommend", trained, "--history", "1001,1004, 1009,1012,1001", "--k", 5, "--json")
    assert answer.code == 0
    items = answer.json["items"]
    assert [each["rank"] for each in items] == [1, 2, 3, 4, 5]
    assert all(1000 <= each["item_id"] < 1020 for each in items)
    assert not {1001, 1004, 1009, 1012} & {each["item_id"] for each in items}
    scores = [each["score"] for each in items]
    assert scores == sorted(scores, reverse=True)
    assert "for a history of 1001,1004" in shortlist("recommend", trained, "--history", "1001,1004", "--k", 5).out


def test_files_and_the_other_options(shortlist: Command, trained: Path, tmp_path: Path) -> None:
    (tmp_path / "met.txt").write_text("1021\n1025\n")
    out = tmp_path / "list.csv"
    options = ["--only", "1021,1022,1023,1024", "--exclude", "1023", "--k", 4, "--out", out]
    assert shortlist("recommend", trained, "--history", tmp_path / "met.txt", *options).out == f"2 rows: {out}\n"
    table = pl.read_csv(out)
    assert table.columns == ["item_id", "rank", "score"]
    assert sorted(table["item_id"]) == [1022, 1024]


def test_a_long_history_is_not_taken_for_the_name_of_a_file(shortlist: Command, trained: Path) -> None:
    history = ",".join(str(1000 + item) for item in range(20)) + ",1001" * 60
    assert len(history) > 300
    answer = shortlist("recommend", trained, "--history", history, "--k", 5, "--json")
    assert answer.code == 0
    assert all(each["item_id"] >= 1020 for each in answer.json["items"])


def test_the_history_of_a_known_user_gives_nearly_the_same_list(trained: Path) -> None:
    opened = open_run(trained)
    found = []
    for user in opened.users.values[:20]:
        row = opened.split.train.row(opened.users.index(user))
        new = recommend_to(opened, opened.items.values[row], 5, exclude=_other_known(opened, user))
        known = recommend(opened, [user], 5)
        found.append(len(set(new["item_id"]) & set(known["item_id"])) / 5)
    assert np.mean(found) > 0.8


def _other_known(opened, user: str) -> pl.Series:  # type: ignore[no-untyped-def]
    """What the run's lists leave out for a user beside what it was trained with."""
    index = opened.users.index(user)
    return opened.items.values[np.concatenate([known.row(index) for known in opened.known_pairs])]


def test_vectors_from_python(trained: Path) -> None:
    opened = open_run(trained)
    vectors = opened.fold_in([[1000, 1001], pl.Series([1025])])
    assert vectors.shape == (2, 8)
    scores = opened.model.score(vectors)
    assert scores[0, :20].mean() > scores[0, 20:].mean()
    assert scores[1, :20].mean() < scores[1, 20:].mean()
    with pytest.raises(InputError, match="item: unknown id '7'"):
        opened.fold_in([[1000], [7]])


def test_unknown_items_are_named(shortlist: Command, trained: Path) -> None:
    one = shortlist("recommend", trained, "--strict", "--history", "1001,1oo2")
    assert one.code == 2
    assert "item: unknown id '1oo2'" in one.err
    several = shortlist("recommend", trained, "--strict", "--history", "7,1001,8,9,10,11,12")
    assert several.code == 2
    assert "item: unknown ids '7', '8', '9', '10', '11' and 1 more (40 items are known)" in several.err
    assert several.err.count("\n") == 1
    assert shortlist("recommend", trained, "--history", ", ,").code == 2


def test_unknown_items_of_a_history_are_skipped(shortlist: Command, trained: Path) -> None:
    known = shortlist("recommend", trained, "--history", "1001,1004", "--k", 5, "--json")
    mixed = shortlist("recommend", trained, "--history", "7,1001,x,1004", "--k", 5, "--json")
    assert mixed.code == 0
    assert mixed.err == "shortlist: --history: 2 unknown ids skipped: '7', 'x' (40 known)\n"
    assert mixed.json == {**known.json, "unknown": {"history": 2}}
    nothing = shortlist("recommend", trained, "--history", "7,x", "--k", 5, "--json")
    assert nothing.code == 0
    assert "no item of the history is known: the most popular items are listed" in nothing.err
    counts = open_run(trained).split.train.item_counts()
    assert [each["score"] for each in nothing.json["items"]] == sorted(counts.tolist(), reverse=True)[:5]


@pytest.mark.parametrize("model", [["mf", "--loss", "bpr"], ["ials", "--set", "model.threads=1"]])
def test_inner_products_too(shortlist: Command, model: list[str], clicks: Path, tmp_path: Path) -> None:
    """By a loss that draws its negatives, and by least squares."""
    if model[0] == "ials":
        pytest.importorskip("implicit")
    assert shortlist("train", clicks, "--model", *model, "--out", tmp_path / "run", "--json").code == 0
    answer = shortlist("recommend", tmp_path / "run", "--history", "1001,1004,1009,1012", "--k", 5, "--json")
    assert answer.code == 0
    assert all(1000 <= each["item_id"] < 1020 for each in answer.json["items"])


@pytest.mark.parametrize("model", ["ease", "item_knn", "popularity"])
def test_baselines_take_histories(shortlist: Command, model: str, clicks: Path, tmp_path: Path) -> None:
    """The history of a user of training gets the list that the model gives this user."""
    assert shortlist("train", clicks, "--model", model, "--out", tmp_path / "run", "--json").code == 0
    opened = open_run(tmp_path / "run")
    for user in opened.users.values[:5]:
        row = opened.split.train.row(opened.users.index(user))
        new = recommend_to(opened, opened.items.values[row], 5, exclude=_other_known(opened, user))
        assert new.equals(recommend(opened, [user], 5).drop("user_id"))
    answer = shortlist("recommend", tmp_path / "run", "--history", "1001,1004,1009,1012", "--k", 5, "--json")
    assert answer.code == 0
    items = [each["item_id"] for each in answer.json["items"]]
    assert len(set(items) - {1001, 1004, 1009, 1012}) == 5
    assert model == "popularity" or all(1000 <= item < 1020 for item in items)
