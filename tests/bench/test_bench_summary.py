"""The table of results in a terminal: whatever its width, figures stand in one piece."""

import io
import re
from dataclasses import replace

import pytest
from rich.console import Console

from shortlist.bench import Row, cells, published_figures, read_spec
from shortlist.cli.bench.summary import LEAST_USEFUL, print_results


def rows_of(grid: str, **changes: object) -> list[Row]:
    """A row for each place and metric, as if it had been measured."""
    spec = read_spec(grid)
    published, places = published_figures(spec), {cell.place: cell for cell in cells(spec)}
    values = {0: 0.1234, 1: 0.1236, 2: 0.1232}
    return [
        replace(Row(*place, metric, published(cell, metric), values, 1234.5, validation=values, p=0.00001), **changes)  # type: ignore[arg-type]
        for place, cell in places.items()
        for metric in spec.metrics
    ]


def printed(rows: list[Row], width: int) -> list[str]:
    console = Console(width=width, file=io.StringIO(), record=True)
    print_results("Title", rows, console)
    return [line.rstrip() for line in console.export_text().splitlines()]


@pytest.mark.parametrize("grid", ["slatk-table2", "slatk-table18", "llpauc-table1", "slatk-why", "slatk-table3"])
@pytest.mark.parametrize("width", [60, 80, 100, 160])
def test_numbers_are_not_wrapped(grid: str, width: int) -> None:
    rows = rows_of(grid)
    lines = printed(rows, width)
    assert max(map(len, lines)) <= width
    assert sum("0.1234" in line for line in lines) == len(rows)
    assert all(re.search(r"\S+@\d+ .*0\.1234", line) for line in lines if "0.1234" in line)
    heads = {f"{row.dataset}, {row.model if row.loss else 'baselines'}" for row in rows}
    assert {line for line in lines if line in heads} == heads
    shown = next(line for line in lines if line.startswith("loss ")).split()
    content = " ".join(lines).partition("Columns hidden: ")[2].partition(" (")[0]
    left_out = content.split(", ") if content else []
    has_figures = any(row.published for row in rows)
    useful = [name for name in LEAST_USEFUL if has_figures or name not in ("published", "ratio")]
    assert left_out == useful[: len(left_out)]
    assert set(shown) == {"loss", "metric", "measured", *useful} - set(left_out)
    assert len(left_out) <= {60: 6, 80: 3, 100: 1, 160: 0}[width]


def test_marks_are_on_figures_and_baselines_are_models() -> None:
    rows = [replace(row, is_best_baseline=not row.loss) for row in rows_of("llpauc-table1")]
    console = Console(width=80, file=io.StringIO(), force_terminal=True, color_system="standard")
    print_results("Title", rows, console)
    assert isinstance(console.file, io.StringIO)
    text = console.file.getvalue()
    assert text.count("\x1b[4m0.1234\x1b[0m") == 2
    heads = [line.split()[0] for line in printed(rows, 80) if "measured" in line]
    assert heads == ["loss", "model"]


def test_variants_of_baselines_have_their_names() -> None:
    rows = [
        Row("d", model, "", variant, "ndcg@20", None, {0: 0.5}, 1.0)
        for model in ("ease", "popularity")
        for variant in ("", "n10")
    ]
    firsts = [line.split()[0] for line in printed(rows, 80) if "ndcg@20" in line]
    assert firsts == ["ease", "ease/n10", "popularity", "popularity/n10"]


def test_empty_columns_are_hidden() -> None:
    lines = printed(rows_of("slatk-table2", published=None, p=None, validation={}, values={0: 0.1234}), 80)
    assert lines[3].split() == ["loss", "metric", "measured", "seeds", "seconds"]
    assert not any("No room" in line for line in lines)


def test_a_name_that_is_longer_than_the_terminal_is_folded() -> None:
    lines = printed(rows_of("slatk-table18", variant="x" * 100), 60)
    assert max(map(len, lines)) <= 60
    assert sum("0.1234" in line for line in lines) == len(rows_of("slatk-table18"))


def test_failures() -> None:
    rows = rows_of("slatk-table18", values={}, failures={0: "it fell"})
    found = [line for line in printed(rows, 80) if re.search(r"@20 .*failed.* 0 \(1 failed\)", line)]
    assert len(found) == len(rows)
