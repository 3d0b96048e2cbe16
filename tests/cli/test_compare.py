"""Comparing runs, and the page that shows it."""

import json
import re
from html import escape
from pathlib import Path

import pytest

from command import Answer, Command
from shortlist.bench import Row
from shortlist.bench.results import HEAD
from shortlist.cli import run
from shortlist.cli.output import print_json
from shortlist.formatting import format_p
from shortlist.metrics import SIGNIFICANCE


@pytest.fixture(scope="module")
def popularity(clicks: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("other") / "popularity"
    assert run(["train", str(clicks), "--model", "popularity", "--out", str(folder), "--json"]) == 0
    return folder


def test_a_table_and_a_picture(shortlist: Command, ease: Path, popularity: Path) -> None:
    answer = shortlist("compare", ease, popularity)
    assert answer.code == 0
    for text in ("popularity − ease", "├", "●", "Holm", "60 users"):
        assert text in answer.out


def test_json(shortlist: Command, ease: Path, popularity: Path) -> None:
    given = shortlist("compare", ease, popularity, "--metric", "recall@5", "--json").json
    assert given["metric"] == "recall@5"
    assert given["means"].keys() == {"ease", "popularity"}
    (pair,) = given["pairs"]
    assert pair["difference"] == pytest.approx(given["means"]["popularity"] - given["means"]["ease"])
    assert pair["t_holm"] <= 1
    low, high = given["intervals"]["ease"]
    assert low <= given["means"]["ease"] <= high


def test_a_page_that_needs_nothing_else(shortlist: Command, ease: Path, popularity: Path, tmp_path: Path) -> None:
    out = tmp_path / "page.html"
    assert f"Page: {out}" in shortlist("compare", ease, popularity, "--out", out).out
    check_page(out.read_text(), pictures=2)


@pytest.mark.parametrize("p", [0.5, 0.0499, 0.00001])
def test_p_values_are_formatted_alike(
    p: float, ease: Path, popularity: Path, tmp_path: Path, shortlist: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shortlist.metrics.comparison.holm", lambda raw: [p for _ in raw])
    page = tmp_path / "page.html"
    content = shortlist("compare", ease, popularity, "--out", page).out
    shown = page.read_text()
    row = Row("d", "mf", "sl", "", "ndcg@20", None, {}, 0.0, p=p)
    assert row.texts()[HEAD.index("p")] == format_p(p)
    assert content.count(format_p(p)) == 2  # of both tests
    assert shown.count(f">{escape(format_p(p))}<") == 2
    assert len(re.findall(rf'class="[^"]*\bmark\b[^"]*"[^>]*>{escape(format_p(p))}<', shown)) == 2 * (p < SIGNIFICANCE)


def check_page(html: str, pictures: int) -> None:
    assert html.count("<svg") == pictures
    assert "<script" not in html
    addresses = set(re.findall(r"https?://[^\"' )<]+", html))
    assert addresses <= {"http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"}  # names, which nothing fetches
    assert not re.search(r"(?:src|href)=\"(?!#|data:)", html)
    assert "prefers-color-scheme: dark" in html
    assert "@media print" in html
    assert "currentColor" in html


def refused(answer: Answer, text: str) -> None:
    assert (answer.code, answer.out) == (2, "")
    assert text in answer.err


def test_runs_that_cannot_be_compared(shortlist: Command, ease: Path, popularity: Path, tmp_path: Path) -> None:
    refused(shortlist("compare", ease), "expected two or more runs, received 1")
    refused(shortlist("compare", ease, ease), "received the same one twice")
    refused(shortlist("compare", ease, popularity, "--metric", "ndgc@20"), "did you mean 'ndcg@20'?")
    refused(shortlist("compare", ease, popularity, "--out", tmp_path / "page.pdf"), "ends in .html")
    refused(shortlist("compare", ease, popularity, "--out", ease / "config.json" / "p.html"), "Not a directory")


def test_json_has_null_for_what_is_no_finite_number(capsys: pytest.CaptureFixture[str]) -> None:
    print_json({"effect": float("inf"), "each": [float("nan"), 0.5], "more": {"least": -float("inf"), "n": 3}})
    given = json.loads(capsys.readouterr().out, parse_constant=pytest.fail)
    assert given == {"effect": None, "each": [None, 0.5], "more": {"least": None, "n": 3}}


class TestTestParts:
    """The tests are paired by the users' ids, which say nothing where users were asked for something else."""

    def trained(self, shortlist: Command, data: Path, out: Path, *others: object) -> Path:
        assert shortlist("train", data, "--model", "popularity", "--out", out, *others, "--json").code == 0
        return out

    def test_another_seed_splits_a_table_anew(
        self, shortlist: Command, ease: Path, clicks: Path, tmp_path: Path
    ) -> None:
        other = self.trained(shortlist, clicks, tmp_path / "other", "--seed", 1)
        expected = "compare: expected runs with the same test items, received different ones in ease and other"
        refused(shortlist("compare", ease, other), f"{expected} (data.seed 0 and 1)\n")

    def test_another_set_with_the_same_users(
        self, shortlist: Command, ease: Path, popularity: Path, clicks: Path, tmp_path: Path
    ) -> None:
        table = tmp_path / "others.csv"
        table.write_text(clicks.read_text().replace(",10", ",20"))
        other = self.trained(shortlist, table, tmp_path / "other")
        answer = shortlist("compare", popularity, ease, other)
        refused(answer, f"received different ones in popularity and other (data.source '{clicks}' and '{table}')")
        assert answer.err.count("\n") == 1

    def test_a_table_that_has_changed(self, shortlist: Command, clicks: Path, tmp_path: Path) -> None:
        table = tmp_path / "clicks.csv"
        table.write_text(clicks.read_text())
        one = self.trained(shortlist, table, tmp_path / "one")
        table.write_text(clicks.read_text().replace(",10", ",20"))
        other = self.trained(shortlist, table, tmp_path / "other")
        refused(shortlist("compare", one, other), "received different ones in one and other (the table has changed)")

    def test_a_given_test_table_is_the_same_for_all_seeds_and_names(
        self, shortlist: Command, clicks: Path, tmp_path: Path
    ) -> None:
        header, *rows = clicks.read_text().splitlines()
        for name in ("given", "copied"):
            (tmp_path / name).mkdir()
            for part, taken in (("train", rows[::2] + rows[3::4]), ("test", rows[1::4])):
                (tmp_path / name / f"{part}.csv").write_text("\n".join([header, *taken]) + "\n")
        one = self.trained(shortlist, tmp_path / "given", tmp_path / "one")
        other = self.trained(shortlist, tmp_path / "copied", tmp_path / "other", "--seed", 1)
        assert shortlist("compare", one, other).code == 0
        rule = self.trained(shortlist, tmp_path / "given", tmp_path / "rule", "--protocol", "irbenchmark")
        said = "compare: expected runs of one protocol, received 'shortlist' in one and 'irbenchmark' in rule"
        refused(shortlist("compare", one, rule), said)
