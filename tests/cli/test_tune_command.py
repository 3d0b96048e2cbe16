"""`shortlist tune` and `shortlist train --tune`: what they do, and what they say when they cannot."""

import json
import re
import shlex
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import polars as pl
import pytest

from command import Command, says
from shortlist.errors import InputError
from shortlist.runs import open_run
from shortlist.tuning import STUDY, work
from shortlist.tuning.tune import WEIGHTS, _value
from terminal import watched

SETTINGS = ("model.dim=8", "training.epochs=6", "training.validate_every=2", "training.temperature_epochs=0")


def words(table: Path, out: Path, *others: object) -> list[object]:
    settings = [word for text in SETTINGS for word in ("--set", text)]
    return ["tune", table, "--loss", "slatk_detached", "--k", 5, *settings, "--out", out, *others]


def train(shortlist: Command, command: str, out: Path) -> Path:
    """Type what tune says."""
    typed = shlex.split(command)
    assert (typed[0], typed[-1]) == ("shortlist", "DIR")
    assert shortlist(*typed[1:-1], out, "--json").code == 0
    return out


class TestValid:
    def test_from_table_to_run_and_again(self, shortlist: Command, clicks: Path, tmp_path: Path) -> None:
        out = tmp_path / "tuned"
        answer = shortlist(*words(clicks, out, "--trials", 6, "--seed", 2, "--json"))
        assert answer.code == 0
        assert re.match(r"trial 0: 0\.\d{4} with loss\.tau=0\.2 loss\.tau_w=2\.5 .*, \d+\.\d s\n", answer.err)
        content = answer.json
        run = open_run(out / "best")
        assert {path.name for path in out.iterdir()} == {
            "best", "report.html", STUDY, "trials.csv", WEIGHTS, ".locks"
        }  # fmt: skip
        assert content["run"] == str(run.folder)
        assert (content["study"], content["page"]) == (str(out / STUDY), str(out / "report.html"))
        assert (content["test"], content["valid"]) == (run.metrics["test"], run.metrics["valid"])
        assert content["best"]["validation"] == content["valid"]["ndcg@5"]
        assert sum(content["trials"].values()) == 6
        table = pl.read_csv(out / "trials.csv")
        assert table.height == 6
        assert table.filter(pl.col("state") == "done")["validation"].max() == pytest.approx(
            content["best"]["validation"]
        )
        assert table["loss.tau"].to_list()[0] == 0.2
        again = train(shortlist, content["command"], tmp_path / "again")
        for name in ("model.safetensors", "per_user.parquet", "history.parquet"):
            assert (again / name).read_bytes() == (run.folder / name).read_bytes()
        assert open_run(again).metrics["valid"] == run.metrics["valid"]
        assert len(shortlist("recommend", out / "best", "--user", "person-07", "--k", 5, "--json").json["items"]) == 5

    def test_the_default_loss_of_a_model_is_shown(self, shortlist: Command, clicks: Path, tmp_path: Path) -> None:
        few = ("model.dim=4", "model.hidden=8,4", "training.epochs=2", "training.beat_popularity=false")
        arguments = ["tune", clicks, "--model", "ncf", "--k", 5, *(word for text in few for word in ("--set", text))]
        content = shortlist(*arguments, "--trials", 2, "--out", tmp_path / "tuned", "--json").json
        assert "--model ncf --loss bce " in content["command"]
        again = train(shortlist, content["command"], tmp_path / "again")
        best = tmp_path / "tuned" / "best"
        assert (again / "model.safetensors").read_bytes() == (best / "model.safetensors").read_bytes()

    def test_started_again_it_goes_on(self, shortlist: Command, clicks: Path, tmp_path: Path) -> None:
        ease = ["tune", clicks, "--model", "ease", "--k", 5, "--out", tmp_path / "tuned"]
        first = shortlist(*ease, "--trials", 2)
        assert first.code == 0
        assert "Trials: 2 done; best ndcg@5 on validation 0." in first.out
        assert "Again: shortlist train " in first.out
        assert "--model ease --k 5 --set model.regularization=" in first.out
        assert f"Study: {tmp_path / 'tuned'}   Page: {tmp_path / 'tuned' / 'report.html'}" in first.out
        assert shortlist(*ease, "--trials", 4, "--json").json["trials"]["done"] == 4
        before = pl.read_csv(tmp_path / "tuned" / "trials.csv")
        assert shortlist(*ease, "--trials", 3, "--json").json["trials"]["done"] == 4  # there are enough
        assert pl.read_csv(tmp_path / "tuned" / "trials.csv").equals(before)
        timed = shortlist(*ease, "--minutes", 0.02, "--json").json
        assert timed["trials"]["done"] > 4

    def test_train_tunes_first(self, shortlist: Command, clicks: Path, tmp_path: Path) -> None:
        out, study = tmp_path / "run", tmp_path / "run.study"
        arguments = ["train", clicks, "--model", "ease", "--k", 5, "--out", out, "--json"]
        answer = shortlist(*arguments, "--tune", "1s")
        assert answer.code == 0
        run = open_run(out)
        assert run.config["tuned"]["trials"]["done"] >= 1
        assert run.config["tuned"]["validation"] == run.metrics["valid"]["ndcg@5"]
        assert run.config["tuned"]["space"] == {"model.regularization": "1 … 10000 (log scale)"}
        assert sorted(path.name for path in tmp_path.iterdir()) == ["run", "run.study"]
        assert (study / "report.html").is_file()
        says(shortlist(*arguments, "--tune", "1s"), 2, f"{out}: expected a new or empty folder", "--overwrite")
        says(shortlist(*arguments, "--tune", "1s", "--resume"), 2, "expected a new or empty folder")
        more = shortlist(*arguments, "--tune", "1s", "--resume", "--overwrite").json
        assert more["trials"]["done"] > answer.json["trials"]["done"]
        anew = shortlist(*arguments, "--tune", "0.1s", "--overwrite").json
        assert anew["trials"]["done"] < more["trials"]["done"]
        for path in out.iterdir():
            path.unlink()
        out.rmdir()
        says(
            shortlist(*arguments, "--tune", "1s"), 2, f"{study}: expected no study, received one (--resume continues it"
        )

    @pytest.mark.parametrize("how", [("tune", "--minutes", 0.2), ("train", "--tune", "12s")])
    def test_the_temperature_is_not_looked_for_longer_than_a_quarter_of_the_time(
        self, shortlist: Command, clicks: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: tuple[object, ...]
    ) -> None:
        given, began = [], time.monotonic()

        def found(default: float, trial: Callable[[float], float], until: float) -> float:
            given.append(until)
            return 0.3

        monkeypatch.setattr("shortlist.training.loop.best_temperature", found)
        monkeypatch.setattr(
            "shortlist.cli.tune.execute._compute", lambda job, study, split, print_lines: work(study, split, most=1)
        )
        arguments = [*words(clicks, tmp_path / "out", "--set", "training.temperature_epochs=1", "--json")[1:], *how[1:]]
        assert shortlist(how[0], *arguments).json["best"]["settings"]["loss.tau"] == 0.3
        assert began < given[0] < time.monotonic() + 0.25 * 12

    def test_an_interruption_before_the_study_begins(self, shortlist: Command, clicks: Path, tmp_path: Path) -> None:
        out, study = tmp_path / "out", tmp_path / "out.study"
        arguments = [
            "train",
            *words(clicks, out, "--set", "training.temperature_epochs=1", "--tune", "1s", "--json")[1:],
        ]
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("shortlist.training.loop.best_temperature", _interrupted)
            says(shortlist(*arguments), 130, "shortlist: interrupted\n")
        answer = shortlist(*arguments, "--resume")
        assert (answer.code, answer.json["study"]) == (0, str(study / STUDY))
        note = f"shortlist: {study}: no study to resume; starting a new one\n"
        assert answer.err.startswith(note)

    @pytest.mark.parametrize("words_of", ["tune", "train"])
    def test_an_interruption(
        self, shortlist: Command, clicks: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words_of: str
    ) -> None:
        calls = []

        def interrupted(*arguments: Any) -> Any:
            calls.append(arguments)
            if len(calls) == 3:
                raise KeyboardInterrupt
            return _value(*arguments)

        arguments: list[object] = ["--model", "ease", "--k", 5, "--out", tmp_path / "out", "--json"]
        how = ["--trials", 4] if words_of == "tune" else ["--tune", "1s"]
        with monkeypatch.context() as patch:
            patch.setattr("shortlist.tuning.tune._value", interrupted)
            answer = shortlist(words_of, clicks, *arguments, *(how if words_of == "tune" else ["--tune", "1h"]))
        assert (answer.code, answer.out) == (130, "")
        hint = {"tune": "resume with the same command", "train": "resume with the same command and --resume"}[words_of]
        assert answer.err.endswith(f"shortlist: stopped after 2 trials; {hint}\n")
        goes_on = [] if words_of == "tune" else ["--resume"]
        answer = shortlist(words_of, clicks, *arguments, *how, *goes_on)
        assert answer.code == 0
        assert answer.json["trials"]["done"] >= {"tune": 3, "train": 2}[words_of]  # a second may be too short for more

    def test_several_processes(self, shortlist: Command, clicks: Path, tmp_path: Path) -> None:
        out = tmp_path / "tuned"
        answer = shortlist(
            "tune", clicks, "--model", "ease", "--k", 5, "--trials", 8, "--jobs", 2, "--out", out, "--json"
        )
        assert answer.code == 0
        assert answer.json["trials"] == {"done": 8, "pruned": 0, "failed": 0}
        table = pl.read_csv(out / "trials.csv")
        assert table["model.regularization"].n_unique() == 8
        assert table["validation"].max() == pytest.approx(open_run(out / "best").metrics["valid"]["ndcg@5"])

    def test_progress_in_a_terminal(self, clicks: Path, tmp_path: Path) -> None:
        arguments = words(clicks, tmp_path / "out", "--json", "--trials", "10", "--minutes", "3")
        code, printed, shown = watched(["-m", "shortlist", *arguments], columns=300)
        assert code == 0
        assert sum(json.loads(printed)["trials"].values()) == 10
        assert re.search(r"[1-9]\d* trials.*  [012]:\d\d left .* best 0\.\d{4} with loss\.tau=0\.\d+ ", shown)

    def test_a_run_is_kept_without_its_report(
        self, shortlist: Command, clicks: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setitem(sys.modules, "altair", None)
        answer = shortlist(
            "tune", clicks, "--model", "ease", "--k", 5, "--trials", 1, "--out", tmp_path / "x", "--json"
        )
        assert (answer.code, answer.json["page"]) == (0, None)
        assert "shortlist: no page: report: the package altair cannot be imported" in answer.err
        assert open_run(tmp_path / "x" / "best").config["tuned"]["trial"] == 0


class TestInvalid:
    @pytest.mark.parametrize(
        ("more", "said"),
        [
            (["--minutes", "0"], "--minutes: expected a number above 0, received 0"),
            (["--minutes", "-3"], "--minutes: expected a number above 0, received -3"),
            (["--minutes", "nan"], "--minutes: expected a number above 0, received nan"),
            (["--minutes", "soon"], "--minutes"),
            (["--trials", "0"], "--trials"),
            (["--jobs", "0"], "--jobs"),
            (["--model", "popularity"], "tune: expected settings that can be searched, received none that is free"),
            (["--model", "ease", "--loss", "sl"], "ease: expected no loss or training settings"),
            (["--set", "loss.tua=1"], "unknown parameter 'tua'; did you mean 'tau'?"),
            (["--preset", "nothing"], "presets: unknown name 'nothing'"),
            (["--k", "0"], "K: expected a whole number of at least 1, received 0"),
            (["--k", "41"], "expected a whole number from 1 to 40 (the catalogue), received 41"),
            (["--valid-share", "0"], "tune: expected a validation part to judge by (--valid-share 0.1), received none"),
        ],
    )
    def test_before_any_work(
        self, shortlist: Command, clicks: Path, tmp_path: Path, more: list[str], said: str
    ) -> None:
        says(shortlist("tune", clicks, "--out", tmp_path / "out", *more), 2, said)
        assert list(tmp_path.iterdir()) == []

    @pytest.mark.parametrize("text", ["2x", "m", "", "0m", "-1m", "nanm", "infh", "2"])
    def test_invalid_times(self, shortlist: Command, clicks: Path, tmp_path: Path, text: str) -> None:
        answer = shortlist("train", clicks, "--out", tmp_path / "out", "--tune", text)
        says(answer, 2, f"--tune: expected a time such as 90s, 2m or 1h, received {text!r}")
        assert list(tmp_path.iterdir()) == []

    def test_other_folders_are_left_alone(self, shortlist: Command, clicks: Path, tmp_path: Path) -> None:
        (tmp_path / "mine").mkdir()
        (tmp_path / "mine" / "letter.txt").write_text("dear")
        says(shortlist(*words(clicks, tmp_path / "mine")), 2, "expected a new folder, or one that tune has made")
        says(
            shortlist(*words(clicks, tmp_path / "mine" / "letter.txt")),
            2,
            "expected a folder for a study, received a file",
        )
        assert [path.name for path in tmp_path.rglob("*")] == ["mine", "letter.txt"]

    @pytest.mark.parametrize(
        ("changes", "said"),
        [
            ({"data": "clikcs.csv"}, "clikcs.csv"),
            ({"more": ["--set", "model.regularisation=3"]}, "EASE: unknown parameter 'regularisation'"),
            ({"more": ["--set", "model.regularization=3"]}, "expected settings that can be searched, received none"),
            ({"more": ["--valid-share", 0]}, "expected a validation part to judge by"),
            ({"more": ["--ks", "5,41"]}, "expected a whole number from 1 to 40 (the catalogue), received 41"),
        ],
    )
    def test_invalid_requests_remove_nothing(
        self, shortlist: Command, clicks: Path, tmp_path: Path, changes: dict[str, Any], said: str
    ) -> None:
        out, study = tmp_path / "run", tmp_path / "run.study"
        how = ["--model", "ease", "--k", 5, "--tune", "0.1s", "--out", out, "--json"]
        assert shortlist("train", clicks, *how).code == 0
        before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
        assert study / STUDY in before
        table = clicks.with_name(changes.get("data", clicks.name))
        says(shortlist("train", table, *how, "--overwrite", *changes.get("more", [])), 2, said)
        assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before

    def test_a_study_of_something_else_or_of_another_version(
        self, shortlist: Command, clicks: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        out = tmp_path / "out"
        ease = ["tune", clicks, "--model", "ease", "--trials", 1, "--out", out]
        assert shortlist(*ease, "--k", 5).code == 0
        before = {path.name: path.read_bytes() for path in out.iterdir() if path.is_file()}
        says(
            shortlist(*ease, "--k", 6), 2, f"{out / STUDY}: made with other data or settings: k: expected 5, received 6"
        )
        says(shortlist(*ease, "--k", 5, "--seed", 1), 2, "made with other data or settings: data: expected")
        says(shortlist(*ease[:3], "item_knn", "--k", 5, "--out", out), 2, "model.name: expected 'ease'")
        with monkeypatch.context() as patch:
            patch.setattr("shortlist.tuning.study.__version__", "7.0")
            says(shortlist(*ease, "--k", 5), 2, "expected a study made by shortlist 7.0, received one made by 0.1.0")
        assert {path.name: path.read_bytes() for path in out.iterdir() if path.is_file()} == before
        (out / STUDY).write_bytes(b"torn" * 1000)
        says(shortlist(*ease, "--k", 5), 2, f"{out / STUDY}: expected a study, received a damaged file")

    def test_without_the_extra(
        self, shortlist: Command, clicks: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setitem(sys.modules, "optuna", None)
        said = "tune: the package optuna cannot be imported"
        says(shortlist(*words(clicks, tmp_path / "out")), 1, said, "install it with: pip install 'shortlist[tune]'")
        says(shortlist("train", clicks, "--tune", "2m", "--out", tmp_path / "out"), 1, said)
        assert list(tmp_path.iterdir()) == []

    def test_an_error_of_a_worker_is_printed_once(
        self, shortlist: Command, clicks: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("shortlist.cli.tune.execute._share", _fails)
        answer = shortlist("tune", clicks, "--model", "ease", "--k", 5, "--jobs", 2, "--out", tmp_path / "out")
        says(answer, 2, "place: expected this, received that")


def _fails(job: Any, print_lines: bool) -> None:
    raise InputError("place: expected this, received that")


def _interrupted(*_: Any) -> NoReturn:
    raise KeyboardInterrupt
