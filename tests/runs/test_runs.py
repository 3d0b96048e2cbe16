"""Run folders: whole or not there, and honest about what is wrong with them."""

import json
import os
import resource
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import torch

import shortlist
from shortlist.data import Interactions, Split
from shortlist.errors import InputError, ShortlistError, WriteTargetError
from shortlist.experiment import fit, plan
from shortlist.locks import is_locked
from shortlist.models import EASE, registry
from shortlist.runs import (
    CHECKPOINT,
    FILES,
    Fitted,
    Ids,
    Run,
    RunLocked,
    check_target,
    evaluate_split,
    new_folder,
    open_run,
    write_run,
)
from shortlist.runs.folder import MANIFEST, lock
from shortlist.tasks import Collaborative

SOURCE = str(Path(shortlist.__file__).parents[1])
TABLES = ("ids.parquet", "history.parquet")
"""The tables of a split, which the task of a run writes."""

NEW = '{"format": 1, "model": {}, "protocol": "new"}'

FOLDER_MODULE = str(Path(shortlist.__file__).parent / "runs" / "folder.py")


def part(pairs: list[tuple[int, int]], users: pl.Series, items: pl.Series) -> Interactions:
    rows, columns = zip(*pairs, strict=True)
    return Interactions.from_pairs(rows, columns, user_ids=users, item_ids=items)


@pytest.fixture(scope="module")
def split() -> Split:
    users, items = pl.Series(["ann", "bob", "cleo", "dan"]), pl.Series([10, 11, 12, 13, 14, 15], dtype=pl.Int32)
    return Split(
        part([(0, 0), (0, 1), (1, 1), (1, 2), (2, 0), (2, 2), (3, 5)], users, items),
        part([(0, 3), (1, 0)], users, items),
        part([(0, 2), (2, 1), (2, 4)], users, items),
    )


def write(folder: Path, split: Split, overwrite: bool = False, name: str = "ease") -> Run:
    model = registry[name]()
    model.fit(split.train)  # type: ignore[attr-defined]
    fitted = Fitted(
        model,
        name,
        Collaborative(split),
        evaluate_split(model, split, ks=[1, 3]),
        sections={"data": {"source": "made"}, "protocol": "shortlist", "seed": 0},
        seconds={"load": 0.1, "train": 0.2, "evaluate": 0.3},
        log=[{"event": "fit", "seconds": 0.2}],
    )
    return write_run(folder, fitted, overwrite=overwrite)


def test_a_run_comes_back_as_it_was(tmp_path: Path, split: Split) -> None:
    write(tmp_path / "a" / "run", split)
    run = open_run(tmp_path / "a" / "run")
    assert sorted(path.name for path in run.folder.iterdir()) == sorted([*FILES, *TABLES, MANIFEST])
    assert run.config["model"] == {"name": "ease", "regularization": 300.0}
    assert run.users.values.to_list() == ["ann", "bob", "cleo", "dan"]
    assert run.items.values.dtype == pl.Int32
    for name in ("train", "valid", "test"):
        before, after = getattr(split, name), getattr(run.split, name)
        np.testing.assert_array_equal(before.indptr, after.indptr)
        np.testing.assert_array_equal(before.indices, after.indices)
    model = EASE()
    model.fit(split.train)
    assert torch.equal(run.model.score(np.arange(4)), model.score(np.arange(4)))
    assert run.per_user["user_id"].to_list() == ["ann", "cleo"]
    assert run.per_user["recall@3"].mean() == pytest.approx(run.metrics["test"]["recall@3"])
    assert [path.name for path in (tmp_path / "a").iterdir()] == ["run"]


def test_metrics_have_the_names_that_scripts_rely_on(tmp_path: Path, split: Split) -> None:
    write(tmp_path / "run", split)
    metrics = json.loads((tmp_path / "run" / "metrics.json").read_text())
    assert list(metrics) == ["test", "valid", "users", "skipped_users", "epochs", "seconds"]
    assert {"ndcg@3", "recall@3", "ndcg@1"} <= metrics["test"].keys()
    assert metrics["test"].keys() - metrics["valid"].keys() == {
        f"{name}@{k}" for name in ("coverage", "gini", "popularity") for k in (1, 3)
    }
    assert (metrics["users"], metrics["skipped_users"], metrics["epochs"]) == (2, 2, 0)
    assert metrics["seconds"] == {"load": 0.1, "train": 0.2, "evaluate": 0.3}


