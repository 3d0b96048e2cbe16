"""Model cards: description, training data, settings, metrics and limits of a model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from shortlist.formatting import plain
from shortlist.models import Model
from shortlist.tasks import Task

SHOWN = ("ndcg", "recall", "precision", "mrr", "hit_rate")


def model_card(model: Model, config: Mapping[str, Any], metrics: Mapping[str, Any], task: Task) -> str:
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
        "## Training data",
        "",
        f"- Data: `{plain(config.get('data', {}).get('source', 'given in a program')).replace('`', chr(39))}`",
        *(f"- {line}" for line in task.summary()),
        "",
        "## Settings",
        "",
        *settings,
        f"- seed {config.get('seed', 0)}",
        "",
        "## Metrics",
        "",
        f"On {metrics['users']:,} users with test items ({metrics['skipped_users']:,} without were excluded), over the "
        f"full catalogue, protocol `{config['protocol']}`.",
        "",
        *_table(metrics["test"]),
        *_final(config),
        "",
        "## Limits",
        "",
        "- It can only recommend items of its training data, and has little information on users without a history.",
        "- Offline metrics measure how well held-out items are found, not how users would react to other lists.",
        "- Popular items are recommended more often; consider coverage of the catalogue besides accuracy.",
        "",
    ]
    return "\n".join(lines)


def _final(config: Mapping[str, Any]) -> list[str]:
    """What a final run says about its metrics."""
    if not config.get("final"):
        return []
    epochs = f" for {config['final_epochs']} epochs" if "final_epochs" in config else ""
    return [
        "",
        "These are the metrics of the model before it was refitted. The saved model has the same settings and was "
        f"refitted on all data (training, validation and test){epochs}; it cannot be measured on the test part.",
    ]


def _table(test: Mapping[str, float]) -> list[str]:
    if not test:
        return ["There are no test metrics."]
    ks = sorted({int(name.split("@")[1]) for name in test if "@" in name})
    shown = [metric for metric in SHOWN if any(f"{metric}@{k}" in test for k in ks)]
    rows = [[f"{test[f'{metric}@{k}']:.4f}" for metric in shown] for k in ks]
    return [
        "| K | " + " | ".join(shown) + " |",
        "|---:|" + "---:|" * len(shown),
        *(f"| {k} | {' | '.join(row)} |" for k, row in zip(ks, rows, strict=True)),
    ]
