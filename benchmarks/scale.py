"""An epoch where the catalogue is too long to be scored whole: candidates are a sample that each step shares.

    python benchmarks/scale.py [--json] [--users N] [--items N] [--pairs-a-user N] [--negatives N]

Three made sets, each in a process of its own: the whole, half the users, half the items. Wanted: the whole (a million
users, half a million items, 20 million pairs) within 8 GB; twice the users, or twice the items at the same sample,
take at most 2.2 times as long.
"""

from __future__ import annotations

import json
import subprocess
import sys

import torch

from _common import made, memory_mb, parser, seconds, show
from shortlist.losses import SLAtK
from shortlist.models import MF
from shortlist.training import OptimizerSettings, Training, TrainingSettings


def one(users: int, items: int, pairs_a_user: int, negatives: int) -> dict[str, float]:
    """Seconds and peak memory of one epoch, in this process."""
    train = made(users, items, pairs_a_user).train
    settings = TrainingSettings(epochs=1, candidates="shared", negatives=negatives, batch=2048)
    loss = SLAtK(k=20, tau=0.1, refresh=1)
    training = Training(MF(), loss, train, training=settings, optimizer=OptimizerSettings())
    took = seconds(training.epoch)
    return {"seconds": took, "pairs": train.n_pairs, "peak_memory_mb": memory_mb(), "loss": training.progress.loss}


def apart(arguments: list[str]) -> dict[str, float]:
    """The same in a process of its own, so that its memory is its own."""
    command = [sys.executable, __file__, "--one", *arguments]
    answer: dict[str, float] = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return answer


def main() -> None:
    arguments = parser("An epoch with shared sampled candidates at scale.")
    arguments.add_argument("--users", type=int, default=1_000_000)
    arguments.add_argument("--items", type=int, default=500_000)
    arguments.add_argument("--pairs-a-user", type=int, default=28, help="before repeats are merged")
    arguments.add_argument("--negatives", type=int, default=1000, help="candidates that a step shares")
    arguments.add_argument("--one", action="store_true", help="only one epoch, in this process")
    chosen = arguments.parse_args()
    torch.set_num_threads(chosen.threads)
    if chosen.one:
        print(json.dumps(one(chosen.users, chosen.items, chosen.pairs_a_user, chosen.negatives)))
        return
    fixed = ["--pairs-a-user", str(chosen.pairs_a_user), "--negatives", str(chosen.negatives)]
    fixed += ["--threads", str(chosen.threads)]
    whole = apart(["--users", str(chosen.users), "--items", str(chosen.items), *fixed])
    half_users = apart(["--users", str(chosen.users // 2), "--items", str(chosen.items), *fixed])
    half_items = apart(["--users", str(chosen.users), "--items", str(chosen.items // 2), *fixed])
    result = {
        "users": chosen.users,
        "items": chosen.items,
        "pairs": int(whole["pairs"]),
        "measured_seconds": round(whole["seconds"], 2),
        "pairs_a_second": round(whole["pairs"] / whole["seconds"]),
        "peak_memory_mb": round(whole["peak_memory_mb"]),
        "half_users_seconds": round(half_users["seconds"], 2),
        "ratio_users_doubled": round(whole["seconds"] / half_users["seconds"], 3),
        "half_items_seconds": round(half_items["seconds"], 2),
        "ratio_items_doubled": round(whole["seconds"] / half_items["seconds"], 3),
    }
    show(result, chosen.json)


if __name__ == "__main__":
    main()
