"""Damaged and altered runs: one line that names the file, and exit code 2."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import torch
from safetensors.torch import load_file, save_file

from command import Answer, Command, says
from shortlist.cli import run as command_line
from shortlist.errors import InputError
from shortlist.runs import open_run
from shortlist.runs.folder import MANIFEST

MODELS = ("item_knn", "ease", "popularity", "mf", "lightgcn", "pooled", "simplex", "ncf")
CHECKED = ("config.json", "metrics.json", "per_user.parquet", "model.safetensors", "log.jsonl", "ids.parquet")
FILES = (*CHECKED, "history.parquet")
Tamper = Callable[[Path], None]


@pytest.fixture(scope="module")
def runs(clicks: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A run of each kind, and of each another one, with another seed."""
    folder = tmp_path_factory.mktemp("runs")
    made = {}
    for model in MODELS:
        for seed in (0, 1):
            arguments = [
                "train",
                clicks,
                "--model",
                model,
                "--seed",
                seed,
                "--out",
                folder / f"{model}{seed}",
                "--json",
            ]
            if model in MODELS[3:]:
                arguments += ["--loss", "bpr", "--set", "training.epochs=1", "--set", "training.beat_popularity=false"]
            assert command_line([str(argument) for argument in arguments]) == 0
            made[f"{model}{seed}"] = folder / f"{model}{seed}"
    return made


@pytest.fixture
def copy(runs: dict[str, Path], tmp_path: Path) -> Callable[..., Path]:
    def copied(name: str, *, manifest: bool = True) -> Path:
        folder = tmp_path / name
        shutil.copytree(runs[name], folder)
        if not manifest:
            (folder / MANIFEST).unlink()
        return folder

    return copied


def read_all(shortlist: Command, folder: Path) -> list[Answer]:
    """Every command that reads a run; between them they read every file."""
    return [
        shortlist("evaluate", folder, "--json"),
        shortlist("recommend", folder, "--user", "person-01", "--json"),
    ]


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("kind", ["truncated", "empty", "longer", "a flipped bit", "of another run", "missing"])
@pytest.mark.parametrize("model", ["item_knn", "mf"])
def test_every_altered_file_is_refused(
    shortlist: Command, copy: Callable[..., Path], runs: dict[str, Path], name: str, kind: str, model: str
) -> None:
    folder = copy(f"{model}0")
    path = folder / name
    content = path.read_bytes()
    if kind == "missing":
        path.unlink()
    elif kind == "of another run":
        other = (runs[f"{model}1"] / name).read_bytes()
        if other == content:
            pytest.skip("both runs have the same")
        path.write_bytes(other)
    else:
        flipped = bytearray(content)
        flipped[len(flipped) * 2 // 3] ^= 4
        altered = {"truncated": content[:-1], "empty": b"", "longer": content + b" ", "a flipped bit": bytes(flipped)}
        path.write_bytes(altered[kind])
    for answer in read_all(shortlist, folder):
        says(answer, 2, name)


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"files": 1}', '{"files": {"a": []}}', '{"files": {"../x": [1]}}', "\x00"]
)
def test_a_damaged_manifest_is_refused(shortlist: Command, copy: Callable[..., Path], text: str) -> None:
    folder = copy("popularity0")
    (folder / MANIFEST).write_text(text)
    for answer in read_all(shortlist, folder):
        says(answer, 2, MANIFEST)


def test_runs_of_earlier_versions_open(shortlist: Command, copy: Callable[..., Path]) -> None:
    for model in MODELS:
        assert [each.code for each in read_all(shortlist, copy(f"{model}0", manifest=False))] == [0, 0]


def test_the_model_card_may_be_edited(shortlist: Command, copy: Callable[..., Path]) -> None:
    folder = copy("popularity0")
    (folder / "model_card.md").write_text("ours")
    assert [each.code for each in read_all(shortlist, folder)] == [0, 0]


