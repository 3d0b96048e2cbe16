"""`shortlist losses`: what a model can be trained with."""

from __future__ import annotations

from typing import Annotated

import typer

from shortlist.cli.output import AsJson, print_json, print_table
from shortlist.cli.registered import parameter_facts, print_parameters


def losses(
    name: Annotated[str | None, typer.Argument(metavar="[NAME]", help="One of them, with its settings.")] = None,
    as_json: AsJson = False,
) -> None:
    """List the losses, or the formula and settings of one.

    [bold]Examples[/bold]

    shortlist losses

    shortlist losses slatk
    """
    from shortlist.losses import registry

    def facts(each: str) -> dict[str, object]:
        loss = registry[each]
        return {
            "formula": loss.formula,
            "target": loss.target,
            "citation": loss.citation,
            "similarity": loss.similarity,
            "parameters": parameter_facts(loss),
        }

    if name is not None:
        chosen = facts(name)
        if as_json:
            print_json({"name": name, **chosen})
            return
        print(f"{name}: {chosen['formula']}")
        print(f"made for {chosen['target']}; scores by {chosen['similarity']}; {chosen['citation']}")
        print_parameters("loss", registry[name])
    elif as_json:
        print_json({"losses": {each: facts(each) for each in registry}})
    else:
        rows = [(each, registry[each].formula, registry[each].target) for each in sorted(registry)]
        print_table(["loss", "of a positive i", "made for"], rows)
