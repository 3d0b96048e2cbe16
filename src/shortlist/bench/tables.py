"""Tables of results in Markdown, CSV and LaTeX, with notes."""

from __future__ import annotations

import re
from collections.abc import Sequence

import polars as pl

from shortlist.bench.results import HEAD, MEASURED, NUMBERS, Row
from shortlist.formatting import plain
from shortlist.metrics import SIGNIFICANCE

MANY = 8
"""Maximum number of places that a note names; more are counted."""

LEGEND = (
    "measured: mean over seeds; deviation: standard deviation over seeds; ratio: measured / published; p: the best "
    "against this row (Student's paired t over users, Holm); valid: the same metric on validation, mean over seeds. "
    "Bold: best of its dataset and model; underlined: best of the rows it is compared with; *: better than every "
    f"other row, p < {SIGNIFICANCE}. Rows with failed or missing seeds are not compared."
)


def to_markdown(rows: Sequence[Row]) -> str:
    """The table in Markdown.

    >>> row = Row("health", "mf", "sl", "", "ndcg@20", 0.1261, {0: 0.126, 1: 0.128}, 2.0, is_best=True)
    >>> print(to_markdown([row]).splitlines()[2])
    | health | mf | sl | ndcg@20 | 0.1261 | **0.1270** | 0.0014 | 1.007 |  |  | 2 | 2.0 |
    """
    lines = ["| " + " | ".join(HEAD) + " |", "|" + "---|" * (len(HEAD) - len(NUMBERS)) + "---:|" * len(NUMBERS)]
    for row in rows:
        texts = [_markdown(text) for text in row.texts()]
        if row.is_best_baseline:
            texts[MEASURED] = f"<u>{texts[MEASURED]}</u>"
        if row.is_best:
            texts[MEASURED] = f"**{texts[MEASURED]}**"
        lines.append("| " + " | ".join(texts) + " |")
    failures = [f"- {without_html(text)}" for text in why_failed(rows)]
    notes = [word for note in notes_of(rows) for word in ("", without_html(note).replace("*", r"\*"))]
    return "\n".join([*lines, *notes, *(["", "Failed:", "", *failures] if failures else [])]) + "\n"


def to_csv(rows: Sequence[Row]) -> str:
    """The table in CSV, with all digits and the value of every seed."""
    records = [{**row.as_json(), "failures": "; ".join(_why(row)), "values": " ".join(map(repr, row.values.values())),
                "versions": " ".join(row.versions), "seeds": " ".join(map(str, row.values))}
               for row in rows]  # fmt: skip
    return without_formulas(pl.DataFrame(records, infer_schema_length=None)).write_csv()


def without_formulas(table: pl.DataFrame) -> pl.DataFrame:
    """A table whose texts no spreadsheet takes for formulas: those that begin as one get an apostrophe before them.

    >>> without_formulas(pl.DataFrame({"loss": ["=1+1", "sl", "-0.5"]}))["loss"].to_list()
    ["'=1+1", 'sl', '-0.5']
    """
    text = pl.col(pl.String)
    is_formula = text.str.contains(r"^[=+\-@\t\r\n]") & text.cast(pl.Float64, strict=False).is_null()
    return table.with_columns(pl.when(is_formula).then("'" + text).otherwise(text).name.keep())


def without_html(text: str) -> str:
    """A text for Markdown in one line and without HTML.

    >>> without_html("<b>\\nx")
    '&lt;b> x'
    """
    return re.sub("<(?=[A-Za-z/!?])", "&lt;", plain(" ".join(text.split("\n"))))


def _markdown(text: str) -> str:
    """A cell of a Markdown table."""
    for sign in "|*[]`":
        text = text.replace(sign, f"\\{sign}")
    return without_html(text)


