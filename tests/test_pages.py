"""Python on the pages does what they say: every block is run, in order, in one namespace a page."""

from __future__ import annotations

import doctest
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import shortlist.losses
import shortlist.models
import shortlist.tasks
from pages import PAGES, REPOSITORY, Block, blocks
from shortlist.data import Interactions, Split
from shortlist.scores import Batch

README = REPOSITORY / "README.md"

GIVEN = {
    "torch": torch,
    "np": np,
    "Batch": Batch,
    "Interactions": Interactions,
    **vars(shortlist.losses),
    **vars(shortlist.models),
}
"""Names that the examples on the pages of losses and models use."""


def python(page: Path) -> list[Block]:
    return [block for block in blocks(page) if block.language == "python"]


def run(page: Path) -> tuple[dict[str, Any], list[str]]:
    """Run a page from top to bottom: the names that it leaves behind, and the lines that it prints.

    Sessions with ``>>>`` are compared with what they show, with the names of :data:`GIVEN`; so is the output of a block
    in which ``print(…)`` is followed by a comment, in the README excepted, whose comments explain.
    """
    printed: list[str] = []
    names: dict[str, Any] = {"print": lambda *values: printed.append(" ".join(map(str, values)))}
    sessions = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS)
    for block in python(page):
        if ">>>" in block.text:
            session = doctest.DocTestParser().get_doctest(block.text, dict(GIVEN), page.name, str(page), block.line - 1)
            said: list[str] = []
            sessions.run(session, out=said.append)
            assert said == []
        else:
            before = len(printed)
            exec(compile("\n" * (block.line - 1) + block.text, str(page), "exec"), names)
            shown = re.findall(r"^print\(.*\)  # (.+)$", block.text, re.MULTILINE)
            assert page == README or shown in ([], printed[before:])
    return names, printed


def test_blocks_that_are_files_have_tests_of_their_own() -> None:
    """In `test_add_a_loss.py`; all others are run here."""
    files = [page.name for page in PAGES if any(block.place for block in python(page))]
    assert files == ["add-a-loss.md"]


@pytest.mark.parametrize(
    "page",
    [page for page in PAGES if page != README and any(not block.place for block in python(page))],
    ids=lambda page: page.name,
)
def test_a_page_runs(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not any(block.place for block in python(page))
    monkeypatch.chdir(tmp_path)  # what a page writes stays out of the tree
    for registry in (shortlist.losses.registry, shortlist.models.registry, shortlist.tasks.registry):
        monkeypatch.setattr(registry, "_classes", dict(registry._classes))  # and what it registers, out of other tests
    run(page)


def write_clicks(path: Path) -> None:
    """Purchases of a shop, as README's first example reads them."""
    rng = np.random.default_rng(0)
    stock = ["lamp", "desk", "chair", *(f"item{number}" for number in range(37))]
    customers = ["ann", "bob", *(f"customer{number}" for number in range(58))]
    rows = [
        f"{customer},{stock[item]},{date}"
        for number, customer in enumerate(customers)
        for item, date in zip(
            rng.choice(20, 6, replace=False) + 20 * (number % 2),
            rng.choice(np.arange("2024-01-01", "2024-06-01", dtype="datetime64[D]"), 6),
            strict=True,
        )
    ]
    path.write_text("customer,sku,when\n" + "\n".join(rows) + "\n", encoding="utf-8")


@pytest.fixture(scope="module")
def after_readme(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], list[str]]:
    folder = tmp_path_factory.mktemp("readme")
    write_clicks(folder / "clicks.csv")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        return run(README)


def test_the_first_example_of_the_readme_is_short_and_does_everything(
    after_readme: tuple[dict[str, Any], list[str]],
) -> None:
    """A script of at most 25 lines from a pandas DataFrame to lists, similar items, a report and a saved run."""
    assert len(python(README)[0].text.splitlines()) <= 25
    names, printed = after_readme
    rec = names["rec"]
    assert type(rec.recommend(["ann"])).__module__.startswith("pandas")
    assert rec.evaluate()["ndcg@10"] > 0.1
    assert "ease − mf with slatk_detached" in printed[1]
    assert "ann" in printed[2]
    assert "bob" in printed[2]
    assert "lamp" not in printed[3]


def test_the_research_examples_of_the_readme(after_readme: tuple[dict[str, Any], list[str]]) -> None:
    """EASE as in the table at the top of the page; MF after a few epochs."""
    names, printed = after_readme
    ease, trained = printed[-2:]
    assert isinstance(names["split"], Split)
    row = re.search(r"^\| ease \| ([\d.]+) \|", README.read_text(encoding="utf-8"), re.MULTILINE)
    assert row is not None
    assert f"{float(ease.split()[0]):.4f}" == row[1]
    low, high = map(float, re.findall(r"(?:low|high)=([\d.]+)", ease))
    assert low < float(row[1]) < high
    assert 0.5 < float(trained) < 0.6


def test_the_loss_of_a_loop_of_ones_own(after_readme: tuple[dict[str, Any], list[str]]) -> None:
    names, _ = after_readme
    value = names["loss"](names["pos"], names["neg"], threshold=names["threshold"])
    assert value.shape == ()
    assert bool(value.isfinite())
