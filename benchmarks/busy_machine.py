"""An epoch on two threads beside another program, against the same epoch on a quiet machine.

    python benchmarks/busy_machine.py [--json] [--epochs N] [--threads N]

A thread that waits for another can spin, which is quick, or sleep, which leaves its core to whoever has work. Measured
is MF with SL on a set of Electronic's size, batches of 128 users, in a process of its own for each case: as the command
has it (1000 turns of the waiting loop, then sleep), and as torch has it by itself (300,000 turns). The other program
keeps one core busy, as if started from another terminal. Wanted: at most three times as long as alone.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from _common import made, parser, seconds, show
from shortlist.losses import SL
from shortlist.models import MF
from shortlist.training import OptimizerSettings, Training, TrainingSettings

COMMAND: dict[str, str] = {"GOMP_SPINCOUNT": "1000"}
TORCH: dict[str, str] = {}


def epoch_seconds(epochs: int) -> float:
    """The median epoch, after one that warms up."""
    train = made(13_455, 8_360, pairs_a_user=17).train
    settings = TrainingSettings(epochs=epochs + 1, batch=128)
    training = Training(MF(), SL(tau=0.2), train, training=settings, optimizer=OptimizerSettings())
    training.epoch()
    return statistics.median(seconds(training.epoch) for _ in range(epochs))


def in_a_process(epochs: int, threads: int, spins: dict[str, str]) -> float:
    """The same with an environment of its own, which torch reads when it is loaded."""
    words = [sys.executable, __file__, "--child", "--epochs", str(epochs), "--threads", str(threads)]
    inherited = {name: value for name, value in os.environ.items() if name not in {"GOMP_SPINCOUNT", "OMP_WAIT_POLICY"}}
    done = subprocess.run(words, capture_output=True, text=True, check=True, env={**inherited, **spins})
    return float(done.stdout)


@contextmanager
def neighbour() -> Iterator[None]:
    """A program that does nothing but keep a core busy, as if started from another terminal."""
    process = subprocess.Popen([sys.executable, "-c", "while True: pass"], start_new_session=True)
    try:
        yield
    finally:
        process.kill()
        process.wait()


def measure(epochs: int, threads: int) -> dict[str, object]:
    """Alone and beside another program, as the command has it and as torch has it."""
    alone, alone_torch = (in_a_process(epochs, threads, spins) for spins in (COMMAND, TORCH))
    with neighbour():
        beside, beside_torch = (in_a_process(epochs, threads, spins) for spins in (COMMAND, TORCH))
    return {
        "threads": threads,
        "floor_seconds": round(alone, 3),
        "measured_seconds": round(beside, 3),
        "ratio": round(beside / alone, 2),
        "torch_alone_seconds": round(alone_torch, 3),
        "torch_beside_seconds": round(beside_torch, 3),
        "torch_ratio": round(beside_torch / alone_torch, 2),
    }


def main() -> None:
    arguments = parser("An epoch beside a program that keeps a core busy, and the same epoch alone.")
    arguments.add_argument("--epochs", type=int, default=3, help="epochs that are measured in each case")
    arguments.add_argument("--child", action="store_true", help="measure one case and print its seconds")
    chosen = arguments.parse_args()
    if chosen.child:
        torch.set_num_threads(chosen.threads)
        print(epoch_seconds(chosen.epochs))
        return
    show(measure(chosen.epochs, chosen.threads), chosen.json)


if __name__ == "__main__":
    main()
