"""The page of models, made from what they say of themselves: formulas, settings, costs, and when to use which."""

from __future__ import annotations

from collections.abc import Iterable

from shortlist.models import Model, TrainableModel, registry
from shortlist.report.losses import fact_list, markdown, settings_table, table


def models_page(names: Iterable[str] | None = None) -> str:
    """The page in GitHub's Markdown, of some models or of all."""
    known = sorted(registry if names is None else names)
    trained = [name for name in known if issubclass(registry[name], TrainableModel)]
    fitted = [name for name in known if name not in trained]
    parts = ["# Models", _INTRODUCTION, _choice([*trained, *fitted])]
    for title, group in (("Trained by a loss", trained), ("Fitted by themselves", fitted)):
        if group:
            parts += [f"## {title}", *(_section(name, registry[name]) for name in group)]
    return "\n\n".join(parts) + "\n"


_INTRODUCTION = """\
Written by `shortlist models --out` from what the models say of themselves: change them, not this page.

A formula is the score of item $i$ for user $u$; *sim* is the inner product or a cosine, and $e$ are free vectors. The
cost of a model that a loss trains comes on top of the [loss's](losses.md). *Tuned in* says where a search looks."""


def _choice(names: Iterable[str]) -> str:
    """Every model in a line: what it is, and when to use it."""
    rows = [(f"[`{name}`](#{name})", registry[name].summary, registry[name].use) for name in names]
    return table(("model", "what it is", "when to use it"), rows)


def _section(name: str, model: type[Model]) -> str:
    facts = {
        "In one line": f"`{model.formula}`",
        "Loss, if none is named": f"[`{loss}`](losses.md#{loss})" if (loss := _loss(model)) else "",
        "Cost": model.cost,
        "Use it": model.use,
        "Source": model.citation,
    }
    return "\n\n".join([f"### {name}", markdown(model.__doc__), fact_list(facts), *settings_table("model", model)])


def _loss(model: type[Model]) -> str:
    return model.default_loss if issubclass(model, TrainableModel) else ""
