"""The page of losses, made from what they say of themselves: formulas, settings, costs, and pictures of kernels."""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from inspect import Parameter, signature
from typing import Any

import polars as pl
import torch

from shortlist.errors import ShortlistError
from shortlist.losses import Loss, registry
from shortlist.losses.families import Family, against, families, summary
from shortlist.parameters import Configured
from shortlist.report.charts import for_file, functions
from shortlist.scores import Kernel

REACH, STEPS = 3.0, 120
"""Kernels are drawn from −3 to 3, at this many points and one more."""

HIGHEST = 5.0
"""What lies farther from 0 than this is left out of a picture."""


def losses_page(pictures: str, names: Iterable[str] | None = None) -> str:
    """The page in GitHub's Markdown, of some losses or of all; ``pictures`` is the folder they are found in."""
    known = families(names)
    parts = ["# Losses", _INTRODUCTION, _choice(known)]
    for family in known:
        parts.append(f"## {family.title}")
        if family.about:
            parts.append(family.about[:1].upper() + family.about[1:])
        parts += [_section(name, registry[name]) for name in family.losses]
    parts.append("## Kernels")
    parts.append(_KERNELS)
    parts += [_kernel(kernel, pictures) for kernel in kernels_of(known)]
    return "\n\n".join(parts) + "\n"


def kernel_pictures(names: Iterable[str] | None = None) -> dict[str, str]:
    """The pictures of the page by the names of their files, as SVG."""
    return {_file(kernel): for_file(functions(_drawn(made(kernel)), REACH)) for kernel in kernels_of(families(names))}


_INTRODUCTION = """\
Written by `shortlist losses --out` from what the losses say of themselves: change them, not this page.

A formula is the loss of one positive $i$ of user $u$; the value of a step is the mean over its positives. $s_{ui}$ is a
score, $P_u$ and $N_u$ are the user's positives and negatives, $\\sigma$ is the sigmoid. *Tuned in* says where a search
looks."""

_KERNELS = """\
Functions of one score difference $x = s_{uj} - s_{ui}$ (of one score, where a loss is pointwise) that losses sum over
the negatives: $\\varphi$ and its slope $\\varphi'$, which is how hard a negative at that distance is pushed."""


def _choice(known: Sequence[Family]) -> str:
    """Every loss in a line: what it is for, and when to use it."""
    rows = [
        (f"[`{name}`](#{name})", registry[name].target, registry[name].use, registry[name].cost)
        for family in known
        for name in family.losses
    ]
    return table(("loss", "made for", "when to use it", "cost"), rows)


def _section(name: str, loss: type[Loss]) -> str:
    facts = {
        "In one line": f"`{loss.formula}`",
        "Made for": loss.target,
        "Scores": loss.similarity.replace("_", "-"),
        "Against a positive": against(loss),
        "Cost": loss.cost,
        "Use it": loss.use,
        "Where training collapses": f"try {loss.collapse_hint}" if loss.collapse_hint else "",
        "Source": loss.citation,
    }
    parts = [f"### {name}", markdown(loss.__doc__)]
    return "\n\n".join([*parts, fact_list(facts), *settings_table("loss", loss)])


def _kernel(kernel: type[Kernel], pictures: str) -> str:
    settings = ", ".join(f"{key} = {value:g}" for key, value in _settings(made(kernel)).items())
    parts = [f"### {kernel.__name__}", summary(kernel), f"![{kernel.__name__}]({pictures}/{_file(kernel)})"]
    return "\n\n".join([*parts, f"Drawn with {settings}."] if settings else parts)


def fact_list(facts: Mapping[str, str]) -> str:
    """A list of what is known; what is empty is left out."""
    return "\n".join(f"- **{key}**: {value}" for key, value in facts.items() if value)


def settings_table(section: str, registered: type[Configured]) -> list[str]:
    """A table of all settings; nothing where there is nothing to set."""
    rows = [
        (
            f"`{section}.{key}`",
            f"`{'none' if each.default is None else each.default}`",
            each.allowed(),
            str(each.search or ""),
            each.help,
        )
        for key, each in registered.declared.items()
    ]
    return [table(("setting", "default", "allowed", "tuned in", "meaning"), rows)] if rows else []


