"""Steps of LightGCN and XSimGCL on Gowalla, against those of matrix factorisation with the same loss and batch.

    python benchmarks/graph_epoch.py [--json] [--turns N] [--steps N] [--batch USERS] [--threads N]

Everything counts: batches, propagation, noise, contrast, loss, optimiser. The models take turns of some steps each; an
epoch is its number of steps. Wanted: LightGCN at most 3 times, XSimGCL at most 5 times, within 2,500 MB.
"""

from __future__ import annotations

import statistics
from contextlib import suppress
from itertools import pairwise
from time import perf_counter

import torch

from _common import gowalla, memory_mb, parser, show
from shortlist.data import Interactions
from shortlist.losses import SL
from shortlist.models import MF, LightGCN, SimGCL, TrainableModel, XSimGCL
from shortlist.training import OptimizerSettings, Training, TrainingSettings


class _Enough(Exception):
    """The steps of a turn are done."""


def prepared(model: TrainableModel, train: Interactions, batch: int) -> Training:
    """A training at its start."""
    settings = TrainingSettings(epochs=1000, batch=batch)
    return Training(model, SL(tau=0.1), train, training=settings, optimizer=OptimizerSettings())


def steps_of(training: Training, count: int) -> list[float]:
    """The seconds of some steps at the beginning of an epoch, the very first left out."""
    ends = []

    def after(share: float) -> None:
        ends.append(perf_counter())
        if len(ends) > count:
            raise _Enough

    with suppress(_Enough):
        training.epoch(after)
    return [later - earlier for earlier, later in pairwise(ends)]


def measure(turns: int, steps: int, batch: int) -> dict[str, object]:
    """Turns of steps of each model."""
    name, split = gowalla()
    models: dict[str, TrainableModel] = {
        "mf": MF(), "lightgcn": LightGCN(layers=2), "xsimgcl": XSimGCL(layers=3), "simgcl": SimGCL(layers=3)
    }  # fmt: skip
    trainings = {each: prepared(model, split.train, batch) for each, model in models.items()}
    for training in trainings.values():  # memory settles in the first steps
        steps_of(training, 3)
    spent: dict[str, list[float]] = {each: [] for each in trainings}
    for _ in range(turns):
        for each, training in trainings.items():
            spent[each] += steps_of(training, steps)
    step_s = {each: statistics.median(seconds) for each, seconds in spent.items()}
    in_epoch = trainings["mf"].batches.steps
    return {
        "data": name,
        "batch": batch,
        "threads": torch.get_num_threads(),
        "steps_measured": turns * steps,
        "steps_in_epoch": in_epoch,
        "floor_seconds": round(in_epoch * step_s["mf"], 2),
        "measured_seconds": round(in_epoch * step_s["lightgcn"], 2),
        "ratio": round(step_s["lightgcn"] / step_s["mf"], 3),
        "xsimgcl_seconds": round(in_epoch * step_s["xsimgcl"], 2),
        "xsimgcl_ratio": round(step_s["xsimgcl"] / step_s["mf"], 3),
        "simgcl_seconds": round(in_epoch * step_s["simgcl"], 2),
        "simgcl_ratio": round(step_s["simgcl"] / step_s["mf"], 3),
        "peak_memory_mb": round(memory_mb(), 1),
    }


def main() -> None:
    arguments = parser("Epochs of graph models on Gowalla, and of matrix factorisation.")
    arguments.add_argument("--turns", type=int, default=3, help="turns of each model")
    arguments.add_argument("--steps", type=int, default=30, help="steps in a turn")
    arguments.add_argument("--batch", type=int, default=256, help="users in a step")
    chosen = arguments.parse_args()
    torch.set_num_threads(chosen.threads)
    show(measure(chosen.turns, chosen.steps, chosen.batch), chosen.json)


if __name__ == "__main__":
    main()