def test_the_card_describes_the_run(tmp_path: Path, split: Split) -> None:
    run = write(tmp_path / "run", split)
    card = (run.folder / "model_card.md").read_text()
    assert card.startswith("# ease\n")
    for text in (
        "Steck",
        "`model.regularization` = 300.0",
        "4 users, 6 items, 7 pairs",
        "| 3 |",
        "2 without were excluded",
    ):
        assert text in card


def test_the_card_of_a_trained_model_names_its_loss(tmp_path: Path, split: Split) -> None:
    chosen = plan("mf", "sl", k=3, values={"loss": {"tau": 0.3}, "training": {"epochs": 1, "beat_popularity": False}})
    config = {"data": {}, "protocol": "shortlist", "seed": 4}
    fit(chosen, replace(split, test=None), tmp_path / "run", config=config)
    card = (tmp_path / "run" / "model_card.md").read_text()
    assert "trained by the loss `sl`" in card
    for line in ("- `model.dim` = 64", "- `loss.tau` = 0.3", "- `training.epochs` = 1", "- seed 4"):
        assert line in card.splitlines()
    assert "There are no test metrics." in card
    assert "| K |" not in card


def test_test_lists_exclude_what_the_protocol_says(split: Split, tmp_path: Path) -> None:
    assert split.exclusions("test") == (split.train, split.valid)
    assert replace(split, valid=None).exclusions("test") == (split.train,)
    published = replace(split, protocol="irbenchmark")
    assert published.exclusions("test") == (split.train,)
    assert published.exclusions("valid") == split.exclusions("valid") == (split.train,)
    model = EASE().fit(split)
    for protocol, known in (("shortlist", 2), ("irbenchmark", 1)):
        asked = replace(split, protocol=protocol)
        found = evaluate_split(model, asked, ks=[6])
        fitted = Fitted(model, "ease", Collaborative(asked), found, sections={"protocol": protocol}, seconds={})
        run = open_run(write_run(tmp_path / protocol, fitted).folder)
        assert (run.split.protocol, len(run.measured_exclusions)) == (protocol, known)
        assert evaluate_split(run.model, run.split, ks=[6]).test_means() == pytest.approx(run.metrics["test"])


class TestTargets:
    def test_an_earlier_run_is_kept_unless_asked(self, tmp_path: Path, split: Split) -> None:
        write(tmp_path / "run", split)
        with pytest.raises(InputError, match="expected a new or empty folder, received one with files"):
            write(tmp_path / "run", split, name="popularity")
        assert open_run(tmp_path / "run").config["model"]["name"] == "ease"
        write(tmp_path / "run", split, name="popularity", overwrite=True)
        assert open_run(tmp_path / "run").config["model"]["name"] == "popularity"
        assert [path.name for path in tmp_path.iterdir()] == ["run"]

    def test_a_folder_of_other_things_is_never_overwritten(self, tmp_path: Path) -> None:
        (tmp_path / "letters").mkdir()
        (tmp_path / "letters" / "dear.txt").write_text("x")
        with pytest.raises(InputError, match=r"expected an earlier run to overwrite, received .* without config\.json"):
            check_target(tmp_path / "letters", overwrite=True)

    @pytest.mark.parametrize("name", [f".{CHECKPOINT}.new", ".tmpA1b2C3"])
    def test_a_folder_with_an_incomplete_first_checkpoint_is_accepted(self, tmp_path: Path, name: str) -> None:
        (tmp_path / name).write_bytes(b"half")
        check_target(tmp_path)
        (tmp_path / ".tmp").write_bytes(b"mine")
        with pytest.raises(InputError, match="expected a new or empty folder"):
            check_target(tmp_path)

    def test_an_empty_folder_is_accepted(self, tmp_path: Path, split: Split) -> None:
        (tmp_path / "run").mkdir()
        write(tmp_path / "run", split)
        open_run(tmp_path / "run")

    def test_a_file_is_refused(self, tmp_path: Path) -> None:
        (tmp_path / "file").write_text("x")
        with pytest.raises(InputError, match="expected a folder to write a run to, received a file"):
            check_target(tmp_path / "file")
        with pytest.raises(InputError, match="expected a place to write a run to, received Not a directory"):
            check_target(tmp_path / "file" / "run")

    def test_a_place_without_permission_is_refused(self, tmp_path: Path) -> None:
        with (
            as_nobody(tmp_path),
            pytest.raises(InputError, match=r"run: expected a place .*, received Permission denied"),
        ):
            check_target(tmp_path / "deep" / "run")
        assert list(tmp_path.iterdir()) == []


