"""Paths are read literally, and only regular files are read."""

import os
import shutil
from pathlib import Path

import polars as pl
import pytest

from command import Command, says
from shortlist.data import load
from shortlist.errors import InputError


@pytest.mark.parametrize("name", ["g[1]", "g*", "g?"])
def test_a_run_with_glob_characters_reads_its_own_files(
    shortlist: Command, clicks: Path, tmp_path: Path, name: str
) -> None:
    for folder, seed in ((tmp_path / "g1", 1), (tmp_path / name, 2)):
        assert shortlist("train", clicks, "--model", "popularity", "--seed", seed, "--out", folder).code == 0
    shutil.copytree(tmp_path / name, tmp_path / "plain")
    lists = [
        shortlist("recommend", tmp_path / each, "--user", "person-01", "--json").json["items"]
        for each in (name, "plain")
    ]
    assert lists[0] == lists[1]


@pytest.mark.parametrize("suffix", [".parquet", ".csv"])
def test_lists_of_ids_with_glob_characters(shortlist: Command, ease: Path, tmp_path: Path, suffix: str) -> None:
    for name, user in (("u1", "person-01"), ("u[1]", "person-02")):
        frame = pl.DataFrame({"user_id": [user]})
        if suffix == ".csv":
            (tmp_path / f"{name}.csv").write_text(frame.write_csv())
        else:
            frame.write_parquet(tmp_path / f"{name}.parquet")
    out = tmp_path / "lists.csv"
    assert shortlist("recommend", ease, "--users", tmp_path / f"u[1]{suffix}", "--out", out).code == 0
    assert pl.read_csv(out)["user_id"].unique().to_list() == ["person-02"]


@pytest.mark.parametrize("suffix", [".parquet", ".csv"])
def test_titles_with_glob_characters(tmp_path: Path, suffix: str) -> None:
    from shortlist.data.titles import read_titles

    for name, title in (("t1", "another"), ("t[1]", "its own")):
        frame = pl.DataFrame({"item_id": ["a"], "title": [title]})
        if suffix == ".csv":
            (tmp_path / f"{name}.csv").write_text(frame.write_csv())
        else:
            frame.write_parquet(tmp_path / f"{name}.parquet")
    assert read_titles(tmp_path / f"t[1]{suffix}") == {"a": "its own"}


def test_a_name_that_begins_with_a_tilde(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    frame = pl.DataFrame({"user": ["a", "a", "b", "b"], "item": [1, 2, 2, 3]})
    (tmp_path / "~").mkdir()
    frame.write_parquet(tmp_path / "~" / "t.parquet")
    (tmp_path / "~" / "t.csv").write_text(frame.write_csv())
    for name in ("~/t.parquet", "~/t.csv"):
        assert load(name, valid_share=0.0).train.n_users == 2


@pytest.mark.parametrize("place", ["pipe", "device", "folder with a pipe"])
def test_pipes_and_devices_are_refused(shortlist: Command, ease: Path, tmp_path: Path, place: str) -> None:
    pipe = tmp_path / "train.csv"
    os.mkfifo(pipe)
    given = {"pipe": pipe, "device": Path("/dev/zero"), "folder with a pipe": tmp_path}[place]
    answer = shortlist("data", "info", given)
    says(answer, 2, "expected")
    if place != "folder with a pipe":
        assert "received a device, a pipe or a socket" in answer.err
        says(shortlist("recommend", ease, "--users", given, "--out", tmp_path / "o.csv"), 2)
        says(shortlist("recommend", ease, "--user", "person-01", "--only", given), 2)


def test_a_pipe_as_titles(tmp_path: Path) -> None:
    from shortlist.data.titles import read_titles

    os.mkfifo(tmp_path / "t.csv")
    with pytest.raises(InputError, match=r"t\.csv: expected a regular file"):
        read_titles(tmp_path / "t.csv")