def table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table in Markdown."""
    lines = [columns, ["---"] * len(columns), *([cell.replace("|", "\\|") for cell in row] for row in rows)]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


# ----------------------------------------------------------------------------------------------------------- docstrings


def markdown(docstring: str | None) -> str:
    r"""A docstring as GitHub's Markdown: formulas, code and examples in its own notation.

    >>> print(markdown(":math:`x^2`, as ``f`` of :class:`~a.b.Kernel` says::"))
    $`x^2`$, as `f` of `Kernel` says::
    """
    blocks = re.split(r"\n\s*\n(?=\S)", inspect.cleandoc(docstring or ""))
    return "\n\n".join(_block(block) for block in blocks)


def _block(block: str) -> str:
    if block.startswith(">>> "):
        return f"```python\n{block}\n```"
    if block.startswith(".. math::"):
        formulas = re.split(r"\n\s*\n", inspect.cleandoc(block.removeprefix(".. math::")).strip())
        return "\n\n".join(f"```math\n{inspect.cleandoc(formula)}\n```" for formula in formulas)
    block = re.sub(r":math:`([^`]*)`", r"$\\0\1\\0$", block)
    block = re.sub(r":\w+:`~?(?:[\w.]*\.)?(\w+)`", r"`\1`", block)
    return block.replace("``", "`").replace("\\0", "`")


# -------------------------------------------------------------------------------------------------------------- kernels


def kernels_of(known: Iterable[Family]) -> list[type[Kernel]]:
    """The kernels that stand in the same packages as these losses, by name.

    Left out are those that are made of another kernel, and those that a loss keeps to itself with an underscore: they
    need not be functions of one difference alone.
    """
    packages = {registry[name].__module__.partition(".")[0] for family in known for name in family.losses}
    found = {kernel for kernel in _below(Kernel) if kernel.__module__.partition(".")[0] in packages}
    drawable = [kernel for kernel in found if not inspect.isabstract(kernel) and not _takes(kernel, "Kernel")]
    return sorted((each for each in drawable if not each.__name__.startswith("_")), key=lambda each: each.__name__)


def _below(cls: type[Any]) -> Iterator[type[Kernel]]:
    for each in cls.__subclasses__():
        yield each
        yield from _below(each)


def _takes(kernel: type[Kernel], kind: str) -> bool:
    return any(_is(each, kind) for each in signature(kernel).parameters.values())


def _is(parameter: Parameter, kind: str) -> bool:
    return kind in re.findall(r"\w+", str(parameter.annotation))


def made(kernel: type[Kernel]) -> Kernel:
    """A kernel to draw: with its defaults, and 1 for what has none."""
    needed = [each for each in signature(kernel).parameters.values() if each.default is Parameter.empty]
    one = torch.tensor(1.0, dtype=torch.float64)
    try:
        return kernel(**{each.name: one if _is(each, "Tensor") else 1.0 for each in needed})
    except Exception as error:
        raise ShortlistError(f"{kernel.__name__}: expected a kernel whose settings may be 1 ({error})") from error


def _settings(kernel: Kernel) -> dict[str, float]:
    """The numbers that a kernel was made with, by name."""
    named = {name: getattr(kernel, name, None) for name in signature(type(kernel)).parameters}
    return {name: float(value) for name, value in named.items() if isinstance(value, int | float | torch.Tensor)}


@torch.no_grad()
def _drawn(kernel: Kernel) -> pl.DataFrame:
    """Value and slope along the axis, rounded: the last digits are not the same on every machine."""
    x = torch.arange(-STEPS // 2, STEPS // 2 + 1, dtype=torch.float64) * (2 * REACH / STEPS)
    curves = {"φ": kernel.value(x.clone())}
    with suppress(NotImplementedError):  # some are only ever summed
        curves["φ′"] = kernel.slope(x.clone())
    rows = [
        {"name": name, "x": round(at, 4), "y": round(y, 4)}
        for name, values in curves.items()
        for at, y in zip(x.tolist(), values.tolist(), strict=True)
        if math.isfinite(y) and abs(y) <= HIGHEST
    ]
    return pl.DataFrame(rows)


def _file(kernel: type[Kernel]) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "-", kernel.__name__).lower() + ".svg"
