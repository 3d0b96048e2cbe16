"""The page that travels with a model: what it is, what it learned from, how it was measured, what it is not for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from shortlist.data import Split
from shortlist.models import Model

SHOWN = ("ndcg", "recall", "precision", "mrr", "hit_rate")


def model_card(model: Model, config: Mapping[str, Any], metrics: Mapping[str, Any], split: Split) -> str:
    """A model card in Markdown."""
    name = config["model"]["name"]
    by_loss = f", trained by the loss `{config['loss']['name']}`" if "loss" in config else ""
    settings = [
        f"- `{section}.{key}` = {value}"
        for section in ("model", "loss", "optimizer", "training")
        for key, value in config.get(section, {}).items()
        if key != "name"
    ]
    lines = [
        f"# {name}",
        "",
        f"{model.summary} Fitted with Shortlist {config['shortlist']}{by_loss}.",
        *(["", f"Method: {model.citation}."] if model.citation else []),
        "",
        "## What it learned from",
        "",
        f"- Data: `{config.get('data', {}).get('source', 'given in a program')}`",
        f"- {split.train.n_users:,} users, {split.train.n_items:,} items, {split.train.n_pairs:,} pairs for training",
        "",
        "## Settings",
        "",
        *settings,
        f"- seed {config.get('seed', 0)}",
        "",
        "## How good it is",
        "",
        f"On {metrics['users']:,} users with test items ({metrics['skipped_users']:,} without were left out), over the "
        f"whole catalogue, protocol `{config['protocol']}`.",
        "",
        *_table(metrics["test"]),
        "",
        "## Limits",
        "",
        "- It knows only the items it was fitted with; for users without a history its lists say little.",
        "- Offline figures tell how well held-out choices are found again, not what people would do with other lists.",
        "- What was popular in the data is shown more; coverage of the catalogue should be looked at beside accuracy.",
        "",
    ]
    return "\n".join(lines)


def _table(test: Mapping[str, float]) -> list[str]:
    if not test:
        return ["There was nothing to measure it on."]
    ks = sorted({int(name.split("@")[1]) for name in test if "@" in name})
    shown = [metric for metric in SHOWN if any(f"{metric}@{k}" in test for k in ks)]
    rows = [[f"{test[f'{metric}@{k}']:.4f}" for metric in shown] for k in ks]
    return [
        "| K | " + " | ".join(shown) + " |",
        "|---:|" + "---:|" * len(shown),
        *(f"| {k} | {' | '.join(row)} |" for k, row in zip(ks, rows, strict=True)),
    ]
