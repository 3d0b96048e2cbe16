"""The page of models: made from what they say of themselves, and never behind it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from command import Command
from shortlist.models import TrainableModel, registry
from shortlist.report.models import models_page

DOCS = Path(__file__).parents[2] / "docs"
NAMES = sorted(name for name in registry if registry[name].__module__.startswith("shortlist."))


@pytest.fixture(scope="module")
def page() -> str:
    return models_page(NAMES)


def test_the_page_of_models_in_the_repository_is_current(page: str) -> None:
    kept = (DOCS / "models.md").read_text(encoding="utf-8")
    assert kept == page, "docs/models.md is behind the models: shortlist models --out docs/models.md writes it anew"


@pytest.mark.parametrize("name", NAMES)
def test_every_model_is_described(page: str, name: str) -> None:
    model = registry[name]
    section = page.split(f"\n### {name}\n")[1].split("\n### ")[0].split("\n## ")[0]
    for fact in (model.summary, model.formula, model.cost, model.use):
        assert fact.strip()
        assert fact in page
    assert f"- **Cost**: {model.cost}\n" in section
    assert ("](losses.md#" in section) == issubclass(model, TrainableModel)
    for key, declared in model.declared.items():
        assert f"\n| `model.{key}` | " in section
        assert declared.help.strip()
    assert f"](#{name})" in page


def test_losses_that_are_linked_are_on_their_page(page: str) -> None:
    losses = (DOCS / "losses.md").read_text(encoding="utf-8")
    linked = set(re.findall(r"losses\.md#(\w+)", page))
    assert {"slatk_detached", "bce"} <= linked
    assert all(f"\n### {name}\n" in losses for name in linked)


def test_trained_models_are_listed_separately(page: str) -> None:
    trained, fitted = page.split("\n## Trained by a loss\n")[1].split("\n## Fitted by themselves\n")
    for name in NAMES:
        assert f"\n### {name}\n" in (trained if issubclass(registry[name], TrainableModel) else fitted)


def test_the_command_writes_the_page(shortlist: Command, tmp_path: Path) -> None:
    answer = shortlist("models", "ease", "--out", tmp_path / "some.md")
    assert answer.code == 0, answer.err
    page = (tmp_path / "some.md").read_text(encoding="utf-8")
    assert "### ease" in page
    assert "### mf" not in page
    assert "## Trained by a loss" not in page
    assert answer.out == f"Page: {tmp_path / 'some.md'}\n"
    content = shortlist("models", "ease", "--out", tmp_path / "some.md", "--json").json
    assert content == {"page": str(tmp_path / "some.md")}
    assert shortlist("models", "--out", tmp_path / "page.txt").code == 2


def test_the_command_prints_cost_and_use(shortlist: Command) -> None:
    content = shortlist("models", "pooled").out
    assert f"cost: {registry['pooled'].cost}\n" in content
    assert f"use it: {registry['pooled'].use}\n" in content
    assert shortlist("models", "pooled", "--json").json["use"] == registry["pooled"].use
