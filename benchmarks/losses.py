"""Every loss on Electronic: seconds of an epoch beside SL's, peak memory, and how few positives carry the gradient.

    python benchmarks/losses.py [--json] [--only NAME…] [--data NAME] [--cycles N] [--limit SECONDS] [--write FOLDER]
        [--epochs N] [--patience SECONDS]

Each loss is measured in a process of its own, with its default settings and MF (d 64), in the way it is trained unless
set otherwise (all items, or drawn negatives); one that draws is measured with all items as well.

*Seconds*: an epoch, everything counted. After a warm one come cycles of five epochs, since some losses do more in every
fifth; of each place in the cycle the best counts, and the epoch is their mean. An epoch that takes longer than the
limit is cut short and scaled by the share of its steps that were done. SL is timed in the same way and the same process
right after, and the ratio is to that: a machine that is slower for a while does not change it.

*Memory*: the peak of the process while it trains (before SL's turn), and by how much that lies above what it held when
data and libraries were loaded.

*Gradient*: the share of the total that the top 5 % of positives carry (SL@K's Figure 1c). Of each positive i of a user
u it is |∂L/∂s_ui|, what its own score receives; L is the sum over all positives of training, at a model that has been
trained with the loss for some epochs (20, or as many as there is patience for). What the scores of negatives receive is
not counted. 5 % means that all positives weigh the same, as they do in SL, where the pull on each is 1/τ. The paper
does not say which gradient its figure shows, nor when.
"""

from __future__ import annotations

import json
import math
import platform
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor

from _common import DATA, made, memory_mb, parser
from shortlist.data import Interactions, LoadOptions, load
from shortlist.losses import SL, Loss, registry
from shortlist.models import MF
from shortlist.training import OptimizerSettings, Training, TrainingSettings
from shortlist.training.gradient_concentration import carried_by_top, gradient_sizes

CYCLE = 5
TOP = 0.05

PUBLISHED: dict[str, dict[str, str]] = {
    "lambdaloss_at_k": {"times_sl": "60; 13 and 62 (of SL@20)", "top_share": "> 90 %"},
    "song_at_k": {"top_share": "> 90 %"},
    "slatk": {"top_share": "< 15 %"},
}
"""SL@K (KDD 2025): Figure 1 on Electronic; after the semicolon Table 17, seconds of an epoch on MovieLens and Food."""

HEAD = ("loss", "candidates", "seconds", "times_sl", "published_times_sl", "peak_mb", "above_start_mb",
        "top_share", "published_top_share", "epochs")  # fmt: skip

CandidateChoice = Literal["auto", "all"]


class Enough(Exception):
    """An epoch was cut short."""


def data_of(name: str) -> Interactions:
    """The training part of a set under the authors' protocol; where it is not here, a made one of Electronic's size."""
    if (DATA / name).exists():
        return load(DATA / name, LoadOptions(protocol="irbenchmark")).train
    return made(13_455, 8_360, 17).train


def ready(loss: Loss, train: Interactions, candidates: CandidateChoice, cycles: int) -> Training:
    """A training that is about to begin."""
    return Training(
        MF(similarity=loss.similarity),
        loss,
        train,
        training=TrainingSettings(epochs=1 + CYCLE * cycles, candidates=candidates),
        optimizer=OptimizerSettings(schedule="constant"),
    )


def epoch_seconds(training: Training, limit: float) -> tuple[float, float]:
    """Seconds of the next epoch, and the share of it that was done in the time that there was."""
    start, done = time.perf_counter(), 1.0

    def watch(share: float) -> None:
        nonlocal done
        if share < 1 and time.perf_counter() - start > limit:
            done = share
            raise Enough

    try:
        training.epoch(watch)
    except Enough:
        training.progress.epoch += 1  # so that every place of the cycle has its turn
    return (time.perf_counter() - start) / done, done


def timed(training: Training, cycles: int, limit: float) -> tuple[float, float]:
    """Seconds of an epoch as the heading defines them, and how many whole epochs were trained on the way."""
    _, trained = epoch_seconds(training, limit)
    best = [math.inf] * CYCLE
    for number in range(CYCLE * cycles):
        took, share = epoch_seconds(training, limit)
        best[number % CYCLE] = min(best[number % CYCLE], took)
        trained += share
    return statistics.mean(best), trained


