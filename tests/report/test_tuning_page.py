"""The page of a study: what it says is what was tried."""

import re
from pathlib import Path

import pytest

from browser import browse, needs_browser
from command import Command
from shortlist.data import LoadOptions, load
from shortlist.report import render
from shortlist.report.tuning import tuning_page
from shortlist.tuning import Study, finish, prepare, space_of, work

FIXED = {"model": {"dim": "6"}, "training": {"validate_every": "2", "temperature_epochs": "0"}}


@pytest.fixture(scope="module")
def made(clicks: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Study, str]:
    folder = tmp_path_factory.mktemp("study")
    split = load(clicks, LoadOptions(seed=0))
    study = prepare(folder, space_of("mf", "slatk", 5, texts=FIXED), split, protocol="shortlist", seed=0)
    work(study, split, most=20)
    config = {"data": {"source": "<clicks>"}, "protocol": "shortlist", "seed": 0}
    return study, render(tuning_page(study, finish(study, split, folder / "best", config=config).run))


def test_the_report_names_the_best_trial(made: tuple[Study, str]) -> None:
    study, page = made
    best = study.best()
    assert best is not None
    assert "<h1>Tuning mf with slatk on &lt;clicks&gt;</h1>" in page
    assert (
        f"Trial {best.number} was best with {best.value:.4f}; on test, which is evaluated only for the best trial"
        in page
    )
    assert "is not shown" not in page
    given_up = sum(each.state == "pruned" for each in study.trials())
    assert f"20 trials, of which {given_up} were pruned, judged by ndcg@5 on validation." in page
    for name, value in best.settings.items():
        text = f"{value:g}" if isinstance(value, float) else str(value)
        assert re.search(rf"<td[^>]*>{re.escape(name)}</td>\s*<td[^>]*>{re.escape(text)}<", page)
    assert page.count("<svg") == 2 + len(study.space.searched)
    assert "http://" not in page.replace("http://www.w3.org", "")
    assert "https://" not in page


def test_each_trial_is_a_row_and_a_point(made: tuple[Study, str]) -> None:
    study, page = made
    rows = re.findall(r"<tr[^>]*>\s*<td[^>]*>(\d+)</td>\s*<td[^>]*>(done|pruned|failed)</td>", page)
    assert [(int(number), state) for number, state in rows] == [(each.number, each.state) for each in study.trials()]
    first = page[page.index("<svg") : page.index("</svg>")]
    points = re.findall(r'aria-label="trial: (\d+); [^"]*"', first)
    shown = {each.number for each in study.trials() if each.state in ("done", "pruned")}
    assert {int(point) for point in points} == shown


def test_importance_is_of_what_was_searched(made: tuple[Study, str]) -> None:
    study, _ = made
    importance = study.importance()
    assert set(importance) == set(study.space.searched)
    assert sum(importance.values()) == pytest.approx(1)


def test_a_page_of_one_trial(shortlist: Command, clicks: Path, tmp_path: Path) -> None:
    out = tmp_path / "tuned"
    assert shortlist("tune", clicks, "--model", "ease", "--k", 5, "--trials", 1, "--out", out).code == 0
    page = (out / "report.html").read_text(encoding="utf-8")
    assert page.count("<svg") == 2
    assert "The importance of settings needs at least 4 trials with different values." in page
    assert ">300<" in page


@needs_browser
def test_a_browser_shows_it(made: tuple[Study, str], tmp_path: Path) -> None:
    script = "<script>document.title = document.documentElement.scrollWidth</script></body>"
    path = tmp_path / "page.html"
    path.write_text(made[1].replace("</body>", script), encoding="utf-8")
    width = re.search(r"<title>(\d+)</title>", browse(path, tmp_path, "--window-size=1200,900", "--dump-dom"))
    assert width is not None
    assert int(width[1]) <= 1200  # nothing is wider than the page
