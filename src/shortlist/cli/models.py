"""`shortlist models`: the registered models."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from shortlist.cli.describe import Name, parameter_facts, print_description, print_parameters
from shortlist.cli.output import AsJson, echo, print_json, print_table


def models(
    name: Name = None,
    out: Annotated[Path | None, typer.Option("--out", metavar="PAGE.md", help="Write a page of all models.")] = None,
    as_json: AsJson = False,
) -> None:
    """List the models, or describe one: formula, cost, when to use it, settings.

    [bold]Examples[/bold]

    shortlist models

    shortlist models ease

    shortlist models --out models.md
    """
    from shortlist.models import registry

    if out is not None:
        _write(out, name, as_json)
    else:
        print_description("models", registry, name, as_json, facts=_facts, print_one=_print, print_all=_list)


def _print(name: str) -> None:
    """Print the description of a model."""
    from shortlist.models import registry

    facts = _facts(name)
    print(f"{name}: {facts['formula']}\n{facts['summary']}")
    learns = f"{facts['learns']}, {facts['loss']} if none is named" if facts["loss"] else facts["learns"]
    print(f"learns {learns}" + (f"; {facts['citation']}" if facts["citation"] else ""))
    for key, fact in {"cost": facts["cost"], "use it": facts["use"]}.items():
        if fact:
            print(f"{key}: {fact}")
    print_parameters("model", registry[name])


def _list() -> None:
    """Print one line per model."""
    from shortlist.models import registry

    rows = [(each, _learns(each), registry[each].summary) for each in sorted(registry)]
    print_table(["model", "learns", "what it does"], rows)


def _write(out: Path, name: str | None, as_json: bool) -> None:
    """Write a page of all models, or of one."""
    from shortlist.cli.files import check_out, write_file
    from shortlist.report.models import models_page

    check_out(out, [".md"])
    write_file(out, models_page(None if name is None else [name]).encode())
    if as_json:
        print_json({"page": str(out)})
    else:
        echo(f"Page: {out}")


def _learns(name: str) -> str:
    from shortlist.models import TrainableModel, registry

    return "by a loss" if issubclass(registry[name], TrainableModel) else "by itself"


def _facts(name: str) -> dict[str, Any]:
    from shortlist.models import TrainableModel, registry

    model = registry[name]
    return {
        "summary": model.summary,
        "formula": model.formula,
        "learns": _learns(name),
        "loss": model.default_loss if issubclass(model, TrainableModel) else None,
        "citation": model.citation,
        "cost": model.cost,
        "use": model.use,
        "parameters": parameter_facts(model),
    }
