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
from pages import PAGES, REPOSITORY, Block, blocks
from shortlist.data import Interactions, Split

README = REPOSITORY / "README.md"

GIVEN = {"torch": torch, "np": np, "Interactions": Interactions, **vars(shortlist.losses), **vars(shortlist.models)}
"""What examples on the pages of losses and models take for granted."""


def python(page: Path) -> list[Block]:
    return [block for block in blocks(page) if block.language == "python"]


def run(page: Path) -> tuple[dict[str, Any], list[str]]:
    """Run a page from top to bottom: the names that it leaves behind, and the lines that it prints.

    Sessions with ``>>>`` are held against what they show, with the names of :data:`GIVEN`.
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
            exec(compile("\n" * (block.line - 1) + block.text, str(page), "exec"), names)
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
    run(page)


@pytest.fixture(scope="module")
def after_readme() -> tuple[dict[str, Any], list[str]]:
    return run(README)


def test_what_the_readme_prints(after_readme: tuple[dict[str, Any], list[str]]) -> None:
    """EASE as in the table at the top of the page; MF, after a few epochs, on its way there."""
    names, (ease, trained) = after_readme
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
