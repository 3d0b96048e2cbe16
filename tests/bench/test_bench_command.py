"""`shortlist bench` as a person meets it: killed, interrupted, started twice, out of room, in a terminal or not."""

import io
import json
import re
import signal
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from attempts import Attempts, contents
from command import Answer, Command, says
from processes import children, is_alive, needs_proc, started, wait_for
from shortlist.bench import SHIPPED, Bench, Cell, cells, read_spec, select
from shortlist.bench.runner import FAILED
from shortlist.cli.bench.progress import status_reader, table
from shortlist.errors import WriteError
from shortlist.formatting import format_duration
from shortlist.runs import CHECKPOINT
from shortlist.runs.folder import lock

Write = Callable[..., Path]

LONG = 300.0
"""Seconds that no test waits."""


def runs(out: Path) -> dict[str, Path]:
    return {path.name: path for path in sorted(out.iterdir()) if path.is_dir() and path.name[0] != "."}


def stamps(out: Path) -> dict[str, tuple[int, int]]:
    """What changes when a cell is computed again."""
    return {name: (path.stat().st_ino, path.stat().st_mtime_ns) for name, path in runs(out).items()}


@pytest.fixture
def words(write: Write, data: Path, tmp_path: Path) -> list[object]:
    return ["bench", write(), "--data", data, "--out", tmp_path / "out"]