class TestLock:
    def test_a_locked_run(self, tmp_path: Path) -> None:
        folder = tmp_path / "new" / "run"
        with lock(folder):
            assert is_locked(folder)
            with pytest.raises(RunLocked, match="expected a run that nobody trains"), lock(folder):
                pass
        assert not is_locked(folder)
        with lock(folder):
            pass

    def test_a_place_below_a_file(self, tmp_path: Path) -> None:
        (tmp_path / "file").write_text("")
        with (
            pytest.raises(WriteTargetError, match="expected a place to write a run to"),
            lock(tmp_path / "file" / "run"),
        ):
            pass


@contextmanager
def as_nobody(folder: Path) -> Iterator[None]:
    """Work as a user who may not write into the folder: permissions do not bind root."""
    folder.chmod(0o555)
    is_root = os.geteuid() == 0
    try:
        if is_root:
            os.seteuid(65534)
        yield
    finally:
        if is_root:
            os.seteuid(0)
        folder.chmod(0o755)


class TestCrashes:
    def test_an_error_leaves_nothing(self, tmp_path: Path) -> None:
        with pytest.raises(KeyboardInterrupt), new_folder(tmp_path / "run") as draft:  # noqa: PT012
            (draft / "half").write_text("x")
            raise KeyboardInterrupt
        assert list(tmp_path.iterdir()) == []

    @pytest.mark.parametrize("step", [1, 8, 9, 10, 11, 12, 13])
    @pytest.mark.parametrize("before", ["nothing", "a run", "a run, where names cannot be exchanged"])
    def test_a_kill_at_any_step_leaves_a_complete_run_or_none(
        self, tmp_path: Path, split: Split, step: int, before: str
    ) -> None:
        target = tmp_path / "run"
        exchange = "module._exchange" if before != "a run, where names cannot be exchanged" else "lambda *_: False"
        if before != "nothing":
            write(target, split)
        program = f"""
import os, signal, shutil
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
spec = spec_from_file_location("folder", {FOLDER_MODULE!r})  # by itself: without torch it starts at once
module = module_from_spec(spec)
spec.loader.exec_module(module)
calls = 0
def count(real):
    def step(*args, **kwargs):
        global calls
        calls += 1
        if calls == {step}:
            os.kill(os.getpid(), signal.SIGKILL)
        return real(*args, **kwargs)
    return step
os.fsync, Path.rename, shutil.rmtree = count(os.fsync), count(Path.rename), count(shutil.rmtree)
module._exchange = count({exchange})
with module.new_folder(Path({str(target)!r}), overwrite=True) as draft:
    for name in {(*FILES, *TABLES)!r}:
        (draft / name).write_text({NEW!r})
"""
        ended = subprocess.run([sys.executable, "-c", program], env={"PYTHONPATH": SOURCE}, check=False)
        assert ended.returncode in {0, -9}
        if before == "a run, where names cannot be exchanged":
            check_target(target, overwrite=True)  # who comes next finds what was moved aside
        assert target.exists() or before == "nothing"
        if target.exists():
            texts = {path.name: path.read_text(errors="replace") == NEW for path in target.iterdir()}
            texts.pop(MANIFEST, None)  # that of the run before
            assert texts.keys() == {*FILES, *TABLES}
            assert len(set(texts.values())) == 1
        write(target, split, overwrite=True)
        assert [path.name for path in tmp_path.iterdir()] == ["run"]

    def test_a_link_stays_one(self, tmp_path: Path, split: Split) -> None:
        (tmp_path / "far").mkdir()
        (tmp_path / "run").symlink_to(tmp_path / "far")
        write(tmp_path / "run", split)
        write(tmp_path / "run", split, name="popularity", overwrite=True)
        assert (tmp_path / "run").is_symlink()
        assert open_run(tmp_path / "far").config["model"]["name"] == "popularity"
        assert sorted(path.name for path in tmp_path.iterdir()) == ["far", "run"]

    def test_a_write_that_fails_midway_leaves_nothing(self, tmp_path: Path, split: Split) -> None:
        """A limit on the size of files stands for a disk that is full."""
        model = EASE()
        model.fit(split.train)
        fitted = Fitted(
            model,
            "ease",
            Collaborative(split),
            evaluate_split(model, split),
            sections={"protocol": "shortlist"},
            seconds={},
        )
        before = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (900, before[1]))
        try:
            with pytest.raises(ShortlistError, match="the run cannot be written"):
                write_run(tmp_path / "run", fitted)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
        assert list(tmp_path.iterdir()) == []


