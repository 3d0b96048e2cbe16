"""`shortlist models`: what can be fitted."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from shortlist.cli.output import AsJson, print_json, print_table
from shortlist.cli.registered import parameter_facts, print_parameters


def models(
    name: Annotated[str | None, typer.Argument(metavar="[NAME]", help="One of them, with its settings.")] = None,
    out: Annotated[Path | None, typer.Option("--out", metavar="PAGE.md", help="Write all as a page.")] = None,
    as_json: AsJson = False,
) -> None:
    """List the models, or tell all about one: formula, cost, when to use it, settings.

    [bold]Examples[/bold]

    shortlist models

    shortlist models ease

    shortlist models --out models.md
    """
    from shortlist.models import registry

    if out is not None:
        _write(out, name)
        return
    if name is None:
        if as_json:
            print_json({"models": {each: _facts(each) for each in registry}})
        else:
            rows = [(each, _learns(each), registry[each].summary) for each in sorted(registry)]
            print_table(["model", "learns", "what it does"], rows)
        return
    facts = _facts(name)
    if as_json:
        print_json({"name": name, **facts})
        return
    print(f"{name}: {facts['formula']}\n{facts['summary']}")
    learns = f"{facts['learns']}, {facts['loss']} if none is named" if facts["loss"] else facts["learns"]
    print(f"learns {learns}" + (f"; {facts['citation']}" if facts["citation"] else ""))
    for key, fact in {"cost": facts["cost"], "use it": facts["use"]}.items():
        if fact:
            print(f"{key}: {fact}")
    print_parameters("model", registry[name])


def _write(out: Path, name: str | None) -> None:
    """A page of all models, or of one."""
    from shortlist.cli.files import check_out, write_whole
    from shortlist.report.models import models_page

    check_out(out, [".md"])
    write_whole(out, models_page(None if name is None else [name]).encode())
    print(f"Page: {out}")


def _learns(name: str) -> str:
    from shortlist.models import Trained, registry

    return "by a loss" if issubclass(registry[name], Trained) else "by itself"


def _facts(name: str) -> dict[str, Any]:
    from shortlist.models import Trained, registry

    model = registry[name]
    return {
        "summary": model.summary,
        "formula": model.formula,
        "learns": _learns(name),
        "loss": model.default_loss if issubclass(model, Trained) else None,
        "citation": model.citation,
        "cost": model.cost,
        "use": model.use,
        "parameters": parameter_facts(model),
    }
