"""The published results and ours: every preset, with several seeds, under the authors' protocol.

    python benchmarks/published.py [--only NAME…] [--seeds 0,1,2] [--runs FOLDER] [--write docs/results]

Each cell is a run folder: stop at any moment and start again, and only what is missing is computed. A run that was made
before its preset changed is refused before anything is trained: its results are not those of the preset. Needs the data
sets beside the project (or where SHORTLIST_DATA points); what is not there is skipped and said.
"""

from __future__ import annotations

import json
import platform
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any, Literal

import torch

from _common import DATA, parser, show
from shortlist.data import LoadOptions, load
from shortlist.errors import InputError
from shortlist.experiment import PRESETS, ExperimentConfig, fit, plan
from shortlist.experiment.config import with_temperature
from shortlist.runs import CHECKPOINT, Run, difference, open_run

PROTOCOL: Literal["irbenchmark"] = "irbenchmark"
HEAD = ("preset", "metric", "published", "mean", "deviation", "ratio", "values", "epochs", "seconds")


def finished(name: str, seed: int, folder: Path) -> Run | None:
    """The run of one preset and seed, if there is one; one that was made otherwise than the preset says is refused."""
    try:
        run = open_run(folder)
    except InputError:
        return None
    chosen = steps = planned(name)
    if steps.tau_is_open:  # the temperature that was found replaces it
        chosen = with_temperature(steps, run.config.get("loss", {}).get("tau"))
    asked = {"model": {"name": chosen.model_name, **chosen.model.settings()}, **chosen.config()}
    asked = json.loads(json.dumps({**asked, "protocol": PROTOCOL, "seed": seed}))
    made = {section: run.config[section] for section in asked if section in run.config}
    other = difference(asked, made, tau_is_open=steps.tau_is_open)
    if other is not None:
        expected = f"a run of the preset {name} as it is now"
        raise InputError(f"{folder}: expected {expected}, received another one (remove it to train anew): {other}")
    return run


def planned(name: str) -> ExperimentConfig:
    """What a preset says."""
    preset = PRESETS[name]
    return plan(preset.model, preset.loss, preset.k, values=preset.settings)


def cell(name: str, seed: int, folder: Path) -> Run:
    """The run of one preset and seed: as it was left, from where it stopped, or from the start."""
    run = finished(name, seed, folder)
    if run is not None:
        return run
    source, options = PRESETS[name].data, LoadOptions(protocol=PROTOCOL, seed=seed)
    split = load(DATA / source, options)
    config = {"data": {"source": source, **options.settings()}, "protocol": options.protocol, "seed": seed}
    return fit(planned(name), split, folder, config=config, resume=(folder / CHECKPOINT).is_file()).run


def summary(name: str, runs: list[Run]) -> list[dict[str, Any]]:
    """A row for each published metric."""
    rows = []
    for metric, published in PRESETS[name].published.items():
        values = [run.metrics["test"][metric] for run in runs]
        rows.append(
            {
                "preset": name,
                "metric": metric,
                "published": published,
                "mean": round(statistics.mean(values), 5),
                "deviation": round(statistics.stdev(values), 5) if len(values) > 1 else None,
                "ratio": round(statistics.mean(values) / published, 4),
                "values": [round(value, 5) for value in values],
                "epochs": [run.metrics["epochs"] for run in runs],
                "seconds": [round(run.metrics["seconds"]["train"], 1) for run in runs],
            }
        )
    return rows