def gradients(training: Training) -> Tensor:
    """|∂L/∂s_ui| of every positive of training, at the thresholds that the loop keeps."""
    kept = training.thresholds
    generator = torch.Generator().manual_seed(0)
    thresholds = None if kept is None else kept.read
    return gradient_sizes(training.loss, training.batches, training.model, generator, thresholds=thresholds)


def train_on(training: Training, missing: float, patience: float) -> float:
    """Train for some epochs more, or until patience ends; how many there were."""
    done, end = 0.0, time.perf_counter() + patience
    while done < missing and time.perf_counter() < end:
        done += epoch_seconds(training, end - time.perf_counter())[1]
    return done


def measure(name: str, candidates: CandidateChoice, chosen: Any) -> dict[str, object]:
    """One loss, in this process."""
    data, cycles, limit = chosen.data, chosen.cycles, chosen.limit
    train, loss = data_of(data), registry[name]()
    before = memory_mb("VmRSS")
    training = ready(loss, train, candidates, cycles)
    batch = training.batches.size
    seconds, trained = timed(training, cycles, limit)
    peak = memory_mb()
    trained += train_on(training, chosen.epochs - trained, chosen.patience)
    share = carried_by_top(gradients(training), TOP)
    del training
    beside, _ = timed(ready(SL(), train, "all", 1), 1, limit)
    return {
        "loss": name,
        "candidates": "drawn" if candidates == "auto" and loss.sampled is not None else "all",
        "seconds": round(seconds, 4),
        "sl_seconds": round(beside, 4),
        "times_sl": round(seconds / beside, 2),
        "peak_mb": round(peak, 1),
        "above_start_mb": round(peak - before, 1),
        "top_share": round(share, 4),
        "epochs": round(trained, 2),
        "batch": batch,
        "threads": torch.get_num_threads(),
        "data": data if (DATA / data).exists() else "made",
    }


def apart(name: str, candidates: CandidateChoice, chosen: Any) -> dict[str, Any]:
    """The same in a process of its own; what it says where it fails."""
    command = [sys.executable, __file__, "--one", name, candidates, "--data", chosen.data, "--cycles", chosen.cycles]
    command += ["--limit", chosen.limit, "--epochs", chosen.epochs, "--patience", chosen.patience]
    command += ["--threads", chosen.threads]
    answer = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    if answer.returncode:
        return {"loss": name, "candidates": candidates, "error": answer.stderr.strip().splitlines()[-1][:300]}
    row: dict[str, Any] = json.loads(answer.stdout)
    return row


def rows_of(chosen: Any) -> list[dict[str, Any]]:
    """A row for each loss and way, beside SL."""
    rows: list[dict[str, Any]] = []
    for name in chosen.only or sorted(registry):
        for candidates in ("auto", "all") if registry[name].sampled is not None else ("auto",):
            row = apart(name, candidates, chosen)
            row |= {f"published_{key}": value for key, value in PUBLISHED.get(name, {}).items()}
            rows.append(row)
            print(row.get("error") or " ".join(f"{key} {row.get(key, '')}" for key in HEAD), file=sys.stderr)
    return rows