def to_latex(rows: Sequence[Row]) -> str:
    """The table as a LaTeX ``tabular``."""
    columns = "l" * (len(HEAD) - len(NUMBERS)) + "r" * len(NUMBERS)
    lines = [rf"\begin{{tabular}}{{{columns}}}", r"\hline", " & ".join(HEAD) + r" \\", r"\hline"]
    for row in rows:
        texts = [_latex(text) for text in row.texts()]
        if row.is_best_baseline:
            texts[MEASURED] = rf"\underline{{{texts[MEASURED]}}}"
        if row.is_best:
            texts[MEASURED] = rf"\textbf{{{texts[MEASURED]}}}"
        lines.append(" & ".join(texts) + r" \\")
    comments = [*notes_of(rows), *(f"Failed: {text}" for text in why_failed(rows))]
    return "\n".join([*lines, r"\hline", r"\end{tabular}", *(f"% {plain(comment)}" for comment in comments)]) + "\n"


def notes_of(rows: Sequence[Row]) -> list[str]:
    """Notes below the table: the legend, and the versions of the library if there are several.

    >>> from dataclasses import replace
    >>> old = Row("health", "mf", "sl", "", "ndcg@20", None, {0: 0.126}, 2.0, versions=("0.1.0",))
    >>> notes_of([old, replace(old, loss="slatk", versions=("0.2.0",))])[1]
    'Trained by several versions of Shortlist: 0.1.0 (health mf sl), 0.2.0 (health mf slatk).'
    """
    places: dict[str, dict[str, None]] = {}
    for row in rows:
        for version in row.versions:
            places.setdefault(version, {})[row.place] = None
    if len(places) < 2:
        return [LEGEND]
    versions = [f"{version} ({', '.join(names) if len(names) <= MANY else f'{len(names)} places'})"
            for version, names in sorted(places.items())]  # fmt: skip
    return [LEGEND, f"Trained by several versions of Shortlist: {', '.join(versions)}."]


def why_failed(rows: Sequence[Row]) -> list[str]:
    """Reasons of failures: each reason of a place once, with its seeds.

    >>> from dataclasses import replace
    >>> row = Row("health", "mf", "sl", "", "ndcg@20", None, {}, 0.0, {0: "it fell", 1: "no room", 2: "it fell"})
    >>> why_failed([row, replace(row, metric="recall@20")])
    ['health mf sl seed 0, 2: it fell', 'health mf sl seed 1: no room']
    """
    return list(dict.fromkeys(f"{row.place} {text}" for row in rows for text in _why(row)))


def _why(row: Row) -> list[str]:
    return [f"seed {', '.join(map(str, seeds))}: {reason}" for reason, seeds in row.reasons.items()]


_GREEK = {
    "α": "alpha", "β": "beta", "γ": "gamma", "δ": "delta", "ε": "varepsilon", "ζ": "zeta", "η": "eta", "θ": "theta",
    "ι": "iota", "κ": "kappa", "λ": "lambda", "μ": "mu", "ν": "nu", "ξ": "xi", "π": "pi", "ρ": "rho", "σ": "sigma",
    "ς": "varsigma", "τ": "tau", "υ": "upsilon", "φ": "varphi", "χ": "chi", "ψ": "psi", "ω": "omega",
    "Γ": "Gamma", "Δ": "Delta", "Θ": "Theta", "Λ": "Lambda", "Ξ": "Xi", "Π": "Pi", "Σ": "Sigma", "Υ": "Upsilon",
    "Φ": "Phi", "Ψ": "Psi", "Ω": "Omega",
}  # fmt: skip
"""Greek letters with LaTeX commands: the others look like Latin letters."""

_LATEX = {**{sign: f"\\{sign}" for sign in "&%$#_{}"}, "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
          "\\": r"\textbackslash{}", "*": "$^{*}$", "<": "$<$", ">": "$>$",
          **{letter: rf"$\{name}$" for letter, name in _GREEK.items()}}  # fmt: skip


def _latex(text: str) -> str:
    return "".join(_LATEX.get(sign, sign) for sign in text)