def change(name: str, key: str, value: Any) -> Tamper:
    def tamper(folder: Path) -> None:
        content = json.loads((folder / name).read_text())
        *above, last = key.split("/")
        inner = content
        for each in above:
            inner = inner[each]
        inner[last] = value
        (folder / name).write_text(json.dumps(content))

    return tamper


def table(name: str, alter: Callable[[pl.DataFrame], pl.DataFrame]) -> Tamper:
    def tamper(folder: Path) -> None:
        alter(pl.read_parquet((folder / name).read_bytes())).write_parquet(folder / name)

    return tamper


def weights(alter: Callable[[dict[str, torch.Tensor]], Any]) -> Tamper:
    def tamper(folder: Path) -> None:
        path = folder / "model.safetensors"
        state = {name: tensor.clone() for name, tensor in load_file(path).items()}
        alter(state)
        path.unlink()
        save_file(state, path)

    return tamper


def swapped(frame: pl.DataFrame) -> pl.DataFrame:
    ids = frame["user_id"].to_list()
    ids[0], ids[1] = ids[1], ids[0]
    return frame.with_columns(pl.Series("user_id", ids))


def duplicated(frame: pl.DataFrame) -> pl.DataFrame:
    ids = frame["user_id"].to_list()
    return frame.with_columns(pl.Series("user_id", [ids[1], *ids[1:]]))


DAMAGES: dict[str, tuple[str, Tamper]] = {
    "format": ("config.json", change("config.json", "format", "1")),
    "a protocol that is not known": ("config.json", change("config.json", "protocol", "mine")),
    "a protocol that is no text": ("config.json", change("config.json", "protocol", ["shortlist"])),
    "a task that is not known": ("config.json", change("config.json", "task", "chess")),
    "a task that is no text": ("config.json", change("config.json", "task", 7)),
    "a model that is not known": ("config.json", change("config.json", "model/name", "chess")),
    "a model without a name": ("config.json", change("config.json", "model", {})),
    "a model that is a list": ("config.json", change("config.json", "model", [1])),
    "a model that is null": ("config.json", change("config.json", "model", None)),
    "an unknown setting": ("config.json", change("config.json", "model/colour", "red")),
    "data that is a text": ("config.json", change("config.json", "data", "x")),
    "K that is a text": ("config.json", change("config.json", "k", "20")),
    "a seed that is a text": ("config.json", change("config.json", "seed", "x")),
    "a loss that is a text": ("config.json", change("config.json", "loss", "sl")),
    "training that is a list": ("config.json", change("config.json", "training", [])),
    "training of wrong types": ("config.json", change("config.json", "training", {"epochs": "many"})),
    "metrics that are a list": ("metrics.json", change("metrics.json", "test", [])),
    "a metric that is a text": ("metrics.json", change("metrics.json", "test/ndcg@20", "high")),
    "a metric that is a list": ("metrics.json", change("metrics.json", "valid/ndcg@20", [1])),
    "a metric of another name": ("metrics.json", change("metrics.json", "test/ndcg@x", 0.5)),
    "users that are a text": ("metrics.json", change("metrics.json", "users", "60")),
    "users that are negative": ("metrics.json", change("metrics.json", "users", -1)),
    "epochs that are null": ("metrics.json", change("metrics.json", "epochs", None)),
    "ids in another order": ("ids.parquet", table("ids.parquet", lambda frame: frame.reverse())),
    "two ids swapped": ("ids.parquet", table("ids.parquet", swapped)),
    "an id twice": ("ids.parquet", table("ids.parquet", duplicated)),
    "ids that are floats": ("ids.parquet", table("ids.parquet", lambda frame: frame.cast({"item_id": pl.Float64}))),
    "ids without a column": ("ids.parquet", table("ids.parquet", lambda frame: frame.drop("item_id"))),
    "too few ids": ("history.parquet", table("ids.parquet", lambda frame: frame.head(30))),
    "a user out of range": (
        "history.parquet",
        table("history.parquet", lambda frame: frame.with_columns(user=pl.col("user") + 1)),
    ),
    "an item out of range": (
        "history.parquet",
        table("history.parquet", lambda frame: frame.with_columns(item=pl.col("item") + 9)),
    ),
    "a negative item": (
        "history.parquet",
        table("history.parquet", lambda frame: frame.with_columns(item=pl.col("item") - 9)),
    ),
    "items that are floats": (
        "history.parquet",
        table("history.parquet", lambda frame: frame.cast({"item": pl.Float32})),
    ),
    "items that are missing": (
        "history.parquet",
        table("history.parquet", lambda frame: frame.with_columns(item=None)),
    ),
    "history without parts": ("history.parquet", table("history.parquet", lambda frame: frame.drop("part"))),
    "history of another part": (
        "history.parquet",
        table("history.parquet", lambda frame: frame.with_columns(part=pl.lit("x"))),
    ),
    "history without training": (
        "history.parquet",
        table("history.parquet", lambda frame: frame.filter(pl.col("part") != "train")),
    ),
    "no history": ("history.parquet", table("history.parquet", lambda frame: frame.clear())),
}


