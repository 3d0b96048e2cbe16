"""Learning curves of a run: loss, validation and seconds by epoch."""

from __future__ import annotations

import numpy as np
import polars as pl

from shortlist.report.page import Figure, Section, Table
from shortlist.report.run.run_charts import epochs
from shortlist.report.theme import at_k
from shortlist.runs import Run, read_log


def learning_section(run: Run) -> Section:
    """Loss, validation and seconds by epoch."""
    title, log = "Learning", [line for line in read_log(run.folder) if {"loss", "seconds"} <= line.keys()]
    if not log and "loss" in run.config:
        return Section(title, ["The log of the run has no epochs."])
    if not log:
        return Section(title, [f"{run.config['model']['name']} is fitted without epochs."])
    kept, last = int(run.metrics.get("epochs") or 0) or None, int(log[-1]["epoch"])
    loss = pl.DataFrame({"epoch": [line["epoch"] for line in log], "value": [line["loss"] for line in log]})
    measured = [(line["epoch"], name, line[name]) for line in log for name in line if name.startswith("valid ")]
    before = [0.0, *(line["seconds"] for line in log[:-1])]
    took = [line["seconds"] - earlier for line, earlier in zip(log, before, strict=True)]
    seconds = pl.DataFrame({"epoch": loss["epoch"], "value": took})
    figures = [
        Figure(
            "Loss",
            epochs(loss, title="loss on training", last=last, kept=kept),
            "The mean loss of each epoch. It should fall fast at first and then slowly; if it rises or jumps, the "
            "learning rate is too high. The dashed line is the epoch whose parameters were kept.",
            f"The loss goes from {log[0]['loss']:.4f} in epoch {log[0]['epoch']} to {log[-1]['loss']:.4f} in epoch "
            f"{log[-1]['epoch']}.",
        )
    ]
    texts = []
    if measured:
        name = at_k(measured[0][1].removeprefix("valid "), run.config.get("k"))
        values = pl.DataFrame({"epoch": [each[0] for each in measured], "value": [each[2] for each in measured]})
        best = max(measured, key=lambda each: float(each[2]))
        figures.append(
            Figure(
                "Validation",
                epochs(values, title=f"{name} on validation", last=last, kept=kept),
                "The metric that decides which epoch is kept. A good curve levels off before the end; one that still "
                "rises needs more epochs, one that falls while the loss keeps falling is overfitting.",
                f"The highest {name} on validation is {best[2]:.4f}, in epoch {best[0]}.",
                Table(
                    ["epoch", name],
                    [[str(epoch), f"{value:.4f}"] for epoch, _, value in measured],
                    numbers=["epoch", name],
                ),
            )
        )
    else:
        texts.append("There is no validation part: the last epoch was kept.")
    figures.append(
        Figure(
            "Seconds",
            epochs(seconds, title="seconds of an epoch", last=last, zero=True),
            "The time of each epoch, without validation. It is constant on an idle machine; epochs that refresh "
            "thresholds take a little longer.",
            f"An epoch took {np.mean(took):.2f} seconds in the mean, {max(took):.2f} at most.",
        )
    )
    return Section(title, texts, figures=figures)
