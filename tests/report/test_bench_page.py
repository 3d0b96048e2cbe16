"""The page of a grid: what it says, and what a real browser makes of it."""

import html
import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from browser import Tab, browse, browser, ink_in_colour, needs_browser
from shortlist.bench import Bench, Cell, Result, Spec, cells, read_spec, summarise, work
from shortlist.report import Figure, Page, Section, Table, against, lines, render
from shortlist.report.bench import bench_page

GRID = {
    "title": "Grid <of> tests",
    "about": "What it is & why.",
    "datasets": ["clicks.csv"],
    "losses": ["sl", "bpr", "slatk"],
    "baselines": ["popularity", "item_knn"],
    "ours": ["slatk"],
    "seeds": [0, 1],
    "k": 5,
    "metrics": ["ndcg@5"],
    "variants": {
        "τ_w 1": {"when": {"loss": "slatk"}, "set": {"loss.tau_w": 1.0}},
        "τ_w 2": {"when": {"loss": "slatk"}, "set": {"loss.tau_w": 2.0}},
    },
    "settings": [
        {"when": {"model": "mf"}, "set": {"model.dim": 8, "training.epochs": 3, "training.batch": 8,
         "training.validate_every": 1, "training.temperature_epochs": 0, "optimizer.lr": 0.03}},
        {"when": {"loss": "bpr"}, "set": {"optimizer.lr": 1e30}},
    ],
    "published": {"table": "slatk_table03_ndcg_varying_k", "names": {"clicks.csv": "Health", "mf": "MF", "sl": "SL"}},
}  # fmt: skip


@pytest.fixture(scope="module")
def made(clicks: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Spec, Bench, dict[Cell, Result]]:
    folder = tmp_path_factory.mktemp("grid")
    (folder / "grid.yaml").write_text(yaml.safe_dump(GRID, sort_keys=False))
    spec, bench = read_spec(folder / "grid.yaml"), Bench(folder / "out", clicks.parent)
    grid = list(cells(spec))
    work(bench, grid)
    return spec, bench, {cell: result for cell in grid if (result := bench.result(cell)) is not None}


@pytest.fixture(scope="module")
def page(made: tuple[Spec, Bench, dict[Cell, Result]]) -> Page:
    spec, bench, results = made
    return bench_page(spec, summarise(spec, results), results, {cell: bench.path(cell) for cell in results})


