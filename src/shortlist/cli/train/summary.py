"""Summary of a run: its metrics as a table or as JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING

from shortlist.cli.output import echo, print_json, print_table
from shortlist.formatting import MISSING, format_number

if TYPE_CHECKING:
    from shortlist.runs import Run


LEVELS = {
    "shortlist": "test lists leave out validation items too, and users have other numbers of relevant items per part",
    "irbenchmark": "users have other numbers of relevant items per part, and validation items may be in test lists",
}
"""Why validation and test have different levels, by protocol."""


def print_run(run: Run, *, as_json: bool) -> None:
    """Print the metrics of a run."""
    if as_json:
        print_json({"run": str(run.folder), **run.metrics, **({"final": True} if run.is_final else {})})
        return
    test, valid = run.metrics["test"], run.metrics["valid"]
    ks = sorted({int(name.split("@")[1]) for name in test or valid})
    names = [f"{metric}@{k}" for k in ks if k in {run.config.get("k"), 20, *ks[:1]} for metric in ("ndcg", "recall")]
    rows = [
        (name, format_number(test.get(name), missing=MISSING), format_number(valid.get(name), missing=MISSING))
        for name in names
    ]
    name = " with ".join(run.config[part]["name"] for part in ("model", "loss") if part in run.config)
    if rows:
        print_table(["metric", "test", "validation"], rows, title=f"{name} on {run.config['data']['source']}")
    seconds = ", ".join(f"{name} {value:.1f} s" for name, value in run.metrics["seconds"].items())
    echo(f"{_measured(run)}; {seconds}")
    if test and valid:
        echo(f"Validation and test differ in level: {LEVELS[run.protocol]}.")
    if run.is_final:
        epochs = f" for {run.config['final_epochs']} epochs" if "final_epochs" in run.config else ""
        before = "The metrics are of the model before refitting. " if test or valid else ""
        echo(f"{before}The saved model was refitted on all data (train, validation and test){epochs}.")
    if "temperature_search" in run.metrics["seconds"]:
        echo(f"loss.tau {run.config['loss']['tau']:g} was found by short trials on validation")
    echo(f"Run: {run.folder}   Next: shortlist recommend {run.folder} --user ID")


def _measured(run: Run) -> str:
    """How many users were measured on the test part, or that it has none."""
    if not run.metrics["test"]:
        return "Nothing was measured on test: there is no test part"
    return f"{run.metrics['users']:,} users measured ({run.metrics['skipped_users']:,} without test items)"
