"""`shortlist models`: what can be fitted."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from shortlist.cli.output import AsJson, print_json, print_table
from shortlist.cli.registered import parameter_facts, print_parameters


def models(
    name: Annotated[str | None, typer.Argument(metavar="[NAME]", help="One of them, with its settings.")] = None,
    as_json: AsJson = False,
) -> None:
    """List the models, or the formula and settings of one.

    [bold]Examples[/bold]

    shortlist models

    shortlist models ease
    """
    from shortlist.models import registry

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
    print_parameters("model", registry[name])


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
        "parameters": parameter_facts(model),
    }
