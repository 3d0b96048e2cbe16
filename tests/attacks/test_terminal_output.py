"""What comes from data is shown as it is: no markup, no terminal escapes, in any encoding."""

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from attempts import SOURCE
from command import Command, says
from shortlist.bench.results import Row
from shortlist.bench.tables import to_csv, to_markdown

BAD = ("[/x]u3", "[red]u4", "\x1b[2Ju5", "u\x9b31m6", "\u202eu7", "[link=file:///etc]u8")


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("bad") / "[bold]t\x1b[31m.csv"
    ids = (*BAD, "ann", "bob", "cleo", "Zoë")
    rows = [f"{user},{ids[(number + step) % 10]}" for number, user in enumerate(ids) for step in range(6)]
    path.write_text("user,item\n" + "\n".join(rows) + "\n")
    return path


@pytest.fixture(scope="module")
def run(table: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    from shortlist.cli import run as command_line

    folder = tmp_path_factory.mktemp("runs") / "[/i]run\x1b[0m"
    assert command_line(["train", str(table), "--model", "popularity", "--out", str(folder), "--json"]) == 0
    return folder


def is_plain(text: str) -> bool:
    return not any(sign in text for sign in ("\x1b", "\x9b", "\u202e"))


@pytest.mark.parametrize("user", BAD)
def test_ids_are_shown_as_they_are(shortlist: Command, run: Path, user: str) -> None:
    answer = shortlist("recommend", run, "--user", user, "--k", 3)
    assert answer.code == 0, answer
    assert is_plain(answer.out + answer.err)
    assert user.lstrip("\x1b\u202e").replace("\x9b", r"\x9b") in answer.out.splitlines()[0]
    if "/x" in user or "red" in user:
        assert shortlist("recommend", run, "--history", user, "--k", 3).code == 0
    answer = shortlist("recommend", run, "--user", user, "--k", 3, "--json")
    assert answer.json["user_id"] == user
    assert is_plain(answer.out)


def test_paths_are_shown_as_they_are(shortlist: Command, table: Path, run: Path, tmp_path: Path) -> None:
    out = tmp_path / "[/x]\x1b]0;title\x07"
    for answer in (
        shortlist("train", table, "--model", "popularity", "--out", out),
        shortlist("evaluate", run),
        shortlist("data", "info", table),
        shortlist("compare", run, out, "--metric", "ndcg@5"),
        shortlist("recommend", run, "--users", "all", "--k", 3, "--out", tmp_path / "[/b]\x1b.csv"),
    ):
        assert answer.code == 0, answer
        assert is_plain(answer.out + answer.err)
    says(shortlist("evaluate", tmp_path / "no\x1b[31mthing[/x]"), 2, r"no\x1b[31mthing[/x]: expected the folder")


def test_members_of_archives_are_escaped(shortlist: Command, tmp_path: Path) -> None:
    path = tmp_path / "t.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("\x1b[31m[/x]a.csv", "user,item\nann\n")
    answer = shortlist("data", "info", path)
    says(answer, 2, r"\x1b[31m[/x]a.csv")


def row(loss: str, value: float = 0.1) -> Row:
    return Row(f"<img src=x>{loss}", "mf", loss, "", "ndcg@20", None, {0: value}, 1.0, {1: "<script>x</script>\n=1"})


def test_results_in_markdown_have_no_html() -> None:
    text = to_markdown([row("[a](javascript:b)")])
    assert "<img" not in text
    assert "<script" not in text
    assert r"\[a\](javascript:b)" in text
    assert all(line.startswith(("|", "-", "measured", "Failed:")) or not line for line in text.splitlines())


@pytest.mark.parametrize("start", ["=", "+", "-", "@", "\t"])
def test_results_in_csv_are_no_formulas(start: str) -> None:
    import polars as pl

    bad = Row(f"{start}cmd()", "mf", "sl", "", "ndcg@20", None, {0: 0.1}, 1.0)
    found = pl.read_csv(to_csv([bad]).encode())
    assert found["dataset"].to_list() == [f"'{start}cmd()"]
    assert found["measured"].to_list() == [0.1]


def started(*arguments: object, shell: str = "", **environment: str) -> subprocess.CompletedProcess[bytes]:
    words = [sys.executable, "-m", "shortlist", *map(str, arguments)]
    command = ["sh", "-c", f'exec "$@" {shell}', "sh", *words] if shell else words
    return subprocess.run(
        command, capture_output=True, env={**os.environ, "PYTHONPATH": SOURCE, **environment}, check=False
    )


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "cp1252"])
def test_terminals_of_other_encodings(run: Path, encoding: str) -> None:
    answer = started("recommend", run, "--user", "Zoë", "--k", 3, PYTHONIOENCODING=encoding)
    assert answer.returncode == 0, answer
    assert b"Zo" in answer.stdout
    answer = started("recommend", run, "--user", "Zoë", "--k", 3, "--json", PYTHONIOENCODING=encoding)
    assert json.loads(answer.stdout)["user_id"] == "Zoë"
    answer = started("losses", PYTHONIOENCODING=encoding)
    assert (answer.returncode, answer.stderr) == (0, b"")
    answer = started("recommend", run, "--user", "Zoé", PYTHONIOENCODING=encoding)
    assert answer.returncode == 2
    assert answer.stderr.startswith(b"shortlist: ")
    assert answer.stderr.count(b"\n") == 1


@pytest.mark.parametrize("shell", [">&-", ">&- 2>&-", "<&- >&- 2>&-"])
def test_closed_streams(run: Path, tmp_path: Path, shell: str) -> None:
    out = tmp_path / "lists.csv"
    answer = started("recommend", run, "--users", "all", "--k", 3, "--out", out, shell=shell)
    assert (answer.returncode, answer.stderr) == (0, b"")
    assert out.read_text().startswith("user_id,item_id,rank,score\n")


def test_a_full_device_is_one_line(run: Path) -> None:
    answer = started("recommend", run, "--user", "ann", "--k", 3, shell="> /dev/full")
    assert answer.returncode == 1
    assert answer.stderr.startswith(b"shortlist: ")
    assert answer.stderr.count(b"\n") == 1, answer.stderr


def test_nothing_measured_is_said_plainly(shortlist: Command, tmp_path: Path) -> None:
    table = tmp_path / "t.csv"
    table.write_text("user,item\nann,1\nann,2\nbob,1\nbob,2\n")
    answer = shortlist("train", table, "--model", "popularity", "--test-share", "0.1", "--out", tmp_path / "run")
    assert answer.code == 0
    assert "0 users measured" not in answer.out
    assert "Nothing was measured on test" in answer.out
