"""Results of a grid beside what was published: one row a place and metric."""

from __future__ import annotations

import csv
import io
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from shortlist.bench.cells import Cell
from shortlist.bench.published import Published
from shortlist.bench.runner import Failure
from shortlist.bench.spec import Spec
from shortlist.runs import Run

HEAD = ("dataset", "model", "loss", "metric", "published", "measured", "deviation", "ratio", "seeds", "seconds")


@dataclass(frozen=True)
class Row:
    """One metric of one place: the mean over seeds, beside the published figure if there is one."""

    dataset: str
    model: str
    loss: str
    metric: str
    published: float | None
    values: tuple[float, ...]
    seconds: float
    failure: str = ""

    @property
    def measured(self) -> float | None:
        """The mean over seeds."""
        return statistics.mean(self.values) if self.values else None

    @property
    def deviation(self) -> float | None:
        """The standard deviation over seeds."""
        return statistics.stdev(self.values) if len(self.values) > 1 else None

    @property
    def ratio(self) -> float | None:
        """Measured over published."""
        return None if self.measured is None or not self.published else self.measured / self.published

    def cells(self) -> tuple[str, ...]:
        """As text, a column each of :data:`HEAD`."""
        measured = _figure(self.measured, 4) or ("failed" if self.failure else "")
        numbers = (_figure(self.published, 4), measured, _figure(self.deviation, 4), _figure(self.ratio, 3))
        return (
            self.dataset,
            self.model,
            self.loss,
            self.metric,
            *numbers,
            str(len(self.values)),
            f"{self.seconds:.0f}",
        )


def summarise(spec: Spec, results: Mapping[Cell, Run | Failure]) -> list[Row]:
    """Rows in the order of the grid; places without any result are left out."""
    published = None if spec.published is None else Published(spec.published.table, spec.published.where)
    names = {} if spec.published is None else spec.published.names
    groups: dict[tuple[str, str, str, str], list[Run | Failure]] = {}
    for cell, result in results.items():
        groups.setdefault(cell.place, []).append(result)
    rows = []
    for (dataset, model, loss, variant), group in groups.items():
        label = "/".join(word for word in (loss, variant) if word)
        runs = [result for result in group if isinstance(result, Run)]
        failure = next((result.reason for result in group if isinstance(result, Failure)), "")
        theirs = names.get(dataset, dataset), names.get(model, model), names.get(label, names.get(loss, loss))
        for metric in spec.metrics:
            figure = None if published is None else published.value(*theirs, metric)
            values = tuple(run.metrics["test"][metric] for run in runs)
            seconds = statistics.mean(run.metrics["seconds"]["train"] for run in runs) if runs else 0.0
            rows.append(Row(dataset, model, label, metric, figure, values, seconds, failure))
    return rows


def to_markdown(rows: Sequence[Row]) -> str:
    """A table for a page. The best measured value of a column of the paper is bold.

    >>> row = Row("health", "mf", "sl", "ndcg@20", 0.1261, (0.126, 0.128), 2.0)
    >>> print(to_markdown([row]).splitlines()[-1])
    | health | mf | sl | ndcg@20 | 0.1261 | **0.1270** | 0.0014 | 1.007 | 2 | 2 |
    """
    best = _best(rows)
    lines = ["| " + " | ".join(HEAD) + " |", "|" + "---|" * 4 + "---:|" * (len(HEAD) - 4)]
    for row in rows:
        texts = list(row.cells())
        if row in best:
            texts[5] = f"**{texts[5]}**"
        lines.append("| " + " | ".join(texts) + " |")
    return "\n".join(lines) + "\n"


def to_csv(rows: Iterable[Row]) -> str:
    """The same with every seed's value."""
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow([*HEAD, "values", "failure"])
    for row in rows:
        writer.writerow([*row.cells(), " ".join(f"{value:.6f}" for value in row.values), row.failure])
    return file.getvalue()


def to_latex(rows: Sequence[Row]) -> str:
    """A ``tabular`` with the best measured value of each dataset, model and metric in bold."""
    best = _best(rows)
    lines = [r"\begin{tabular}{llll" + "r" * (len(HEAD) - 4) + "}", " & ".join(HEAD) + r" \\ \hline"]
    for row in rows:
        texts = [text.replace("_", r"\_") for text in row.cells()]
        if row in best:
            texts[5] = rf"\textbf{{{texts[5]}}}"
        lines.append(" & ".join(texts) + r" \\")
    return "\n".join([*lines, r"\end{tabular}"]) + "\n"


def _best(rows: Sequence[Row]) -> list[Row]:
    """The row with the highest measured value for each dataset, model and metric."""
    best: dict[tuple[str, str, str], Row] = {}
    for row in rows:
        key = row.dataset, row.model, row.metric
        if row.measured is not None and (key not in best or row.measured > (best[key].measured or 0)):
            best[key] = row
    return list(best.values())


def _figure(value: float | None, digits: int) -> str:
    return "" if value is None else f"{value:.{digits}f}"
