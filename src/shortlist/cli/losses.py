"""`shortlist losses`: the registered losses."""

from __future__ import annotations

import sys
from pathlib import Path
from shutil import get_terminal_size
from textwrap import fill
from typing import Annotated, Any

import typer

from shortlist.cli.describe import Name, parameter_facts, print_description, print_parameters
from shortlist.cli.output import AsJson, echo, print_json
from shortlist.progress import progress_bar

NARROW = 80
"""Width of the output if stdout is not a terminal."""


def losses(
    name: Name = None,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="PAGE.md", help="Write a page of all losses, with charts.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """List the losses by family, or describe one: formula, cost, when to use it, settings.

    [bold]Examples[/bold]

    shortlist losses

    shortlist losses slatk

    shortlist losses infonce

    shortlist losses --out losses.md
    """
    from shortlist.losses import registry

    name = None if name is None else registry.resolve(name)
    if out is not None:
        _write(out, name, as_json)
    else:
        print_description("losses", registry, name, as_json, facts=_facts, print_one=_print, print_all=_list)


def _facts(name: str) -> dict[str, Any]:
    """The description of a loss, for JSON."""
    from shortlist.losses import registry
    from shortlist.losses.families import family_name, summary

    loss = registry[name]
    return {
        "family": family_name(loss),
        "summary": summary(loss),
        "aliases": list(vars(loss).get("aliases", ())),
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


def _print(name: str) -> None:
    """Print the description of a loss."""
    from shortlist.losses import registry
    from shortlist.losses.families import against, summary

    loss = registry[name]
    print(_wrapped(f"{name}: {summary(loss)}") + "\n")
    facts = {
        "formula": loss.formula,
        "aliases": ", ".join(vars(loss).get("aliases", ())),
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
            print(_wrapped(value, f"  {key:11}"))
    print("\nOf a positive i of user u; j runs over the items that stand against it.\n")
    print_parameters("loss", loss, width=NARROW)


def _list() -> None:
    """Print every family with its losses: target and formula."""
    from shortlist.losses import registry
    from shortlist.losses.families import families

    known = families()
    margin = 4 + max(len(name) for family in known for name in family.losses)
    for family in known:
        print(_wrapped(f"{family.title}: {family.about}" if family.about else family.title))
        for name in family.losses:
            print(_wrapped(registry[name].target, f"  {name}".ljust(margin)))
            print(_wrapped(registry[name].formula, " " * margin))
        print()
    print("Below each target the loss of a positive i of user u; j runs over the items")
    print("that stand against it.   Next: shortlist losses NAME")


def _write(out: Path, name: str | None, as_json: bool) -> None:
    """Write a page of all losses, or of one, and a folder of the same name with charts of the kernels."""
    from shortlist.cli.files import check_out, write_file
    from shortlist.report.losses import kernel_pictures, losses_page

    check_out(out, [".md"])
    names, place = None if name is None else [name], out.with_suffix("")
    with progress_bar("writing the report"):
        page, pictures = losses_page(out.stem, names), kernel_pictures(names)
        place.mkdir(exist_ok=True)
        for file, svg in pictures.items():
            write_file(place / file, svg.encode())
        write_file(out, page.encode())
    if as_json:
        print_json({"page": str(out), "pictures": {"folder": str(place), "count": len(pictures)}})
    else:
        echo(f"Page: {out}, with {len(pictures)} pictures in {place}")


def _wrapped(text: str, start: str = "") -> str:
    """Wrap a text; continuation lines are indented to the first."""
    columns = get_terminal_size().columns if sys.stdout.isatty() else NARROW
    return fill(text, max(40, columns), initial_indent=start, subsequent_indent=" " * len(start))
