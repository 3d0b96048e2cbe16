"""Bad input: one clear line on stderr, exit code 2, nothing on stdout, nothing written."""

import os
import signal
from contextlib import suppress
from pathlib import Path

import pytest

from command import Answer, Command
from shortlist.cli import main, run
from shortlist.errors import InputError, ShortlistError


def refused(answer: Answer, *texts: str) -> None:
    assert answer.code == 2
    assert answer.out == ""
    assert answer.err.startswith("shortlist: ")
    assert answer.err.count("\n") == 1
    for text in texts:
        assert text in answer.err


@pytest.mark.parametrize("k", [0, -1, 41])
def test_k_outside_the_catalogue(shortlist: Command, ease: Path, k: int) -> None:
    refused(shortlist("recommend", ease, "--user", "person-01", "--k", k), "from 1 to 40 (the catalogue)", str(k))


@pytest.mark.parametrize("ks", ["0", "5,-2", "5,,10", "ten"])
def test_invalid_lengths(shortlist: Command, clicks: Path, ease: Path, tmp_path: Path, ks: str) -> None:
    refused(shortlist("evaluate", ease, "--ks", ks), "--ks")
    refused(shortlist("train", clicks, "--ks", ks, "--out", tmp_path / "run"), "--ks")
    assert list(tmp_path.iterdir()) == []


def test_lengths_above_the_catalogue(shortlist: Command, clicks: Path, ease: Path, tmp_path: Path) -> None:
    refused(shortlist("evaluate", ease, "--ks", "10,41"), "from 1 to 40 (the catalogue), received 41")
    for model in ("ease", "mf"):
        out = ["--model", model, "--out", tmp_path / "run"]
        refused(shortlist("train", clicks, "--ks", "10,41", *out), "received 41")
        refused(shortlist("train", clicks, "--k", 41, *out), "received 41")
    assert list(tmp_path.iterdir()) == []


def test_unknown_users_and_items(shortlist: Command, ease: Path, tmp_path: Path) -> None:
    refused(shortlist("recommend", ease, "--user", "preson-11"), "unknown id 'preson-11'", "did you mean 'person-11'?")
    (tmp_path / "users.txt").write_text("person-01\nsomebody\n")
    out = tmp_path / "lists.csv"
    refused(shortlist("recommend", ease, "--users", tmp_path / "users.txt", "--strict", "--out", out), "'somebody'")
    one = ("recommend", ease, "--user", "person-01")
    refused(shortlist(*one, "--strict", "--only", "1001,9"), "item: unknown id '9'")
    refused(shortlist(*one, "--strict", "--exclude", "x"), "item: unknown id 'x'")
    refused(shortlist(*one, "--only", "9,x"), "item: unknown ids '9', 'x' (40 items are known)")
    refused(shortlist(*one, "--columns", "mine"), "columns: expected 'standard' or 'data', received 'mine'")
    assert not out.exists()


def test_what_is_not_a_run(shortlist: Command, ease: Path, clicks: Path, tmp_path: Path) -> None:
    for command in (["evaluate"], ["recommend", "--user", "x"], ["compare", ease]):
        refused(shortlist(*command, tmp_path / "none"), "expected the folder of a run, received nothing")
        refused(shortlist(*command, clicks), "expected the folder of a run, received a file")
        refused(shortlist(*command, tmp_path), "received one without config.json")


def test_places_that_cannot_be_written(shortlist: Command, ease: Path, clicks: Path, tmp_path: Path) -> None:
    below_a_file = clicks / "run"
    refused(shortlist("train", clicks, "--out", below_a_file), "Not a directory")
    refused(shortlist("recommend", ease, "--users", "all", "--out", clicks / "lists.csv"), "Not a directory")
    refused(shortlist("recommend", ease, "--users", "all", "--out", tmp_path / "no" / "l.csv"), "No such file")
    refused(shortlist("recommend", ease, "--users", "all", "--out", tmp_path / "lists.xls"), ".parquet or .csv")
    refused(shortlist("train", clicks, "--out", ease), "expected a new or empty folder")
    assert list(tmp_path.iterdir()) == []


def test_places_without_permission(shortlist: Command, ease: Path, clicks: Path, tmp_path: Path) -> None:
    """As a user whom permissions bind, which root is not."""
    locked = tmp_path / "locked"
    locked.mkdir(mode=0o555)
    train = ("train", clicks, "--out", locked / "run")
    lists = ("recommend", ease, "--users", "all", "--out", locked / "lists.csv")
    is_root = os.geteuid() == 0
    if is_root:
        assert shortlist("models").code == 0  # what is imported late may lie where only root can read
        shortlist("train", clicks, "--out", tmp_path / "warm")
        os.seteuid(65534)
    try:
        answers = [shortlist(*train), shortlist(*lists)]
    finally:
        if is_root:
            os.seteuid(0)
    for answer in answers:
        refused(answer, "expected a place to write", "Permission denied")
    assert list(locked.iterdir()) == []


