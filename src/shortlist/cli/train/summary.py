"""Summary of a run: its metrics as a table or as JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING

from shortlist.cli.output import print_json, print_table
from shortlist.formatting import MISSING, format_number

if TYPE_CHECKING:
    from shortlist.runs import Run


def print_run(run: Run, *, as_json: bool) -> None:
    """Print the metrics of a run."""
    if as_json:
        print_json({"run": str(run.folder), **run.metrics})
        return
    test, valid = run.metrics["test"], run.metrics["valid"]
    ks = sorted({int(name.split("@")[1]) for name in test or valid})
    names = [f"{metric}@{k}" for k in ks if k in {run.config.get("k"), 20, *ks[:1]} for metric in ("ndcg", "recall")]
    rows = [
        (name, format_number(test.get(name), missing=MISSING), format_number(valid.get(name), missing=MISSING))
        for name in names
    ]
    name = " with ".join(run.config[part]["name"] for part in ("model", "loss") if part in run.config)
    print_table(["metric", "test", "validation"], rows, title=f"{name} on {run.config['data']['source']}")
    seconds = ", ".join(f"{name} {value:.1f} s" for name, value in run.metrics["seconds"].items())
    print(f"{run.metrics['users']:,} users measured ({run.metrics['skipped_users']:,} without test items); {seconds}")
    if "temperature_search" in run.metrics["seconds"]:
        print(f"loss.tau {run.config['loss']['tau']:g} was found by short trials on validation")
    print(f"Run: {run.folder}   Next: shortlist recommend {run.folder} --user ID")