def markdown(rows: list[dict[str, Any]], command: str) -> str:
    """The table with what made it."""
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True).stdout.strip()
    made_with = next((f"{row['data']}, {row['threads']} threads" for row in rows if "error" not in row), "nothing")
    lines = [
        "# Losses: time, memory, and concentration of the gradient",
        "",
        f"`{command}`: {made_with};",
        f"MF, d 64, default settings of each loss. Commit {commit}, torch {torch.__version__},",
        f"Python {platform.python_version()}, {platform.machine()}.",
        "",
        "- *seconds*: a warm epoch, the best of each place in cycles of five; long ones are scaled from some steps.",
        "- *× SL*: of SL over all items, timed in the same process. *Published*: Figure 1b; Table 17, other sets.",
        "- *peak*: of the process, in MB; *above*: above what data and libraries had taken before.",
        "- *top 5 %*: share of Σ|∂L/∂s_ui| over all positives that the top 5 % of them carry, after *epochs* epochs;",
        "  5 % where all weigh the same. *Published*: Figure 1c.",
        "",
        "| loss | candidates | seconds | × SL | published | peak | above | top 5 % | published | epochs |",
        "|---|---|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for row in rows:
        if "error" in row:
            lines.append(f"| {row['loss']} | {row['candidates']} | {row['error']} |" + " |" * 7)
            continue
        cells = {**dict.fromkeys(HEAD, ""), **row, "top_share": f"{100 * row['top_share']:.1f} %"}
        lines.append("| " + " | ".join(str(cells[key]) for key in HEAD) + " |")
    return "\n".join(lines) + "\n"


def draw(rows: list[dict[str, Any]], path: Path) -> None:
    """Times and gradients side by side, the slowest loss first."""
    import altair as alt

    measured = [
        {**row, "name": row["loss"] + (", drawn" if row["candidates"] == "drawn" else "")}
        for row in rows
        if "error" not in row
    ]
    order = [row["name"] for row in sorted(measured, key=lambda row: -row["times_sl"])]
    base = alt.Chart(alt.InlineData(values=measured), width=300, height=alt.Step(16)).encode(
        y=alt.Y("name:N", sort=order, title=None, axis=alt.Axis(labelLimit=220))
    )
    time_axis = alt.X("times_sl:Q", title="seconds of an epoch, as a multiple of SL's").scale(type="log")
    share_axis = alt.X("top_share:Q", title="gradient carried by the top 5 % of positives").scale(domain=[0, 1])
    share_axis = share_axis.axis(format=".0%")
    points = base.mark_point(filled=True, size=60, color="#3b82f6")
    grey = "#7d8590"
    one = alt.Chart(alt.InlineData(values=[{"at": 1}])).mark_rule(color=grey, strokeDash=[3, 3]).encode(x="at:Q")
    bars = base.mark_bar(color="#d97706", size=9).encode(x=share_axis)
    chart = ((one + points.encode(x=time_axis)) | bars).configure(background="transparent")
    chart.configure_axis(labelColor=grey, titleColor=grey, gridColor="#7d859059").configure_view(stroke=None).save(path)


def main() -> None:
    arguments = parser("Time, memory and gradients of every loss.")
    arguments.add_argument("--only", nargs="*", help="some losses")
    arguments.add_argument("--data", default="amazon2014-electronic", help="name of the set")
    arguments.add_argument("--cycles", type=int, default=2, help="cycles of five epochs, after a warm one")
    arguments.add_argument("--limit", type=float, default=10.0, help="seconds after which an epoch is cut short")
    arguments.add_argument("--epochs", type=float, default=20, help="epochs of training before gradients are measured")
    arguments.add_argument("--patience", type=float, default=60.0, help="seconds for those that timing did not train")
    arguments.add_argument("--write", type=Path, help="folder for losses.md, losses.json and losses.svg")
    arguments.add_argument("--one", nargs=2, metavar=("NAME", "AGAINST"), help="one loss, in this process, as JSON")
    chosen = arguments.parse_args()
    torch.set_num_threads(chosen.threads)
    if chosen.one:
        name, candidates = chosen.one
        print(json.dumps(measure(name, candidates, chosen)))
        return
    rows = rows_of(chosen)
    command = f"python benchmarks/losses.py --data {chosen.data} --cycles {chosen.cycles} --limit {chosen.limit:g}"
    command += f" --epochs {chosen.epochs:g} --patience {chosen.patience:g}"
    print(json.dumps({"rows": rows}) if chosen.json else markdown(rows, command))
    if chosen.write is not None:
        chosen.write.mkdir(parents=True, exist_ok=True)
        (chosen.write / "losses.md").write_text(markdown(rows, command) + "\n![Time and gradients](losses.svg)\n")
        (chosen.write / "losses.json").write_text(json.dumps(rows, indent=1) + "\n")
        draw(rows, chosen.write / "losses.svg")


if __name__ == "__main__":
    main()
