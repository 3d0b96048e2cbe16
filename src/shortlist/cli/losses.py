"""`shortlist losses`: what a model can be trained with."""

from __future__ import annotations

import sys
from pathlib import Path
from shutil import get_terminal_size
from textwrap import fill
from typing import Annotated, Any

import typer

from shortlist.cli.describe import Name, answer, parameter_facts, print_parameters
from shortlist.cli.output import AsJson, print_json, step

NARROW = 80
"""Columns that everything fits in where no terminal says how many it has."""


def losses(
    name: Name = None,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="PAGE.md", help="Write all as a page, with pictures.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """List the losses by family, or tell all about one: formula, cost, when to use it, settings.

    [bold]Examples[/bold]

    shortlist losses

    shortlist losses slatk

    shortlist losses --out losses.md
    """
    from shortlist.losses import registry

    if out is not None:
        _write(out, name, as_json)
    else:
        answer("losses", registry, name, as_json, facts=_facts, tell=_tell, tell_all=_list)


def _facts(name: str) -> dict[str, Any]:
    """All that a loss says of itself, for programs."""
    from shortlist.losses import registry
    from shortlist.losses.families import family_name, summary

    loss = registry[name]
    return {
        "family": family_name(loss),
        "summary": summary(loss),
        "formula": loss.formula,
        "target": loss.target,
        "citation": loss.citation,
        "similarity": loss.similarity,
        "sampled": loss.sampled,
        "cost": loss.cost,
        "use": loss.use,
        "collapse_hint": loss.collapse_hint,
        "parameters": parameter_facts(loss),
    }


def _tell(name: str) -> None:
    """The same for people."""
    from shortlist.losses import registry
    from shortlist.losses.families import against, summary

    loss = registry[name]
    print(_filled(f"{name}: {summary(loss)}") + "\n")
    facts = {
        "formula": loss.formula,
        "made for": loss.target,
        "scores": loss.similarity.replace("_", "-"),
        "candidates": against(loss),
        "cost": loss.cost,
        "use it": loss.use,
        "collapsed?": f"try {loss.collapse_hint}" if loss.collapse_hint else "",
        "source": loss.citation,
    }
    for key, value in facts.items():
        if value:
            print(_filled(value, f"  {key:11}"))
    print("\nOf a positive i of user u; j runs over the items that stand against it.\n")
    print_parameters("loss", loss, width=NARROW)


def _list() -> None:
    """Every family with its losses: what each is made for, and its formula."""
    from shortlist.losses import registry
    from shortlist.losses.families import families

    known = families()
    margin = 4 + max(len(name) for family in known for name in family.losses)
    for family in known:
        print(_filled(f"{family.title}: {family.about}" if family.about else family.title))
        for name in family.losses:
            print(_filled(registry[name].target, f"  {name}".ljust(margin)))
            print(_filled(registry[name].formula, " " * margin))
        print()
    print("Below each target the loss of a positive i of user u; j runs over the items")
    print("that stand against it.   Next: shortlist losses NAME")


def _write(out: Path, name: str | None, as_json: bool) -> None:
    """A page of all losses, or of one, and a folder of the same name with the pictures of their kernels."""
    from shortlist.cli.files import check_out, write_whole
    from shortlist.report.losses import kernel_pictures, losses_page

    check_out(out, [".md"])
    names, place = None if name is None else [name], out.with_suffix("")
    with step("drawing"):
        page, pictures = losses_page(out.stem, names), kernel_pictures(names)
        place.mkdir(exist_ok=True)
        for file, svg in pictures.items():
            write_whole(place / file, svg.encode())
        write_whole(out, page.encode())
    if as_json:
        print_json({"page": str(out), "pictures": {"folder": str(place), "count": len(pictures)}})
    else:
        print(f"Page: {out}, with {len(pictures)} pictures in {place}")


def _filled(text: str, start: str = "") -> str:
    """The text in lines that fit; those after the first are set under the first one's text."""
    columns = get_terminal_size().columns if sys.stdout.isatty() else NARROW
    return fill(text, max(40, columns), initial_indent=start, subsequent_indent=" " * len(start))