@pytest.mark.parametrize("kind", DAMAGES)
def test_contents_are_checked_where_there_is_no_manifest(
    shortlist: Command, copy: Callable[..., Path], kind: str
) -> None:
    name, tamper = DAMAGES[kind]
    folder = copy("popularity0", manifest=False)
    tamper(folder)
    for answer in read_all(shortlist, folder):
        says(answer, 2, f"{name}: expected")


def pointers(state: dict[str, torch.Tensor], name: str, place: int, value: int) -> None:
    state[name][place] = value


State = dict[str, torch.Tensor]


def with_nan(state: State) -> None:
    next(tensor for tensor in state.values() if tensor.is_floating_point()).view(-1)[3] = float("nan")


def retyped(state: State) -> None:
    state.update({name: part.double() if part.is_floating_point() else part.float() for name, part in state.items()})


def reshaped(state: State) -> None:
    state.update({name: part.unsqueeze(0) for name, part in state.items()})


def cut(length: int | None) -> Callable[[State], None]:
    return lambda state: state.update({name: part[:length].clone() for name, part in state.items()})


WEIGHTS: dict[str, tuple[tuple[str, ...], Callable[[State], Any]]] = {
    "NaN": (("ease", "mf", "item_knn", "ncf"), with_nan),
    "nothing": (MODELS, lambda state: state.clear()),
    "one tensor less": (MODELS, lambda state: state.pop(sorted(state)[0])),
    "of another type": (MODELS, retyped),
    "of another shape": (MODELS, reshaped),
    "too short": (MODELS, cut(-1)),
    "empty": (MODELS, cut(0)),
    "similarity out of range": (("item_knn",), lambda state: pointers(state, "similarity.indices", 3, 2**30)),
    "similarity negative": (("item_knn",), lambda state: pointers(state, "similarity.indices", 3, -(2**30))),
    "similarity pointers beyond": (("item_knn",), lambda state: pointers(state, "similarity.indptr", -1, 2**30)),
    "similarity pointers falling": (("item_knn",), lambda state: pointers(state, "similarity.indptr", 3, 2**30)),
    "history out of range": (("item_knn", "ease"), lambda state: pointers(state, "history.indices", 3, 2**30)),
    "history negative": (("item_knn", "ease"), lambda state: pointers(state, "history.indices", 3, -5)),
    "history pointers falling": (("item_knn", "ease"), lambda state: pointers(state, "history.indptr", 3, 2**30)),
    "history pointers from below": (("item_knn", "ease"), lambda state: pointers(state, "history.indptr", 0, -8)),
    "pairs out of range": (("lightgcn", "pooled", "simplex"), lambda state: pointers(state, "pairs.indices", 3, 2**30)),
    "pairs negative": (("lightgcn", "pooled", "simplex"), lambda state: pointers(state, "pairs.indices", 3, -1)),
    "pairs falling": (("lightgcn", "pooled", "simplex"), lambda state: pointers(state, "pairs.indptr", 3, 2**30)),
}  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "model"), [(kind, model) for kind, (models, _) in WEIGHTS.items() for model in models]
)
def test_weights_are_checked_where_there_is_no_manifest(
    shortlist: Command, copy: Callable[..., Path], kind: str, model: str
) -> None:
    folder = copy(f"{model}0", manifest=False)
    weights(WEIGHTS[kind][1])(folder)
    for answer in read_all(shortlist, folder):
        says(answer, 2, "model.safetensors: expected")


