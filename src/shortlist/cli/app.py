"""The commands by name. Heavy modules are imported inside the commands, so that help is fast."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from shortlist import __version__
from shortlist.cli.bench.command import bench
from shortlist.cli.compare.command import compare
from shortlist.cli.data import data
from shortlist.cli.demo import demo
from shortlist.cli.evaluate import evaluate
from shortlist.cli.losses import losses
from shortlist.cli.models import models
from shortlist.cli.recommend import recommend
from shortlist.cli.report import report
from shortlist.cli.similar import similar
from shortlist.cli.train.command import train
from shortlist.cli.tune.command import tune

UsageError: Any = typer.BadParameter.__base__
"""typer's error for an invalid command line; its module depends on the version."""

Abort = typer.Abort

app = typer.Typer(
    name="shortlist",
    help="Recommenders trained for the list that people are shown.",
    epilog="First steps:  shortlist demo   |   shortlist train clicks.csv --model ease --out runs/ease",
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(__version__)
        raise typer.Exit


@app.callback(invoke_without_command=True)
def overview(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Recommenders trained for the list that people are shown."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


app.command(rich_help_panel="Start")(demo)
app.add_typer(data, name="data", rich_help_panel="Start")
for command in (train, tune, evaluate, recommend, similar, report, compare, bench, models, losses):
    app.command(rich_help_panel="Work")(command)
