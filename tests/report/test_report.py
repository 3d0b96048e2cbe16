"""Pages and pictures."""

import builtins
from collections.abc import Callable
from typing import Any

import polars as pl
import pytest

from shortlist.errors import ShortlistError
from shortlist.report import Figure, Page, Section, Table, curves, dots, groups, render
from shortlist.report.page import Cell
from shortlist.report.theme import INK, LINE

BANDS = pl.DataFrame(
    {"name": ["a", "a", "b", "b"], "k": [5, 20, 5, 20], "mean": [0.1, 0.2, 0.3, 0.4], "low": [0.05, 0.15, 0.2, 0.3],
     "high": [0.15, 0.25, 0.4, 0.5]}
)  # fmt: skip
GROUPS = pl.DataFrame({"name": ["a", "a"], "group": ["1–3", "4"], "value": [0.5, None]})


@pytest.mark.parametrize(
    "draw",
    [
        lambda: curves(BANDS, title="NDCG@K"),
        lambda: groups(GROUPS, title="NDCG@20", axis="items"),
        lambda: dots(BANDS.filter(k=5), title="NDCG@20"),
        lambda: dots(BANDS.filter(k=5), title="difference", zero=True),
    ],
)
def test_pictures_take_the_colours_of_the_page(draw: Callable[[], str]) -> None:
    svg = draw()
    assert svg.startswith("<svg")
    assert "currentColor" in svg
    assert "var(--line)" in svg
    assert INK not in svg
    assert LINE not in svg


def test_a_page_escapes_what_people_called_things() -> None:
    table = Table(["<i>", "n"], [["<b>", Cell("1", mark=True, note="<u>")]], "a & b", numbers=["n"])
    html = render(Page("<t>", "lead", [Section("<s>", ["<p>"], [table], [Figure("<f>", "<svg></svg>")])]))
    for text in (
        "&lt;t&gt;",
        "&lt;i&gt;",
        "&lt;b&gt;",
        "&lt;u&gt;",
        "a &amp; b",
        "&lt;s&gt;",
        "&lt;f&gt;",
        "<svg></svg>",
    ):
        assert text in html
    assert "<b>" not in html


@pytest.mark.parametrize(("package", "make"), [("altair", "picture"), ("vl_convert", "picture"), ("jinja2", "page")])
def test_what_is_missing_is_named(monkeypatch: pytest.MonkeyPatch, package: str, make: str) -> None:
    real_import = builtins.__import__

    def without(name: str, *args: Any, **kwargs: Any) -> Any:
        if name == package:
            raise ModuleNotFoundError(f"No module named {package!r}")
        return real_import(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ShortlistError, match=r"report: .* pip install 'shortlist\[report\]'"):
        _ = curves(BANDS, title="x") if make == "picture" else render(Page("t", "l"))