def markdown(rows: list[dict[str, Any]], command: str, seeds: list[int]) -> str:
    """The table with what made it."""
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True).stdout.strip()
    lines = [
        "# Published results, measured",
        "",
        "MF, d 64, the protocol of SL@K's authors (`irbenchmark`): a tenth of each user's training items held out, the",
        "model trained on the rest and chosen on the held-out part, test over the whole catalogue. Mean of the seeds,",
        "each with its own split and initialization.",
        "",
        f"Command: `{command}`; commit {commit}; seeds {', '.join(map(str, seeds))}; {platform.machine()},",
        f"{torch.get_num_threads()} threads, torch {torch.__version__}, Python {platform.python_version()}.",
        "",
        "| " + " | ".join(HEAD) + " |",
        "|" + "---|" * len(HEAD),
    ]
    for row in rows:
        lines.append("| " + " | ".join(_cell(row[key]) for key in HEAD) + " |")
    lines += ["", "## Settings", ""]
    for name in dict.fromkeys(row["preset"] for row in rows):
        lines.append(f"- `{name}`: `{json.dumps(PRESETS[name].settings)}`")
    return "\n".join(lines) + "\n"


def _cell(value: object) -> str:
    if isinstance(value, list):
        return ", ".join(map(str, value))
    return "" if value is None else str(value)


def curves(runs: dict[str, list[Run]]) -> list[dict[str, Any]]:
    """Validation after so many epochs and seconds, for pictures."""
    points = []
    for name, group in runs.items():
        for run in group:
            for line in (json.loads(text) for text in (run.folder / "log.jsonl").read_text().splitlines()):
                value = next((line[key] for key in line if key.startswith("valid ")), None)
                if value is not None:
                    seed = run.config["seed"]
                    points.append(
                        {
                            "preset": name,
                            "seed": seed,
                            "epoch": line["epoch"],
                            "seconds": line["seconds"],
                            "ndcg@20": value,
                        }
                    )
    return points


def draw(points: list[dict[str, Any]], path: Path) -> None:
    """Learning curves as one picture."""
    import altair as alt

    chart = (
        alt.Chart(alt.InlineData(values=points), width=240, height=160)
        .mark_line()
        .encode(
            x=alt.X("seconds:Q", title="seconds of training"),
            y=alt.Y("ndcg@20:Q", title="validation NDCG@20").scale(zero=False),
            color=alt.Color("seed:N"),
            facet=alt.Facet("preset:N", columns=3, title=None),
        )
        .resolve_scale(x="independent", y="independent")
    )
    chart.save(path)


def main() -> None:
    arguments = parser("Every preset with several seeds, beside the published results.")
    arguments.add_argument("--only", nargs="*", default=sorted(PRESETS), help="some presets")
    arguments.add_argument("--seeds", default="0,1,2")
    arguments.add_argument("--runs", type=Path, default=Path("runs/published"), help="where the run folders are")
    arguments.add_argument(
        "--write", type=Path, help="folder for published.md, published.json and published-curves.svg"
    )
    chosen = arguments.parse_args()
    torch.set_num_threads(chosen.threads)
    seeds = [int(seed) for seed in chosen.seeds.split(",")]
    rows: list[dict[str, Any]] = []
    runs: dict[str, list[Run]] = {}
    folders: dict[str, dict[int, Path]] = {}
    for name in chosen.only:
        if not (DATA / PRESETS[name].data).exists():
            print(f"skipped {name}: {PRESETS[name].data} is not here", file=sys.stderr)
            continue
        folders[name] = {seed: chosen.runs / f"{name}-{seed}" for seed in seeds}
        for seed, folder in folders[name].items():
            finished(name, seed, folder)  # what is refused is so before anything is trained
    for name, by_seed in folders.items():
        runs[name] = [cell(name, seed, folder) for seed, folder in by_seed.items()]
        lines = summary(name, runs[name])
        rows += lines
        if not chosen.json:
            for row in lines:
                show(row, False)
                print()
    if chosen.json:
        print(json.dumps({"rows": rows}))
    if chosen.write is not None:
        chosen.write.mkdir(parents=True, exist_ok=True)
        command = f"python benchmarks/published.py --seeds {chosen.seeds}"
        (chosen.write / "published.md").write_text(markdown(rows, command, seeds))
        (chosen.write / "published.json").write_text(json.dumps(rows, indent=1) + "\n")
        draw(curves(runs), chosen.write / "published-curves.svg")


if __name__ == "__main__":
    main()