@pytest.mark.parametrize("alter", [
    lambda frame: frame.head(3),
    lambda frame: pl.concat([frame, frame]),
    lambda frame: frame.cast({"ndcg@20": pl.String}),
    lambda frame: frame.with_columns(user_id=pl.lit("person-01")),
])  # fmt: skip
def test_values_of_users_are_checked(
    shortlist: Command, copy: Callable[..., Path], runs: dict[str, Path], alter: Callable[[pl.DataFrame], pl.DataFrame]
) -> None:
    folder = copy("popularity0", manifest=False)
    table("per_user.parquet", alter)(folder)
    says(shortlist("compare", folder, runs["ease0"]), 2, "per_user.parquet: expected")


@pytest.mark.parametrize("manifest", [True, False])
@pytest.mark.parametrize("first", ["nothing", "the model", "the data"])
def test_a_run_that_is_replaced_while_open_never_mixes(
    copy: Callable[..., Path], clicks: Path, manifest: bool, first: str
) -> None:
    folder = copy("ease0", manifest=manifest)
    run = open_run(folder)
    if first == "the model":
        _ = run.model
    elif first == "the data":
        _ = run.task
    before = run.model.score(np.arange(3)) if first == "the model" else None
    arguments = ["train", clicks, "--model", "ease", "--seed", "7", "--out", folder, "--overwrite", "--json"]
    assert command_line([str(argument) for argument in arguments]) == 0
    if before is not None:
        assert torch.equal(run.model.score(np.arange(3)), before)
        _ = run.task
    else:
        with pytest.raises(InputError, match="expected the file that was there when the run was opened"):
            _ = run.model, run.task
    assert open_run(folder).config["seed"] == 7


def test_lists_are_not_written_into_the_run(shortlist: Command, copy: Callable[..., Path]) -> None:
    folder = copy("ease0")
    before = (folder / "ids.parquet").read_bytes()
    for name in ("ids.parquet", "lists.csv"):
        out = ["--out", folder / name]
        says(shortlist("recommend", folder, "--users", "all", *out), 2, "expected a place outside the run folder")
        says(shortlist("similar", folder, "--item", "1001", *out), 2, "expected a place outside the run folder")
    assert (folder / "ids.parquet").read_bytes() == before


def test_nan_in_metrics_and_log_does_not_break_the_report(
    shortlist: Command, copy: Callable[..., Path], tmp_path: Path
) -> None:
    pytest.importorskip("altair")
    folder = copy("mf0", manifest=False)
    change("metrics.json", "test/ndcg@20", float("nan"))(folder)
    change("metrics.json", "valid/recall@5", float("inf"))(folder)
    log = folder / "log.jsonl"
    line = '{"epoch": 2, "loss": NaN, "lr": Infinity, "seconds": 0.1, "valid ndcg": NaN}\n'
    log.write_text(log.read_text() + line + '7\n["epoch"]\n{"epoch": "x"}\n{"epoch": 3}\n')
    answer = shortlist("report", folder, "--out", tmp_path / "page.html")
    assert answer.code == 0, answer
    assert shortlist("evaluate", folder).code == 0
