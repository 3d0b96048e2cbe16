"""The report of a run: training, metrics, and the distributions of scores, weights and gradients."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from shortlist.data import LoadOptions
from shortlist.losses import registry as losses
from shortlist.models import registry as models
from shortlist.parameters import Configured
from shortlist.report.page import Cell, Page, Section, Table
from shortlist.report.run.breakdown import breakdown_section
from shortlist.report.run.context import SHOWN, Subject
from shortlist.report.run.examples import examples_section
from shortlist.report.run.learning import learning_section
from shortlist.report.run.metric_sections import every_section, lengths_section, results_section, validation
from shortlist.report.run.scores import gradient_section, threshold_section, weight_section
from shortlist.runs import Run
from shortlist.training import OptimizerSettings, TrainingSettings

Stage = Callable[[str], None]
"""Called with the label of each stage."""


def run_page(run: Run, titles: Mapping[str, str], *, seed: int = 0, stage: Stage = lambda label: None) -> Page:
    """Build the report of a run. A section without content states the reason."""
    subject = Subject(run, titles, seed)
    stage("evaluating")
    valid = validation(subject)
    sections = [
        _head(subject),
        results_section(subject, valid),
        lengths_section(subject, valid),
        learning_section(run),
        breakdown_section(subject),
    ]
    stage("analysing scores")
    sections += [threshold_section(subject), weight_section(subject)]
    stage("analysing gradients")
    sections += [gradient_section(subject)]
    stage("ranking")
    sections += [examples_section(subject), every_section(subject, valid), _settings(run)]
    name = run.config["model"]["name"] + (f" with {run.config['loss']['name']}" if "loss" in run.config else "")
    return Page(f"{name} on {_source(run)}", _lead(subject), sections)


def _source(run: Run) -> str:
    return str(run.config.get("data", {}).get("source", "data of a program"))


def _lead(subject: Subject) -> str:
    test, k, name = subject.run.metrics["test"], subject.k, subject.run.name
    means = {f"{label}@{k}": test.get(f"{metric}@{k}") for metric, label in SHOWN.items()}
    reached = [f"{label} {mean:.4f}" for label, mean in means.items() if mean is not None]
    return f"The run {name}: {', '.join(reached[:2])} on test." if reached else f"The run {name}."


def _head(subject: Subject) -> Section:
    run, train = subject.run, subject.split.train
    config, seconds = run.config, run.metrics.get("seconds", {})
    parts = {"training": train, "validation": subject.split.valid, "test": subject.split.test}
    pairs = ", ".join(f"{part.n_pairs:,} for {name}" for name, part in parts.items() if part is not None)
    rows = {
        "model": f"{config['model']['name']}: {models[config['model']['name']].summary}",
        "loss": subject.loss if isinstance(subject.loss, str) else f"{config['loss']['name']}: {subject.loss.formula}",
        "K": f"{config['k']}" if "k" in config else "",
        "data": _source(run),
        "size": f"{train.n_users:,} users × {train.n_items:,} items; pairs: {pairs}",
        "protocol": run.protocol,
        "seed": str(config.get("seed", "")),
        "epochs": f"{run.metrics['epochs']} kept" if run.metrics.get("epochs") else "",
        "seconds": ", ".join(f"{name} {value:.1f}" for name, value in seconds.items()),
        "written by": f"Shortlist {config.get('shortlist', '')}",
    }
    return Section("Training", tables=[Table(["", " "], [[key, text] for key, text in rows.items() if text])])


def _settings(run: Run) -> Section:
    """All settings; those that differ from the default are marked."""
    owners: dict[str, type[Configured]] = {
        "data": LoadOptions,
        "optimizer": OptimizerSettings,
        "training": TrainingSettings,
        "model": models[run.config["model"]["name"]],
    }
    if "loss" in run.config and run.config["loss"]["name"] in losses:
        owners["loss"] = losses[run.config["loss"]["name"]]
    rows: list[list[Cell | str]] = []
    for section in ("data", "model", "loss", "optimizer", "training"):
        for key, value in run.config.get(section, {}).items():
            if key in ("name", "source"):
                continue
            known = owners[section].declared.get(key) if section in owners else None
            text = "none" if value is None else str(value)
            is_changed = known is not None and value != known.default
            rows.append([f"{section}.{key}", Cell(text, is_changed), "" if known is None else known.help])
    table = Table(["setting", "value", "meaning"], rows, live=True)
    return Section("Settings", ["Values that differ from the defaults are marked."], [table])
