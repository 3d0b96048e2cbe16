"""`shortlist train`: from a table to a run folder."""

from __future__ import annotations

from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated

import typer

from shortlist.cli.load_flags import load_options, with_load_flags
from shortlist.cli.output import AsJson, print_json, print_table, step
from shortlist.cli.settings import Ks, Set, parse_ks, parse_settings

if TYPE_CHECKING:
    from shortlist.data import Split
    from shortlist.models import Model
    from shortlist.runs import Run


@with_load_flags
def train(
    data: Annotated[str, typer.Argument(metavar="DATA", help="A folder, table, archive or registered name.")],
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="Folder of the run.")],
    flags: dict[str, str],
    model: Annotated[str, typer.Option("--model", help="Which model; `shortlist models` lists them.")] = "ease",
    settings: Set = None,
    ks: Ks = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an earlier run.")] = False,
    as_json: AsJson = False,
) -> None:
    """Fit a model, measure it over the whole catalogue, and write a run folder.

    [bold]Examples[/bold]

    shortlist train clicks.csv --model ease --out runs/ease

    shortlist train ratings.csv --min-rating 4 --core 5 --model item_knn --set model.neighbours=50 --out runs/knn

    shortlist train debian --model ials --seed 1 --out runs/ials --json
    """
    from shortlist.data import load
    from shortlist.models import registry
    from shortlist.runs import check_target, evaluate_split, write_run

    options = load_options(flags)
    fresh = registry[model].from_text(parse_settings(settings)["model"])
    lengths = parse_ks(ks)
    check_target(out, overwrite=overwrite)
    clock = Clock()
    with step(f"reading {data}"):
        split = load(data, options)
    clock.lap("load")
    with step(f"fitting {model}"):
        fit(fresh, split, options.seed)
    clock.lap("train")
    with step("evaluating") as report:
        evaluations = evaluate_split(fresh, split, protocol=options.protocol, ks=lengths, progress=report)
    clock.lap("evaluate")
    with step(f"writing {out}"):
        run = write_run(
            out,
            model=fresh,
            name=model,
            split=split,
            evaluations=evaluations,
            config={
                "data": {"source": data, **options.settings()},
                "protocol": options.protocol,
                "seed": options.seed,
            },
            seconds=clock.seconds,
            log=[{"event": event, "seconds": seconds} for event, seconds in clock.seconds.items()],
            overwrite=overwrite,
        )
    _tell(run, as_json)


def fit(model: Model, split: Split, seed: int) -> None:
    """Let the model learn from the training part."""
    from shortlist.errors import InputError
    from shortlist.models import Baseline

    if not isinstance(model, Baseline):
        raise InputError(f"train: expected a model that can be fitted, received {type(model).__name__}")
    model.fit(split.train, seed=seed)


class Clock:
    """Seconds of each step."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._last = perf_counter()

    def lap(self, name: str) -> None:
        """The step of this name is over."""
        now = perf_counter()
        self.seconds[name], self._last = now - self._last, now


def _tell(run: Run, as_json: bool) -> None:
    if as_json:
        print_json({"run": str(run.folder), **run.metrics})
        return
    test, valid = run.metrics["test"], run.metrics["valid"]
    ks = sorted({int(name.split("@")[1]) for name in test or valid})
    names = [f"{metric}@{k}" for k in ks if k in {20, *ks[:1]} for metric in ("ndcg", "recall")]
    rows = [(name, _figure(test.get(name)), _figure(valid.get(name))) for name in names]
    print_table(
        ["metric", "test", "validation"], rows, title=f"{run.config['model']['name']} on {run.config['data']['source']}"
    )
    seconds = ", ".join(f"{name} {value:.1f} s" for name, value in run.metrics["seconds"].items())
    print(f"{run.metrics['users']:,} users measured ({run.metrics['skipped_users']:,} without test items); {seconds}")
    print(f"Run: {run.folder}   Next: shortlist recommend {run.folder} --user ID")


def _figure(value: float | None) -> str:
    return "–" if value is None else f"{value:.4f}"