class TestValid:
    def test_a_grid_and_again(self, shortlist: Command, write: Write, data: Path, tmp_path: Path) -> None:
        out = tmp_path / "out"
        spec = write(baselines=["popularity"], ours=["sl"])
        answer = shortlist("bench", spec, "--data", data, "--out", out, "--json")
        assert answer.code == 0
        assert len(answer.err.splitlines()) == 6  # a line for each cell
        rows = {row["loss"] or row["model"]: row for row in answer.json["rows"]}
        assert list(rows) == ["sl", "bpr", "popularity"]
        for name, path in runs(out).items():
            metrics = json.loads((path / "metrics.json").read_text())
            key = next(word for word in rows if f"-{word}-" in name)
            assert rows[key]["values"][name.split("-seed")[1][0]] == metrics["test"]["ndcg@5"]
        before = stamps(out)
        again = shortlist("bench", spec, "--data", data, "--out", out, "--json")
        assert (again.code, again.err, again.json) == (0, "", answer.json)
        assert stamps(out) == before
        more = shortlist("bench", spec, "--data", data, "--out", out, "--seeds", "0,1,2", "--only", "sl", "--json")
        assert more.err.startswith("clicks.csv mf sl seed 2: ndcg@5 0.")
        assert more.err.count("\n") == 1
        assert {name: stamps(out)[name] for name in before} == before

    def test_the_largest_seed(self, shortlist: Command, words: list[object]) -> None:
        answer = shortlist(*words, "--seeds", "9223372036854775807", "--only", "sl", "--json")
        assert (answer.code, list(answer.json["rows"][0]["values"])) == (0, ["9223372036854775807"])

    def test_tables(self, shortlist: Command, words: list[object], tmp_path: Path) -> None:
        paths = [tmp_path / f"table{ending}" for ending in (".md", ".csv", ".tex")]
        answer = shortlist(*words, *(word for path in paths for word in ("--write", path)))
        assert answer.code == 0
        assert "Small" in answer.out
        assert "clicks.csv" in answer.out
        assert paths[0].read_text().startswith("# Small\n\n| dataset | model |")
        assert pl.read_csv(paths[1])["loss"].to_list() == ["sl", "bpr"]
        assert r"\end{tabular}" in paths[2].read_text()

    def test_the_page(
        self, shortlist: Command, words: list[object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        answer = shortlist(*words, "--seeds", "0", "--json")
        assert answer.json["page"] == str(tmp_path / "out" / "report.html")
        assert "<h1>Small</h1>" in (tmp_path / "out" / "report.html").read_text()
        assert shortlist(*words, "--seeds", "0", "--report", tmp_path / "page.html").code == 0
        assert "<h1>Small</h1>" in (tmp_path / "page.html").read_text()
        monkeypatch.setitem(sys.modules, "altair", None)
        answer = shortlist(*words, "--seeds", "0", "--json")
        assert (answer.code, answer.json["page"], len(answer.json["rows"])) == (0, None, 2)
        assert answer.err.startswith("shortlist: no page: report: the package altair cannot be imported")
        answer = shortlist(*words, "--seeds", "0", "--json", "--report", tmp_path / "page.html")
        says(answer, 1, "the package altair cannot be imported")

    def test_a_dry_run_lists_missing_cells(self, shortlist: Command, words: list[object], tmp_path: Path) -> None:
        answer = shortlist(*words, "--dry-run")
        assert (answer.code, answer.err) == (0, "")
        assert "clicks.csv mf sl seed 0" in answer.out
        assert "4 cells: 0 done, 0 failed, 4 missing." in answer.out
        assert "At most about " in answer.out
        assert not (tmp_path / "out").exists()
        assert shortlist(*words, "--seeds", "0").code == 0
        plan = shortlist(*words, "--dry-run", "--json").json
        assert (plan["cells"], plan["done"], len(plan["missing"])) == (4, 2, 2)
        assert plan["seconds"] == pytest.approx(sum(cell["seconds"] for cell in plan["missing"]))
        assert shortlist(*words, "--dry-run", "--seeds", "0", "--json").json["missing"] == []

    def test_a_dry_run_names_what_its_estimate_excludes(
        self, shortlist: Command, write: Write, words: list[object]
    ) -> None:
        write(baselines=["ease", "popularity"])
        total = shortlist(*words, "--dry-run").out.splitlines()[-1]
        assert total.startswith("At most about ")
        assert total.endswith(
            ": training may stop early; evaluation is not included, nor 4 cells without an estimate, such as baselines."
        )
        plain = shortlist(*words, "--dry-run", "--only", "sl").out.splitlines()[-1]
        assert plain.endswith(": training may stop early; evaluation is not included.")
        none = shortlist(*words, "--dry-run", "--only", "ease").out.splitlines()[-1]
        assert none == "No estimate available: cells without epochs, such as baselines, are not estimated."

    def test_another_length_is_measured_and_not_trained(
        self, shortlist: Command, write: Write, words: list[object], data: Path, tmp_path: Path
    ) -> None:
        assert shortlist(*words, "--seeds", "0", "--json").code == 0
        before = set(runs(tmp_path / "out"))
        other = ["bench", write("other", metrics=["ndcg@7"]), *words[2:], "--seeds", "0", "--json"]
        plan = shortlist(*other, "--dry-run").json
        taken = [json.loads((path / "metrics.json").read_text())["seconds"]["evaluate"]
                 for path in runs(tmp_path / "out").values()]  # fmt: skip
        assert plan["done"] == 0
        assert sorted(cell["seconds"] for cell in plan["missing"]) == sorted(taken)
        answer = shortlist(*other)
        assert [row["metric"] for row in answer.json["rows"]] == ["ndcg@7"] * 2
        assert len(answer.err.splitlines()) == 2
        assert all(0 < value < 1 for row in answer.json["rows"] for value in row["values"].values())
        assert set(runs(tmp_path / "out")) == before
        assert shortlist(*other).err == ""

    def test_another_length_that_cannot_be_measured(
        self, shortlist: Command, write: Write, words: list[object], tmp_path: Path
    ) -> None:
        assert shortlist(*words, "--seeds", "0", "--json").code == 0
        (torn,) = [path for name, path in runs(tmp_path / "out").items() if "-sl-" in name]
        (torn / "model.safetensors").write_bytes(b"torn")
        other = ["bench", write("other", metrics=["ndcg@7"]), *words[2:], "--seeds", "0"]
        why = r"clicks.csv mf sl seed 0: .*model.safetensors: expected the weights of a model, received a damaged file"
        answer = shortlist(*other)
        assert answer.code == 1
        assert re.search(f"^failed: {why}", answer.out, re.MULTILINE)
        assert answer.err.splitlines()[-1] == "shortlist: 1 of 2 cells failed; --retry tries again"
        content = shortlist(*other, "--json")
        assert content.code == 1
        assert [list(row["failures"]) for row in content.json["rows"]] == [["0"], []]
        assert shortlist(*words, "--seeds", "0", "--json").code == 0  # where it has its figures

    def test_a_folder_that_is_called_as_its_grid(
        self, shortlist: Command, clicks: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """It holds the cells, and is not the grid, when resume with the same command."""
        monkeypatch.chdir(tmp_path)
        (tmp_path / "data" / "movielens-100k").mkdir(parents=True)
        for part in ("train", "test"):
            (tmp_path / "data" / "movielens-100k" / f"{part}.csv").write_bytes(clicks.read_bytes())
        (tmp_path / "slatk-table18" / ".locks").mkdir(parents=True)
        arguments = ["--data", "data", "--out", "slatk-table18", "--only", "slatk", "--seeds", "0"]
        plan = shortlist("bench", "slatk-table18", *arguments, "--dry-run", "--json")
        assert (plan.code, plan.json["cells"]) == (0, 1)

    @pytest.mark.parametrize("name", ["slatk-table3", "slatk-table4", "slatk-noise", "slatk-temperature", "slatk-why"])
    def test_shipped_grids_on_their_data(
        self,
        shortlist: Command,
        shared_data: Callable[[str], Path],
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
        name: str,
    ) -> None:
        place = shared_data("amazon2014-health").parent
        monkeypatch.setattr("shortlist.bench.seconds_of_epoch", lambda cell, split: 1.0)
        only = ("--only", "amazon2014-health", "--data", place, "--out", tmp_path / "out")
        plan = shortlist("bench", name, "--dry-run", "--json", *only).json
        asked = select(list(cells(read_spec(name))), ["amazon2014-health"])
        assert plan["cells"] == len(plan["missing"]) == len(asked) > 20
        assert plan["seconds"] == sum(cell.plan().training.epochs for cell in asked)

    def test_a_failing_cell_does_not_stop_the_grid(
        self, shortlist: Command, write: Write, data: Path, tmp_path: Path
    ) -> None:
        out = tmp_path / "out"
        spec = write(losses=["bpr", "sl"], settings=({"when": {"loss": "bpr"}, "set": {"optimizer.lr": 1e30}},))
        answer = shortlist("bench", spec, "--data", data, "--out", out, "--seeds", "0")
        assert answer.code == 1
        assert re.search(r"clicks.csv mf bpr seed 0: failed: .* became .*; try ", answer.err)
        assert answer.err.splitlines()[-1] == "shortlist: 1 of 2 cells failed; --retry tries again"
        assert (out / "report.html").is_file()
        assert re.search(r"^failed: clicks.csv mf bpr seed 0: .*became ", answer.out, re.MULTILINE)
        assert "(1 failed)" in answer.out
        (failed,) = [path for path in runs(out).values() if (path / FAILED).exists()]
        before = stamps(out)
        answer = shortlist("bench", spec, "--data", data, "--out", out, "--seeds", "0", "--json")
        assert (answer.code, answer.err) == (1, "shortlist: 1 of 2 cells failed; --retry tries again\n")
        assert [list(row["failures"]) for row in answer.json["rows"]] == [["0"], []]
        assert stamps(out) == before
        assert shortlist("bench", spec, "--data", data, "--out", out, "--seeds", "0", "--only", "sl").code == 0
        for more, counts in (([], (1, 1, 0)), (["--retry"], (1, 0, 1))):
            plan = shortlist("bench", spec, "--data", data, "--out", out, "--seeds", "0", "--dry-run", "--json", *more)
            assert (plan.json["done"], plan.json["failed"], len(plan.json["missing"])) == counts
        assert stamps(out) == before
        answer = shortlist("bench", spec, "--data", data, "--out", out, "--seeds", "0", "--retry")
        assert answer.err.count("\n") == 2
        assert "bpr seed 0: failed: " in answer.err
        after = stamps(out)
        assert [name for name in after if after[name] != before[name]] == [failed.name]
        (sound,) = [path for path in runs(out).values() if path != failed]
        (sound / "metrics.json").write_text("torn")
        answer = shortlist("bench", spec, "--data", data, "--out", out, "--seeds", "0", "--json")
        assert answer.err == "shortlist: 2 of 2 cells failed; --retry tries 1 of them again\n"

    @pytest.mark.parametrize(
        ("file", "damage", "why"),
        [
            ("per_user.parquet", lambda text: text[: len(text) // 2], "expected a Parquet table, received a damaged"),
            ("per_user.parquet", lambda text: text.replace(b"ndcg@5", b"ndcg@6"), "per_user.parquet: expected a "),
            ("metrics.json", lambda text: text.replace(b'"seconds"', b'"hours"'), "received none named seconds"),
            ("metrics.json", lambda text: text.replace(b'"train"', b'"drain"'), "the seconds of train, received none"),
            ("metrics.json", lambda text: b'{"test": 1, "valid": {}, "users": 1, "seconds": {}}', "figures as test"),
        ],
    )
    def test_a_damaged_cell_does_not_stop_the_grid(
        self, shortlist: Command, words: list[object], tmp_path: Path, file: str, damage: Any, why: str
    ) -> None:
        assert shortlist(*words, "--seeds", "0", "--json").code == 0
        (path,) = [path / file for name, path in runs(tmp_path / "out").items() if "-sl-" in name]
        path.write_bytes(damage(path.read_bytes()))
        (path.parent / "manifest.json").unlink()  # which would know
        answer = shortlist(*words, "--seeds", "0", "--json")
        assert answer.code == 1
        damaged, sound = answer.json["rows"]
        assert why in damaged["failures"]["0"]
        assert damaged["failures"]["0"].endswith(" (remove the folder to compute it again)")
        assert (sound["failures"], len(sound["values"])) == ({}, 1)
        assert answer.err == "shortlist: 1 of 2 cells failed\n"  # which --retry would not change
        assert shortlist(*words, "--seeds", "0", "--dry-run", "--json").code == 0


class TestList:
    def test_shipped_grids(self, shortlist: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.delenv("SHORTLIST_DATA", raising=False)
        answer = shortlist("bench", "--list")
        assert (answer.code, answer.err) == (0, "")
        assert shortlist("bench").out == answer.out
        grids = {grid["name"]: grid for grid in shortlist("bench", "--list", "--json").json["grids"]}
        assert list(grids) == list(SHIPPED)
        for name, grid in grids.items():
            spec = read_spec(name)
            assert (grid["title"], grid["cells"]) == (spec.title, len(list(cells(spec))))
            assert re.search(rf"{name} +{grid['cells']} ", answer.out)
            assert grid["missing"] == [dataset for dataset in spec.datasets if dataset != "debian"]
        (tmp_path / "movielens-100k").mkdir()
        grids = shortlist("bench", "--json", "--data", tmp_path).json["grids"]
        assert {grid["name"]: grid["missing"] for grid in grids}["slatk-table18"] == []

    def test_estimated_times(
        self, shortlist: Command, clicks: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Every loss is tried once on data that are here, and counts for all epochs of its variants and seeds."""
        monkeypatch.delenv("SHORTLIST_DATA", raising=False)
        tried = []

        def second(cell: Cell, split: object) -> float:
            tried.append((cell.dataset, cell.loss))
            return 1.0

        monkeypatch.setattr("shortlist.bench.seconds_of_epoch", second)
        monkeypatch.setattr("shortlist.bench.SHIPPED", ("slatk-table18", "slatk-table4"))
        (tmp_path / "movielens-100k").mkdir()
        for part in ("train", "test"):
            (tmp_path / "movielens-100k" / f"{part}.csv").write_bytes(clicks.read_bytes())
        words = ("bench", "--list", "--dry-run", "--data", tmp_path)
        grids = {grid["name"]: grid for grid in shortlist(*words, "--json", "--jobs", 2).json["grids"]}
        assert tried == [("movielens-100k", loss) for loss in ("lambdarank", "ndcg_loss2", "lambdaloss_at_k", "slatk")]
        epochs = sum(cell.plan().training.epochs for cell in cells(read_spec("slatk-table18")))
        assert grids["slatk-table18"]["seconds"] == epochs / 2
        assert grids["slatk-table4"]["seconds"] is None
        text = shortlist(*words).out
        assert re.search(r"slatk-table4 +42 +not known ", text)
        assert re.search(rf"slatk-table18 +18 +{format_duration(epochs)} ", text)

    @pytest.mark.parametrize(
        ("more", "said"),
        [
            (["slatk-table4"], "bench: expected --out DIR, the folder for the cells of slatk-table4, received none"),
            (["slatk-table4", "--list"], "bench: expected SPEC with --out, or --list without either, received SPEC"),
            (["--out", "x"], "bench: expected SPEC with --out, or --list without either, received --out alone"),
        ],
    )
    def test_half_a_command(self, shortlist: Command, more: list[str], said: str) -> None:
        says(shortlist("bench", *more), 2, said)


class TestInvalid:
    @pytest.mark.parametrize(
        ("changes", "said"),
        [
            ({"datasets": ["click.csv"]}, "bench: unknown dataset 'click.csv'; did you mean 'clicks.csv'?"),
            ({"datasets": ["ml-1m"]}, "download it with `shortlist data get ml-1m`"),
            ({"losses": ["slat"]}, "grid.yaml: unknown loss 'slat'; did you mean 'slatk'?"),
            ({"metric": ["ndcg@5"]}, "grid.yaml: unknown key 'metric'; did you mean 'metrics'?"),
        ],
    )
    def test_published_names_must_exist(
        self, shortlist: Command, write: Write, data: Path, tmp_path: Path, changes: dict[str, Any], said: str
    ) -> None:
        says(shortlist("bench", write(**changes), "--data", data, "--out", tmp_path / "out"), 2, said)
        assert not (tmp_path / "out").exists()

    @pytest.mark.parametrize(
        ("grid", "who"),
        [("slatk-table18", "; SL@K's authors have it, in github.com/Tiny-Snow/IR-Benchmark"),
         ("llpauc-table5", "; LLPAUC's authors have it, with the code of their paper")],
    )  # fmt: skip
    def test_sets_of_papers_that_are_not_there(self, shortlist: Command, tmp_path: Path, grid: str, who: str) -> None:
        answer = shortlist("bench", grid, "--data", tmp_path, "--out", tmp_path / "out")
        says(answer, 2, f"expected a folder of that name with the tables train and test in {tmp_path}", who)
        assert re.match(r"shortlist: bench: [\w-]+ is not available; ", answer.err)
        assert not (tmp_path / "out").exists()

    @pytest.mark.parametrize(
        ("more", "said"),
        [
            (["--only", "slatk"], "--only: unknown name 'slatk'"),
            (["--seeds", "1,x"], "--seeds: expected whole numbers, such as 0,1,2, received '1,x'"),
            (["--seeds", "1,1"], "--seeds: expected each once, received '1,1'"),
            (["--seeds", "1,-1"], "--seeds: expected whole numbers from 0 to 9223372036854775807, received '1,-1'"),
            (["--seeds", "9223372036854775808"], "--seeds: expected whole numbers from 0 to 9223372036854775807"),
            (["--write", "table.txt"], "expected a name that ends in .md or .csv or .tex, received '.txt'"),
            (["--report", "page.pdf"], "expected a name that ends in .html, received '.pdf'"),
            (["--write", "/nowhere/table.md"], "expected a place to write to, received No such file"),
            (["--data", "/nowhere"], "bench: unknown dataset 'clicks.csv'"),
            (["--jobs", "0"], "--jobs"),
        ],
    )
    def test_one_line_before_any_work(
        self, shortlist: Command, words: list[object], tmp_path: Path, more: list[str], said: str
    ) -> None:
        says(shortlist(*words, *more), 2, said)
        assert not (tmp_path / "out").exists()

    def test_a_wrong_setting(self, shortlist: Command, write: Write, data: Path, tmp_path: Path) -> None:
        spec = write(settings=({"when": {"loss": "bpr"}, "set": {"loss.tau": 1}},))
        says(shortlist("bench", spec, "--data", data, "--out", tmp_path / "out"), 2,
             "grid.yaml: loss.tau: unknown parameter of bpr 'tau'")  # fmt: skip
        assert not (tmp_path / "out").exists()

    def test_an_empty_place(self, shortlist: Command, words: list[object], tmp_path: Path) -> None:
        (tmp_path / "out").mkdir()
        (tmp_path / "out" / "letter.txt").write_text("mine")
        says(shortlist(*words), 2, "expected a new folder, or one that bench has made, received one with other files")
        assert [path.name for path in (tmp_path / "out").iterdir()] == ["letter.txt"]
        says(shortlist(*words, "--out", tmp_path / "out" / "letter.txt" / "below"), 2, "Not a directory")

    def test_folders_of_tune_are_left_alone_and_tune_leaves_those_of_grids(
        self, shortlist: Command, words: list[object], clicks: Path, tmp_path: Path
    ) -> None:
        tune = ["tune", clicks, "--model", "ease", "--k", 5, "--trials", 1, "--json"]
        assert shortlist(*tune, "--out", tmp_path / "tuned").code == 0
        assert shortlist(*words, "--seeds", "0", "--json").code == 0
        before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
        says(
            shortlist(*words[:-1], tmp_path / "tuned"),
            2,
            "tuned: expected a new folder, or one that bench has made, received one of tune",
        )
        says(
            shortlist(*tune, "--out", tmp_path / "out"),
            2,
            "out: expected a new folder, or one that tune has made, received one of bench",
        )
        assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before
        assert shortlist(*tune, "--out", tmp_path / "tuned").code == 0

    def test_an_interruption(
        self, shortlist: Command, words: list[object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Ctrl-C in the second cell: the first is kept, the second has a checkpoint, nothing has failed."""
        from shortlist.training.loop import Training

        real, calls = Training.epoch, []

        def epoch(self: Any, *rest: Any) -> None:
            calls.append(1)
            if len(calls) == 6:
                raise KeyboardInterrupt
            real(self, *rest)

        with monkeypatch.context() as patch:
            patch.setattr(Training, "epoch", epoch)
            answer = shortlist(*words, "--json")
        assert answer.code == 130
        under_way = "in clicks.csv mf bpr seed 0 after epoch 1"
        assert answer.err.splitlines()[-1] == (
            f"shortlist: stopped with 1 of 4 cells done, {under_way}; resume with the same command"
        )
        assert [(path / CHECKPOINT).exists() for path in runs(tmp_path / "out").values()] == [True, False]
        assert not list((tmp_path / "out").rglob(FAILED))
        assert shortlist(*words, "--json").code == 0


class TestKills:
    def test_at_touches_of_the_disk(self, attempts: Attempts, write: Write, data: Path, tmp_path: Path) -> None:
        """Killed on the way and started again: only what is missing runs, and all is as if nothing had happened."""
        arguments = ["bench", write(seeds=[0]), "--data", data, "--json"]
        whole = attempts(*arguments, "--out", tmp_path / "whole")
        assert whole.code == 0
        expected = {name: contents(path) for name, path in runs(tmp_path / "whole").items()}
        found = set()
        for touch in count(35, 60):
            out = tmp_path / f"{touch}"
            answer = attempts(*arguments, "--out", out, touch=touch)
            if answer.code == 0:
                break
            assert answer.code == -signal.SIGKILL
            done = {name: each for name, each in stamps(out).items() if (out / name / "metrics.json").exists()}
            found.add((len(done), any((path / CHECKPOINT).exists() for path in runs(out).values())))
            again = attempts(*arguments, "--out", out)
            assert again.code == 0
            missing = [line for line in again.err.splitlines() if "seed" in line]
            assert len(missing) == len(expected) - len(done)
            assert {name: contents(path) for name, path in runs(out).items() if name in expected} == expected
            assert {name: stamps(out)[name] for name in done} == done
            assert _figures(again) == _figures(whole)
        assert {number for number, _ in found} >= {0, 1}
        assert any(is_begun for _, is_begun in found)

    def test_no_room(self, attempts: Attempts, write: Write, data: Path, tmp_path: Path) -> None:
        """A limit on the size of files stands for a disk that is full: one line, no cell is called failed."""
        arguments = ["bench", write(seeds=[0]), "--data", data, "--json", "--out", tmp_path / "out"]
        for size in (1000, 4000):
            answer = attempts(*arguments, largest_file=size)
            assert answer.code == 1
            assert answer.err.count("\n") == 1
            assert "cannot be written: " in answer.err
            assert not list((tmp_path / "out").rglob(FAILED))
        answer = attempts(*arguments)
        assert answer.code == 0
        assert len(answer.err.splitlines()) == 2

    def test_room_for_runs_but_none_for_the_page(
        self, attempts: Attempts, write: Write, data: Path, tmp_path: Path
    ) -> None:
        """The page is the largest file: without it the figures are told all the same, and the old one stays."""
        arguments = ["bench", write(seeds=[0]), "--data", data, "--json", "--out", tmp_path / "out"]
        whole = attempts(*arguments)
        page = tmp_path / "out" / "report.html"
        before = page.read_bytes()
        largest = max(path.stat().st_size for cell in runs(tmp_path / "out").values() for path in cell.iterdir())
        assert largest < len(before)
        answer = attempts(*arguments, largest_file=largest)
        assert (answer.code, answer.json["page"]) == (0, None)
        assert answer.err.count("\n") == 1
        assert answer.err.startswith("shortlist: no page: ")
        assert "cannot be written: " in answer.err
        assert answer.json["rows"] == whole.json["rows"]
        assert page.read_bytes() == before
        answer = attempts(*arguments, "--write", tmp_path / "table.csv", largest_file=300)
        assert (answer.code, answer.out) == (1, "")
        assert answer.err.count("\n") == 1
        assert "table.csv: cannot be written: " in answer.err
        assert not (tmp_path / "table.csv").exists()


def _figures(answer: Answer) -> list[Any]:
    return [{name: value for name, value in row.items() if name != "seconds"} for row in answer.json["rows"]]


class TestSeveralProcesses:
    def test_two_processes_on_one_folder(self, attempts: Attempts, write: Write, data: Path, tmp_path: Path) -> None:
        """Both end with all, and every cell is computed once."""
        out, slowly = tmp_path / "out", ({"when": {"model": "mf"}, "set": {"training.epochs": 25}},)
        arguments = ("bench", write(seeds=[0, 1, 2], settings=slowly), "--data", data, "--out", out, "--json")
        others = Attempts()
        with ThreadPoolExecutor() as pool:
            answers = [each.result() for each in [pool.submit(process, *arguments) for process in (attempts, others)]]
        others.close()
        assert [answer.code for answer in answers] == [0, 0]
        assert len(runs(out)) == 6
        assert answers[0].json["rows"] == answers[1].json["rows"]
        assert [len(row["values"]) for row in answers[0].json["rows"]] == [3, 3]
        lines = [line.split(":")[0] for answer in answers for line in answer.err.splitlines()]
        assert len(lines) == len(set(lines)) == 6

    def test_two_jobs(self, attempts: Attempts, words: list[object], tmp_path: Path) -> None:
        answer = attempts(*words, "--json", "--jobs", 2, "--log", f"tensorboard={tmp_path / 'boards'}")
        assert answer.code == 0
        assert sorted(runs(tmp_path / "boards")) == sorted(runs(tmp_path / "out"))
        lines = [line.split(":")[0] for line in answer.err.splitlines()]
        assert sorted(lines) == [f"clicks.csv mf {loss} seed {seed}" for loss in ("bpr", "sl") for seed in (0, 1)]
        assert _figures(answer) == _figures(attempts(*words[:-1], tmp_path / "alone", "--json"))

    @needs_proc
    @pytest.mark.parametrize(("sent", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, -signal.SIGTERM)])
    def test_jobs_end_with_the_first_process(
        self, write: Write, data: Path, tmp_path: Path, sent: signal.Signals, code: int
    ) -> None:
        """Which alone is sent the signal."""
        long = {"when": {"model": "mf"}, "set": {"training.epochs": 10**6, "training.patience": 10**6}}
        out = tmp_path / "out"
        process = started("bench", write(seeds=[0], settings=(long,)), "--data", data, "--out", out, "--jobs", 2)
        wait_for(lambda: len(list(out.glob(f"*/{CHECKPOINT}"))) == 2, process)
        helpers = children(process.pid)
        assert len(helpers) == 2
        process.send_signal(sent)
        _, said = process.communicate(timeout=60)
        assert process.returncode == code
        wait_for(lambda: not any(is_alive(helper) for helper in helpers))
        if sent == signal.SIGINT:
            under_way = r"in clicks.csv mf sl seed 0( after epoch \d+)?, clicks.csv mf bpr seed 0( after epoch \d+)?"
            line = f"shortlist: stopped with 0 of 2 cells done, {under_way}; resume with the same command\n"
            assert re.fullmatch(line, said)

    def test_an_error_of_one_worker_ends_the_others(
        self, shortlist: Command, words: list[object], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("shortlist.cli.bench.execute._share", _fails_once)
        began = time.monotonic()
        says(shortlist(*words, "--jobs", 2), 1, "out: the run cannot be written: No space left on device")
        assert time.monotonic() - began < LONG


def _fails_once(bench: Callable[[], Bench], *_: object) -> None:
    """A full disk for the first that comes, and much work for the other."""
    folder = bench().folder
    try:
        (folder / "first").mkdir()
    except FileExistsError:
        time.sleep(LONG)
    raise WriteError(f"{folder}: the run cannot be written: No space left on device")


class TestLive:
    def test_what_the_table_shows(self, write: Write, data: Path, tmp_path: Path) -> None:
        from rich.console import Console

        from shortlist.bench import published_figures

        names = {"clicks.csv": "Health", "mf": "MF", "sl": "SL", "bpr": "BPR"}
        spec = read_spec(
            write(seeds=list(range(6)), published={"table": "slatk_table03_ndcg_varying_k", "names": names})
        )
        bench, grid = Bench(tmp_path / "out", data), list(cells(spec))
        bench.run(grid[0])
        for number, file, text in (
            (1, FAILED, '{"reason": "it fell"}'),
            (2, "log.jsonl", '{"epoch": 2, "valid ndcg": 0.5}'),
        ):
            bench.path(grid[number]).mkdir()
            (bench.path(grid[number]) / file).write_text(text)

        now = status_reader(bench, grid, "ndcg@5")

        def drawn(height: int) -> str:
            console = Console(width=150, record=True, file=io.StringIO())
            console.print(table(spec, now(), published_figures(spec), height))
            return console.export_text()

        with lock(bench.lock(bench.path(grid[2]))):  # as another process would
            text, small = drawn(30), drawn(3)
        assert "Small: 1 done, 1 failed, 1 running, 9 waiting" in text
        assert re.search(r"✓ +clicks.csv mf sl seed 0 +0\.\d{4} +0\.\d{4}", text)
        assert re.search(r"✗ +clicks.csv mf bpr seed 0 +0\.0940 +it fell", text)
        assert re.search(r"▶ +clicks.csv mf sl seed 1 .* epoch 2/4  validation 0\.5000", text)
        assert re.search(r"· +clicks.csv mf bpr seed 5", text)
        assert "clicks.csv mf sl seed 1" in small
        assert "seed 5" not in small
        (bench.path(grid[0]) / "metrics.json").unlink()
        (bench.path(grid[2]) / FAILED).write_text('{"reason": "so did this"}')
        again = now()
        assert [again[cell].state for cell in grid[:4]] == ["done", "failed", "failed", "waiting"]  # ends are read once

    def test_in_a_terminal(
        self, shortlist: Command, words: list[object], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        monkeypatch.setenv("TTY_COMPATIBLE", "1")
        monkeypatch.setenv("COLUMNS", "150")
        answer = shortlist(*words, "--json")
        assert answer.code == 0
        shown = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", answer.err)
        assert re.search(r"Small: .*\d (running|waiting)", shown)
        assert "Small: 4 done" in shown
        assert len(answer.json["rows"]) == 2