@pytest.fixture(scope="module")
def file(page: Page, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("page") / "report.html"
    path.write_text(render(page), encoding="utf-8")
    return path


def test_what_the_page_holds(page: Page, made: tuple[Spec, Bench, dict[Cell, Result]]) -> None:
    found = {section.title: section for section in page.sections}
    assert list(found) == [
        "Results", "Published and measured", "Metric against loss.tau_w", "Metric against K", "Learning curves", "Time",
    ]  # fmt: skip
    table, failed = found["Results"].tables
    assert [row[2].text for row in table.cells()] == ["sl", "bpr", "slatk/τ_w 1", "slatk/τ_w 2", "", ""]
    assert table.live
    assert sum(cell.mark for row in table.cells() for cell in row[5:6]) == 2  # the best of the losses, of the baselines
    assert [row[5].text for row in table.cells()][1] == "failed"
    assert [row[:4] for row in failed.rows] == [["clicks.csv", "mf", "bpr", "0, 1"]]  # which failed for one reason
    assert "became" in str(failed.rows[0][4])
    spec, _, results = made
    valid = [row.valid for row in summarise(spec, results)]
    assert [row[9].text for row in table.cells()] == ["" if each is None else f"{each:.4f}" for each in valid]
    assert valid[1] is None
    assert all(each is not None for each in valid[:1] + valid[2:])
    assert [figure.title for figure in found["Metric against loss.tau_w"].figures] == ["clicks.csv, mf: ndcg@5"]
    assert [figure.title for figure in found["Metric against K"].figures] == ["clicks.csv, baselines: ndcg@K"]
    learned = found["Learning curves"].figures[0].svg
    assert "ndcg@5 on validation" in learned
    for label in ("sl", "slatk/τ_w 1", "slatk/τ_w 2"):
        assert f">{label}<" in learned


def test_the_page_needs_nothing_else(file: Path) -> None:
    text = file.read_text(encoding="utf-8")
    addresses = set(re.findall(r"(?:https?:)?//[\w.]+", re.sub(r"(?s)<script>.*?</script>", "", text)))
    assert addresses <= {"http://www.w3.org"}  # the name of a format
    assert "<script>" in text
    assert "Grid &lt;of&gt; tests" in text
    assert "What it is &amp; why." in text


def test_pages_without_live_tables_have_no_script() -> None:
    table = Table(["a"], [["1"]])
    assert "<script" not in render(Page("t", "l", [Section("s", tables=[table])]))
    assert "<script" in render(Page("t", "l", [Section("s", tables=[Table(["a"], [["1"]], live=True)])]))


def test_pictures_of_few_points() -> None:
    import polars as pl

    one = pl.DataFrame({"name": ["a"], "x": [0.1], "y": [0.1]})
    assert against(one, title="measured", axis="published").startswith("<svg")
    many = pl.DataFrame({"name": [f"n{n}" for n in range(12)] * 2, "at": [1] * 12 + [2] * 12, "value": [0.1] * 24})
    svg = lines(many, title="ndcg", axis="epoch")
    assert svg.count("stroke-dasharray") >= 4  # colours come again after eight


def test_a_curve_with_one_value_is_visible() -> None:
    """Where validation took place once there is no line, but a point; lines of many values have none."""
    import polars as pl

    long = pl.DataFrame({"name": "long", "at": range(1, 41), "value": [0.01 * n for n in range(40)]})
    short = pl.DataFrame({"name": ["once"], "at": [7], "value": [0.3]}, schema=long.schema)

    def points(values: pl.DataFrame) -> list[str]:
        svg = lines(values, title="ndcg", axis="epoch")
        return re.findall(r'aria-label="([^"]*)" role="graphics-symbol" aria-roledescription="point"', svg)

    assert points(pl.concat([long, short])) == ["epoch: 7; ndcg: 0.3; name: once"]
    assert points(short) == ["epoch: 7; ndcg: 0.3; name: once"]
    assert points(long) == []


@needs_browser
class TestInABrowser:
    def test_sorting_and_filtering(self, file: Path, tmp_path: Path) -> None:
        """Clicks and words, as a person gives them; the table tells what it shows after each."""
        steps = """
<script>
const seen = [], box = document.querySelector(".live");
const column = (name) => [...box.querySelectorAll("th")].findIndex((head) => head.textContent === name);
const show = (name) => seen.push([...box.querySelectorAll("tbody tr")].filter((row) => !row.hidden)
  .map((row) => row.cells[column(name)].firstChild?.textContent ?? ""));
const click = (name) => box.querySelectorAll("th")[column(name)].querySelector("button").click();
const input = document.querySelector(".controls input");
const type = (text) => { input.value = text; input.dispatchEvent(new Event("input")); };
show("loss");
click("measured"); show("measured");
click("measured"); show("measured");
click("loss"); show("loss");
type("SLATK  τ_w"); show("loss");
type("nothing like it"); show("loss");
type(""); show("loss");
document.body.innerHTML = "<pre id=seen></pre>";
document.querySelector("pre").textContent = JSON.stringify(seen);
</script>"""
        copy = tmp_path / "copy.html"
        copy.write_text(file.read_text(encoding="utf-8").replace("</body>", steps + "</body>"), encoding="utf-8")
        dom = browse(copy, tmp_path, "--dump-dom")
        match = re.search(r'<pre id="seen">(.*?)</pre>', dom, re.DOTALL)
        assert match is not None
        before, down, up, names, some, none, all_of_them = json.loads(html.unescape(match[1]))
        assert before == ["sl", "bpr", "slatk/τ_w 1", "slatk/τ_w 2", "", ""]
        values = [float(text.rstrip("*")) for text in down[:-1]]
        assert values == sorted(values, reverse=True)
        assert len(values) == 5
        assert (down[-1], up[-1]) == ("failed", "failed")
        assert up[:-1] == down[-2::-1]
        assert names == ["bpr", "sl", "slatk/τ_w 1", "slatk/τ_w 2", "", ""]
        assert some == ["slatk/τ_w 1", "slatk/τ_w 2"]
        assert none == []
        assert all_of_them == names

    def test_by_keyboard_alone(self, tmp_path: Path) -> None:
        """From the top of the page: words, menus and columns are reached by Tab and used by keys."""
        rows = [
            ["health", "sl", "0.1260", "3"], ["health", "bpr", "0.0900", "3 (1 failed)"], ["health", "ccl", "", "0"],
            ["beauty", "sl", "1,200.5", "20"], ["beauty", "bpr", "-4e-3", "3"], ["beauty", "slatk", "< 0.5", "1"],
        ]  # fmt: skip
        table = Table(["dataset", "loss", "value", "seeds"], rows, numbers=["value", "seeds"], live=True)
        (tmp_path / "page.html").write_text(render(Page("t", "l", [Section("s", tables=[table])])), encoding="utf-8")

        def column(tab: Tab, number: int) -> list[str]:
            shown = "[...document.querySelectorAll('tbody tr')].filter((row) => !row.hidden)"
            found: list[str] = tab.see(f"{shown}.map((row) => row.cells[{number}].textContent)")
            return found

        def focused(tab: Tab) -> list[str]:
            found: list[str] = tab.see(
                "[document.activeElement.tagName, document.activeElement.closest('label, th')?.firstChild.textContent]"
            )
            return found

        with browser(tmp_path / "profile") as tab:
            tab.open(tmp_path / "page.html")
            tab.press("Tab")
            assert focused(tab)[0] == "INPUT"
            tab.press(*"SL he")
            assert column(tab, 1) == ["sl"]
            assert tab.see("document.querySelector('[role=status]').textContent") == "1 of 6 rows"
            tab.press("Escape")
            assert len(column(tab, 1)) == 6
            assert tab.see("document.querySelector('[role=status]').textContent") == "6 rows"
            tab.press("Tab")
            assert focused(tab) == ["SELECT", "dataset "]
            tab.press("ArrowDown", "ArrowDown")
            assert column(tab, 0) == ["beauty"] * 3
            tab.press("Tab")
            assert focused(tab) == ["SELECT", "loss "]
            tab.press("b")  # a menu goes to what begins so
            assert (column(tab, 0), column(tab, 1)) == (["beauty"], ["bpr"])
            tab.press("ArrowUp", "ArrowUp")
            assert column(tab, 0) == ["beauty"] * 3
            tab.press("Tab", "Tab")  # past the table, which scrolls
            assert focused(tab) == ["BUTTON", "dataset"]
            tab.press("Tab", "Tab", "Enter")
            assert focused(tab) == ["BUTTON", "value"]
            assert column(tab, 2) == ["1,200.5", "< 0.5", "-4e-3"]
            tab.press(" ")
            assert column(tab, 2) == ["-4e-3", "< 0.5", "1,200.5"]
            assert tab.see("document.querySelector('th[aria-sort]').getAttribute('aria-sort')") == "ascending"
            tab.press("Tab", "Enter")
            assert column(tab, 3) == ["20", "3", "1"]
            tab.see("document.querySelector('select').selectedIndex = 0,"
                    "document.querySelector('select').dispatchEvent(new Event('change'))")  # fmt: skip
            assert column(tab, 3) == ["20", "3", "3 (1 failed)", "3", "1", "0"]

    def test_columns_with_menus(self, tmp_path: Path) -> None:
        """Texts with a few values have one; numbers, many values and one value have none."""
        rows = [["same", f"n{n}", "odd" if n % 2 else "", str(n)] for n in range(21)]
        live = Table(["one", "many", "few", "number"], rows, numbers=["number"], live=True)
        dead = Table(["few"], [["a"], ["b"]])
        page = tmp_path / "page.html"
        page.write_text(render(Page("t", "l", [Section("s", tables=[live, dead])])), encoding="utf-8")
        with browser(tmp_path / "profile") as tab:
            tab.open(page)
            menus = tab.see(
                "[...document.querySelectorAll('select')].map((menu) => [...menu.options].map((o) => o.text))"
            )
            assert menus == [["all", "none", "odd"]]
            assert tab.see("document.querySelectorAll('th button').length") == 4
            tab.see("document.querySelector('select').selectedIndex = 1,"
                    "document.querySelector('select').dispatchEvent(new Event('change'))")  # fmt: skip
            shown = "[...document.querySelectorAll('.live tbody tr')].filter((row) => !row.hidden).length"
            assert tab.see(shown) == 11

    @pytest.mark.parametrize(("scheme", "paper"), [(1, (255, 255, 255)), (0, (0x14, 0x18, 0x1F))])
    def test_light_and_dark(self, file: Path, tmp_path: Path, scheme: int, paper: tuple[int, int, int]) -> None:
        assert ink_in_colour(file, tmp_path, scheme, paper, height=1800) > 50

    def test_nothing_is_wider_than_the_page(self, file: Path, tmp_path: Path) -> None:
        script = "<script>document.title = document.documentElement.scrollWidth</script></body>"
        copy = tmp_path / "copy.html"
        copy.write_text(file.read_text(encoding="utf-8").replace("</body>", script), encoding="utf-8")
        dom = browse(copy, tmp_path, "--window-size=1200,900", "--dump-dom")
        assert int(re.search(r"<title>(\d+)</title>", dom)[1]) <= 1200  # type: ignore[index]

    def test_long_names_stay_within_a_narrow_page(self, tmp_path: Path) -> None:
        name = "folder_" * 20
        page = Page(name, name, [Section(name, [name], figures=[Figure(name, "<svg></svg>", name)])])
        (tmp_path / "page.html").write_text(render(page), encoding="utf-8")
        with browser(tmp_path / "profile") as tab:
            tab.narrow(360)
            tab.open(tmp_path / "page.html")
            assert tab.see("innerWidth") == 360
            assert tab.see("document.documentElement.scrollWidth") == 360

    def test_the_number_of_rows_is_said_at_once(self, tmp_path: Path) -> None:
        rows = [Table(["n"], [[str(n)] for n in range(count)], live=True) for count in (24, 1)]
        (tmp_path / "page.html").write_text(render(Page("t", "l", [Section("s", tables=rows)])), encoding="utf-8")
        with browser(tmp_path / "profile") as tab:
            tab.open(tmp_path / "page.html")
            said = "[...document.querySelectorAll('.controls [role=status]')].map((count) => count.textContent)"
            assert tab.see(said) == ["24 rows", "1 row"]

    def test_on_paper(self, file: Path, tmp_path: Path) -> None:
        browse(file, tmp_path, f"--print-to-pdf={tmp_path / 'page.pdf'}")
        assert (tmp_path / "page.pdf").read_bytes().startswith(b"%PDF")
        if reader := shutil.which("pdftotext"):
            text = subprocess.run(
                [reader, tmp_path / "page.pdf", "-"], capture_output=True, text=True, check=True
            ).stdout
            for word in ("Grid <of> tests", "seconds", "Learning curves", "What failed"):
                assert word in text
            assert "Show only rows" not in text