def test_names_that_do_not_exist(shortlist: Command, clicks: Path, tmp_path: Path) -> None:
    out = ["--out", tmp_path / "run"]
    refused(shortlist("train", clicks, "--model", "eaze", *out), "unknown name 'eaze'; did you mean 'ease'?")
    ease = ["--model", "ease", *out]
    refused(shortlist("train", clicks, "--set", "model.regularisation=1", *ease), "did you mean 'regularization'?")
    refused(shortlist("train", clicks, "--set", "modle.x=1", *out), "unknown section 'modle'; did you mean 'model'?")
    refused(shortlist("train", clicks, "--set", "regularization", *out), "expected SECTION.KEY=VALUE")
    refused(shortlist("train", clicks, "--set", "model.regularization=much", *ease), "expected a number above 0")
    refused(shortlist("train", clicks, "--protocol", "mine", *out), "'shortlist', 'irbenchmark'")
    refused(shortlist("models", "eaze"), "did you mean 'ease'?")
    refused(shortlist("data", "get", "ml-1n"), "did you mean 'ml-1m'?")
    refused(shortlist("trane"), "No such command 'trane'")
    refused(shortlist("train", clicks, "--modle", "ease", *out), "No such option", "--model")
    refused(shortlist("train", clicks), "--out")
    assert list(tmp_path.iterdir()) == []


def test_bad_tables_pass_through_as_one_line(shortlist: Command, tmp_path: Path) -> None:
    (tmp_path / "empty.csv").write_text("")
    refused(shortlist("train", tmp_path / "empty.csv", "--out", tmp_path / "run"), "empty.csv")
    (tmp_path / "columns.csv").write_text("a,b\n1,2\n")
    refused(shortlist("data", "info", tmp_path / "columns.csv"), "columns.csv")
    refused(shortlist("data", "info", tmp_path / "none.csv"), "none.csv")
    assert not (tmp_path / "run").exists()


def test_an_interruption_is_one_line_too(monkeypatch: pytest.MonkeyPatch, shortlist: Command, ease: Path) -> None:
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("shortlist.runs.open_run", interrupt)
    answer = shortlist("evaluate", ease)
    assert (answer.code, answer.out, answer.err) == (130, "", "shortlist: interrupted\n")


class _Panic(BaseException):
    """What a library in Rust makes of an interruption."""


@pytest.mark.parametrize("interrupted", [True, False])
def test_a_panic_is_an_interruption_where_there_was_one(
    monkeypatch: pytest.MonkeyPatch, shortlist: Command, ease: Path, interrupted: bool
) -> None:
    def panic(*_: object, **__: object) -> None:
        raise _Panic

    monkeypatch.setattr("shortlist.runs.open_run", panic)
    monkeypatch.setattr("shortlist.cli._interrupts", [signal.SIGINT] if interrupted else [])
    if not interrupted:
        with pytest.raises(_Panic):
            shortlist("evaluate", ease)
        return
    answer = shortlist("evaluate", ease)
    assert (answer.code, answer.out, answer.err) == (130, "", "shortlist: interrupted\n")


def test_an_interruption_that_a_library_takes_for_a_damaged_file(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], ease: Path
) -> None:
    def swallow(*_: object, **__: object) -> None:
        with suppress(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
        raise InputError("a damaged file")

    monkeypatch.setattr("shortlist.runs.open_run", swallow)
    monkeypatch.setattr("shortlist.cli._interrupts", [])
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # which is ignored where tests run unattended
    with pytest.raises(SystemExit) as end:
        main(["evaluate", str(ease)])
    signal.signal(signal.SIGINT, before)
    assert (end.value.code, *capsys.readouterr()) == (130, "", "shortlist: interrupted\n")


def test_one_or_many_users(shortlist: Command, ease: Path, tmp_path: Path) -> None:
    refused(shortlist("recommend", ease), "one of --user ID, --users all|FILE, --history a,b, received none")
    refused(shortlist("recommend", ease, "--user", "a", "--users", "all"), "received --user and --users")
    refused(shortlist("recommend", ease, "--users", "all"), "expected --out")
    refused(shortlist("recommend", ease, "--users", tmp_path / "none.txt", "--out", tmp_path / "l.csv"), "none.txt")


@pytest.mark.parametrize(
    ("problem", "code", "line"),
    [
        (ShortlistError("ease: the disk is full"), 1, "shortlist: ease: the disk is full\n"),
        (
            ZeroDivisionError("by\nzero"),
            1,
            "shortlist: ZeroDivisionError: by zero (set SHORTLIST_DEBUG=1 for a traceback)\n",
        ),
    ],
)
def test_failures_have_their_own_code(
    monkeypatch: pytest.MonkeyPatch, shortlist: Command, ease: Path, problem: BaseException, code: int, line: str
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise problem

    monkeypatch.setattr("shortlist.runs.open_run", fail)
    answer = shortlist("evaluate", ease)
    assert (answer.code, answer.out, answer.err) == (code, "", line)
    monkeypatch.setenv("SHORTLIST_DEBUG", "1")
    with pytest.raises(type(problem)):
        run(["evaluate", str(ease)])