class TestOpening:
    def test_what_is_not_a_run(self, tmp_path: Path) -> None:
        with pytest.raises(InputError, match="nowhere: expected the folder of a run, received nothing"):
            open_run(tmp_path / "nowhere")
        (tmp_path / "file").write_text("x")
        with pytest.raises(InputError, match="expected the folder of a run, received a file"):
            open_run(tmp_path / "file")
        with pytest.raises(InputError, match=r"received one without config\.json$"):
            open_run(tmp_path)

    @pytest.mark.parametrize("name", [name for name in (*FILES, *TABLES) if name not in {"log.jsonl", "model_card.md"}])
    @pytest.mark.parametrize("share", [0.0, 0.5, 0.95])
    def test_truncated_files(self, tmp_path: Path, split: Split, name: str, share: float) -> None:
        folder = write(tmp_path / "run", split).folder
        whole = (folder / name).read_bytes()
        (folder / name).write_bytes(whole[: int(share * len(whole))])

        def read_all() -> None:
            run = open_run(folder)
            _ = run.model, run.split, run.per_user

        with pytest.raises(InputError, match=rf"{name}: expected .*, received a damaged file") as caught:
            read_all()
        assert "\n" not in str(caught.value)

    def test_other_content(self, tmp_path: Path, split: Split) -> None:
        folder = write(tmp_path / "run", split).folder
        config = json.loads((folder / "config.json").read_text())
        (folder / "config.json").write_text(json.dumps({**config, "format": 99}))
        with pytest.raises(InputError, match="expected a run of format 1, received 99"):
            open_run(folder)
        (folder / "config.json").write_text("[]")
        with pytest.raises(InputError, match="expected a JSON object, received list"):
            open_run(folder)
        (folder / "config.json").write_text("{}")
        with pytest.raises(InputError, match="received none named format, model, protocol"):
            open_run(folder)


class TestIds:
    def test_numbers_are_typed_as_text(self) -> None:
        ids = Ids("user", pl.Series([-3, 5, 40], dtype=pl.Int32))
        assert ids.indices(["40", "-3"]).tolist() == [2, 0]
        assert ids.indices(pl.Series([5], dtype=pl.Int64)).tolist() == [1]
        for wrong in ("five", "5.5", "99999999999999", "6", ""):
            with pytest.raises(InputError, match=rf"^user: unknown id '{wrong}'"):
                ids.index(wrong)

    def test_texts_that_look_like_numbers_stay_texts(self) -> None:
        ids = Ids("item", pl.Series(["007", "7"]))
        assert ids.indices(["7", "007"]).tolist() == [1, 0]

    def test_the_nearest_is_suggested(self) -> None:
        ids = Ids("user", pl.Series([f"package-{number:05}" for number in range(10_000)]))
        with pytest.raises(InputError, match=r"did you mean 'package-00501'\? \(10,000 users are known\)"):
            ids.index("pakcage-00501")
