"""Record the results of a fixed list of commands, and compare two recordings bit for bit.

It shows that a refactoring leaves the results as they are. Only the command line and the format of run folders are
used, so that old and new versions of the library can be recorded with the same script::

    python scripts/golden.py record --tree . --out /tmp/new
    python scripts/golden.py compare /tmp/old /tmp/new

``record`` runs the library in TREE/src on one core, skips the cases that are finished, and keeps the message of a
command that fails as DIR/<case>.failed. ``compare`` prints a line for each case; the exit code is 1 if anything
differs. Settings are given by their original names, which later versions accept as aliases.
"""

from __future__ import annotations

import argparse
import csv
import importlib.util
import json
import multiprocessing
import os
import runpy
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from multiprocessing.context import ForkServerContext
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from safetensors.numpy import load_file

SETS = Path(os.environ.get("SHORTLIST_DATA", Path(__file__).parents[2] / "shared" / "data"))

TRAINED = ("mf", "lightgcn", "lightgcn_pp", "simgcl", "xsimgcl", "simplex", "pooled", "ncf")
FITTED = ("popularity", "item_knn", "ease", "ials")
# fmt: off
LOSSES = (
    "auc", "opauc", "llpauc", "sl", "bsl", "psl", "sogclr", "advinfonce", "guidedrec", "dns", "softmax_v",
    "lambdarank", "ndcg_loss2", "ndcg_loss2pp", "lambdaloss_at_k", "ndcg_loss1", "arp_loss1", "arp_loss2",
    "listnet", "listmle", "bpr", "hinge", "ranknet", "warp", "bce", "gbce", "mse", "ccl", "tce", "rce",
    "croloss", "croloss_lambda", "smooth_ndcg", "neural_ndcg", "approx_ndcg", "song", "song_at_k", "slatk",
    "slatk_detached", "sogslatk",
)
# fmt: on
TAU = {"sl": 0.2, "psl": 0.1, "sogclr": 0.2, "advinfonce": 0.2, "slatk": 0.2, "slatk_detached": 0.2, "sogslatk": 0.2}
TAU |= {"listnet": 1.0, "listmle": 1.0, "neural_ndcg": 1.0}
THRESHOLDS = ("auto", "exact", "monte_carlo", "positives_kept", "stratified", "regression", "incremental")

# Settings of a loss beside its defaults, each a case of its own: name → loss, settings.
LOSS_VARIANTS: dict[str, tuple[str, str]] = {
    "sl-pull": ("sl", "loss.pull=0.8"),
    "sl-all": ("sl", "loss.denominator=all"),
    "bsl-user": ("bsl", "loss.form=user"),
    "psl-atan": ("psl", "loss.activation=atan"),
    "psl-relu": ("psl", "loss.activation=relu"),
    "psl-dot": ("psl", "model.similarity=dot"),
    "llpauc-w": ("llpauc", "loss.w=1 loss.pace=2"),
    "advinfonce-every": ("advinfonce", "loss.every=1 loss.negatives=none"),
    "dns-m": ("dns", "loss.m=5 loss.n=40"),
    "lambdarank-scaled": ("lambdarank", "loss.ranks=scaled loss.normalised=true training.against=shared"),
    "lambdarank-table": ("lambdarank", "loss.ranks=table training.against=shared"),
    "ndcg_loss2-light": ("ndcg_loss2", "loss.delta=light"),
    "ndcg_loss2pp-scaled": ("ndcg_loss2pp", "loss.ranks=scaled training.against=pairs"),
    "lambdaloss_at_k-light": ("lambdaloss_at_k", "loss.delta=light loss.normalised=true"),
    "listnet-softmax": ("listnet", "loss.target_is=softmax"),
    "listmle-all": ("listmle", "loss.places=all"),
    "warp-counted": ("warp", "loss.rank=counted"),
    "tce-soon": ("tce", "loss.gradual=4 loss.drop=0.3 loss.exponent=0.5"),
    "croloss-hinge": ("croloss", "loss.kernel=hinge loss.alpha=0.8"),
    "croloss-sigmoid": ("croloss", "loss.kernel=sigmoid loss.over=all"),
    "croloss-exponential": ("croloss", "loss.kernel=exponential"),
    "croloss_lambda-step": ("croloss_lambda", "loss.phi1=step loss.phi2=hinge"),
    "croloss_lambda-over": ("croloss_lambda", "loss.phi1=exponential loss.phi2=sigmoid loss.over=all"),
    "smooth_ndcg-k": ("smooth_ndcg", "loss.k=5 loss.anneal=0.9"),
    "neural_ndcg-k": ("neural_ndcg", "loss.k=5"),
    "song-gamma": ("song", "loss.gamma=0.5 loss.normalised=false"),
    "song_at_k-theo": ("song_at_k", "loss.gradient=theo loss.eta=0.01"),
    "slatk-all": ("slatk", "loss.denominator=all"),
    "sogslatk-published": ("sogslatk", "loss.form=published loss.gamma=0.5"),
}

# How a model is trained: name → loss, settings.
TRAINING_VARIANTS: dict[str, tuple[str, str]] = {
    "uniform": ("sl", "training.against=shared training.negatives=30"),
    "uniform-weighted": ("sl", "training.against=shared training.negatives=30 training.weighted=true"),
    "popularity": ("sl", "training.against=shared training.negatives=30 training.distribution=popularity"),
    "popularity-power": (
        "sl",
        "training.against=shared training.negatives=30 training.distribution=popularity training.power=0.3 "
        "training.weighted=false",
    ),
    "in_batch": ("sl", "training.against=shared training.distribution=in_batch"),
    "in_batch-cut": ("sl", "training.against=shared training.distribution=in_batch training.negatives=20"),
    "mixed": ("sl", "training.against=shared training.distribution=mixed training.negatives=30 training.share=0.4"),
    "pairs": ("sl", "training.against=pairs training.negatives=15"),
    "pairs-popularity": ("sl", "training.against=pairs training.negatives=15 training.distribution=popularity"),
    "pairs-included": ("sl", "training.against=pairs training.negatives=15 training.exclude=false"),
    "bpr-popularity": ("bpr", "training.negatives=3 training.distribution=popularity"),
    "rows-all": ("sl", "optimizer.rows=all optimizer.weight_decay=0.001"),
    "rows-touched": ("bpr", "optimizer.weight_decay=0.001 training.batch=64"),
    "cosine-warmup": ("sl", "optimizer.schedule=cosine optimizer.warmup=0.2 optimizer.final=0.1"),
    "constant": ("sl", "optimizer.schedule=constant optimizer.beta1=0.8"),
    "patience": ("bce", "training.epochs=12 training.patience=1 training.metric=recall@5 optimizer.lr=0.3"),
    "dot-bias": ("bce", "model.similarity=dot model.item_bias=true"),
    "half-cosine": ("sl", "model.similarity=half_cosine model.dim=16 model.init=0.5"),
}

SMALL_SPLITS: dict[str, str] = {
    "last": "ratings.csv --split last",
    "last-2": "ratings.csv --split last --last 2",
    "last-irbenchmark": "ratings.csv --split last --protocol irbenchmark",
    "time": "ratings.csv --split time --at 1600700000 --cold-users drop",
    "irbenchmark": "ratings.csv --protocol irbenchmark",
    "given": "given",
    "given-irbenchmark": "given --protocol irbenchmark",
    "given-valid": "given_valid",
    "min-rating": "ratings.csv --min-rating 3",
    "core": "ratings.csv --core 9",
    "noise": "ratings.csv --noise 0.2",
    "noise-irbenchmark": "given --noise 0.2 --protocol irbenchmark",
    "shares": "ratings.csv --test-share 0.3 --valid-share 0.2",
    "no-valid": "ratings.csv --valid-share 0",
}

ONE_THREAD = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "POLARS_MAX_THREADS")
PRELOADED = ("torch", "polars", "scipy.sparse", "scipy.stats", "safetensors.torch", "pydantic", "typer", "rich", "yaml")
COMPARED = (
    *("model.safetensors", "metrics.json", "per_user.parquet", "history.parquet", "ids.parquet", "log.jsonl"),
    *("lists.parquet", "printed.json"),
)
HISTORY = "python3-numpy,python3-scipy,python3-matplotlib"


@dataclass(frozen=True)
class Case:
    """One command; ``{out}`` is the folder of the recording, ``{case}`` the folder that the command fills."""

    name: str
    arguments: tuple[str, ...]


def train(name: str, data: str, *flags: str, settings: str = "") -> Case:
    """Training of one run, with seed 0 and for any quality of the result."""
    chosen = ["training.beat_popularity=false", *settings.split()]
    sets = [text for setting in chosen for text in ("--set", setting)]
    return Case(name, ("train", *data.split(), *flags, "--seed", "0", *sets, "--out", "{case}"))


def small(name: str, model: str, loss: tuple[str, ...], settings: str = "", data: str = "ratings.csv") -> Case:
    """A short training on the made table, with a validation after every epoch."""
    defaults = "training.epochs=3 training.validate_every=1 training.batch=32"
    flags = ("--model", model, *loss, "--k", "10", "--ks", "5,10,20")
    return train(name, f"{{out}}/_data/{data}", *flags, settings=f"{defaults} {settings}")


def loss_flags(name: str, known: set[str], tau: bool = True) -> tuple[str, ...]:
    """The flags of a loss, so that every version trains the same; ``tau`` false leaves the temperature to be found."""
    settings = [f"loss.tau={TAU[name]}"] if tau and name in TAU else []
    if name == "slatk":
        settings += ["loss.weight=published", "loss.pull=1.0", "loss.tau_w=2.0"]
    elif name == "slatk_detached" and name not in known:  # what slatk was by default
        name, settings = "slatk", [*settings, "loss.weight=detached", "loss.pull=0.9", "loss.tau_w=2.5"]
    return ("--loss", name, *(text for setting in settings for text in ("--set", setting)))


def cases(known: set[str]) -> Iterator[Case]:
    """All cases for a version that has the losses ``known``."""
    yield from _model_cases(known)
    yield from _loss_cases(known)
    for name, (loss, settings) in TRAINING_VARIANTS.items():
        yield small(f"training-{name}", "mf", loss_flags(loss, known), settings)
    for name, data in SMALL_SPLITS.items():
        yield small(f"split-{name}", "mf", loss_flags("sl", known), data=data)
    yield from _debian_cases(known)
    yield from _health_cases(known)
    yield from _preset_cases()


def _model_cases(known: set[str]) -> Iterator[Case]:
    for model in FITTED:
        yield Case(
            f"model-{model}",
            ("train", "{out}/_data/ratings.csv", "--model", model, "--seed", "0", "--ks", "5,10", "--out", "{case}"),
        )
    for model in TRAINED:
        for loss in ("sl", "slatk_detached", "bpr", "bce", "psl"):
            slow = "optimizer.lr=0.003" if model == "ncf" else ""  # which would collapse
            yield small(f"model-{model}-{loss}", model, loss_flags(loss, known), slow)
        yield small(f"model-{model}-default", model, ())
    for model, loss in (("mf", "sl"), ("mf", "slatk"), ("mf", "slatk_detached"), ("lightgcn", "sl"), ("pooled", "psl")):
        yield small(f"temperature-{model}-{loss}", model, loss_flags(loss, known, tau=False))
    yield small("model-lightgcn-layers", "lightgcn", loss_flags("sl", known), "model.layers=3 optimizer.rows=all")
    yield small(
        "model-xsimgcl-shared", "xsimgcl", loss_flags("sl", known), "training.against=shared model.contrast=0.5"
    )
    yield small("model-pooled-pairs", "pooled", loss_flags("sl", known), "training.against=pairs training.negatives=10")
    yield small("model-simplex-dropout", "simplex", loss_flags("sl", known), "model.dropout=0.5 model.own=0.2")
    yield small("model-ncf-hidden", "ncf", loss_flags("sl", known), "model.hidden=16,8 training.negatives=10")
    resumed = small("resume", "mf", loss_flags("sl", known), "training.epochs=4 training.checkpoint_every=0")
    yield Case(resumed.name, (*resumed.arguments, "--resume"))


def _loss_cases(known: set[str]) -> Iterator[Case]:
    """Every loss with its own negatives, with those that others have, with ratings as labels and without."""
    for loss in LOSSES:
        flags = loss_flags(loss, known)
        yield small(f"loss-{loss}", "mf", flags, "training.epochs=2")
        yield small(f"loss-{loss}-all", "mf", (*flags, "--weight", "-"), "training.epochs=2 training.against=all")
        shared = "training.epochs=2 training.against=shared training.negatives=30 training.distribution=popularity"
        yield small(f"loss-{loss}-shared", "mf", flags, shared)
        pairs = "training.epochs=2 training.against=pairs training.negatives=12"
        yield small(f"loss-{loss}-pairs", "mf", (*flags, "--weight", "-"), pairs)
    for name, (loss, settings) in LOSS_VARIANTS.items():
        yield small(f"variant-{name}", "mf", loss_flags(loss, known), settings)
    for estimator in THRESHOLDS:
        settings = f"loss.threshold={estimator} loss.refresh=1 loss.samples=30 loss.tau_w=0.3"
        flags = loss_flags("slatk", known)
        yield small(f"threshold-{estimator}", "mf", flags, settings)
        if estimator != "exact":
            yield small(f"threshold-{estimator}-shared", "mf", flags, f"{settings} training.against=shared")
    yield small(
        "threshold-detached",
        "mf",
        loss_flags("slatk_detached", known),
        "loss.refresh=1 loss.tau_w=0.3 training.epochs=6",
    )


def _debian_cases(known: set[str]) -> Iterator[Case]:
    detached = loss_flags("slatk_detached", known)
    for model in ("popularity", "item_knn", "ease"):
        yield Case(f"debian-{model}", ("train", "debian", "--model", model, "--seed", "0", "--out", "{case}"))
    yield train("debian-mf", "debian", "--model", "mf", *detached, settings="training.epochs=5")
    yield train("debian-lightgcn", "debian", "--model", "lightgcn", *detached, settings="training.epochs=2")
    yield train("debian-pooled", "debian", "--model", "pooled", *detached, settings="training.epochs=3")
    yield train("debian-mf-bpr", "debian", "--model", "mf", "--loss", "bpr", settings="training.epochs=2")
    for run in ("mf", "ease"):
        wanted = ("--users", "all", "--k", "10", "--out", "{case}/lists.parquet")
        yield Case(f"lists-{run}", ("recommend", f"{{out}}/debian-{run}", *wanted))
    for run in ("mf", "lightgcn", "pooled"):
        arguments = ("recommend", f"{{out}}/debian-{run}", "--history", HISTORY, "--k", "10", "--json")
        yield Case(f"history-{run}", arguments)
    for run in ("mf", "ease"):
        yield Case(f"evaluate-{run}", ("evaluate", f"{{out}}/debian-{run}", "--ks", "5,20", "--pairwise", "--json"))
    yield Case("evaluate-irbenchmark", ("evaluate", "{out}/split-irbenchmark", "--ks", "5,20", "--pairwise", "--json"))


def _health_cases(known: set[str]) -> Iterator[Case]:
    """Every loss on a real set, where catalogue and rows are long enough for several blocks."""
    for loss in LOSSES:
        flags = ("--model", "mf", *loss_flags(loss, known))
        yield train(f"health-{loss}", str(SETS / "amazon2014-health"), *flags, settings="training.epochs=1")
    for loss in ("bpr", "bce", "warp", "psl", "approx_ndcg"):
        flags = ("--model", "mf", *loss_flags(loss, known))
        settings = "training.epochs=1 training.against=all"
        yield train(f"health-{loss}-all", str(SETS / "amazon2014-health"), *flags, settings=settings)


def _preset_cases() -> Iterator[Case]:
    """Published settings on the available sets, for a few epochs."""
    for loss in ("slatk", "sl", "bpr"):
        for model in ("mf", "lightgcn", "xsimgcl"):
            settings = "training.epochs=2 training.validate_every=1"
            name = f"{loss}-health-{model}"
            yield _preset(name, "amazon2014-health", settings)
    for loss in ("slatk", "sl"):
        yield _preset(f"{loss}-electronic-mf", "amazon2014-electronic", "training.epochs=1")


def _preset(name: str, folder: str, settings: str) -> Case:
    data = f"{SETS / folder} --preset {name} --protocol irbenchmark"
    return train(f"preset-{name}", data, settings=settings)


def make_data(folder: Path) -> None:
    """A small table of ratings in which users like the items of their cluster, and the same as a given split."""
    generator = np.random.default_rng(7)
    users, items, clusters = 120, 80, 4
    rows: list[tuple[str, str, int, int]] = []
    for user in range(users):
        liked_I = np.arange(items) % clusters == user % clusters
        mass_I = np.where(liked_I, 6.0, 1.0) / (1 + np.arange(items)) ** 0.4
        chosen_C = generator.choice(items, int(generator.integers(8, 25)), replace=False, p=mass_I / mass_I.sum())
        for item in chosen_C.tolist():
            rating = int(np.clip(np.rint(generator.normal(4 if liked_I[item] else 2.5, 0.9)), 1, 5))
            moment = 1_600_000_000 + int(generator.integers(1_000_000))
            rows.append((f"u{user:03}", f"i{item:02}", rating, moment))
    part_P = generator.choice(3, size=len(rows), p=[0.7, 0.1, 0.2]).tolist()
    parts = [[row for row, part in zip(rows, part_P, strict=True) if part == which] for which in range(3)]
    _write(folder / "ratings.csv", rows)
    _write(folder / "given/train.csv", parts[0] + parts[1])
    _write(folder / "given/test.csv", parts[2])
    for name, part in zip(("train", "valid", "test"), parts, strict=True):
        _write(folder / f"given_valid/{name}.csv", part)


def _write(path: Path, rows: list[tuple[str, str, int, int]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([("user", "item", "rating", "timestamp"), *rows])


def shortlist(tree: Path, *arguments: str) -> tuple[int, str, str]:
    """What ``PYTHONPATH=TREE/src python -m shortlist`` says: exit code, output and errors.

    Each command is a process of its own, forked from one that has imported the dependencies but not ``shortlist``,
    which is several times as fast.
    """
    with tempfile.TemporaryDirectory() as folder:
        printed = [Path(folder, "output"), Path(folder, "errors")]
        process = _context().Process(target=_command, args=(tree / "src", arguments, *printed))
        process.start()
        process.join()
        output, errors = (path.read_text() if path.exists() else "" for path in printed)
        return process.exitcode or 0, output, errors


@cache
def _context() -> ForkServerContext:
    os.environ.update(dict.fromkeys(ONE_THREAD, "1"))
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(list(PRELOADED))
    return context


def _command(source: Path, arguments: tuple[str, ...], output: Path, errors: Path) -> None:
    """The command in a forked process, whose output goes to files."""
    for path, descriptor in ((output, 1), (errors, 2)):
        os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT), descriptor)
    sys.path[0] = str(source)
    sys.argv = ["shortlist", *arguments]
    found = importlib.util.find_spec("shortlist")
    if found is None or found.origin is None or not Path(found.origin).is_relative_to(source):
        raise SystemExit(f"{source}: expected the package shortlist, found {found}")
    runpy.run_module("shortlist", run_name="__main__", alter_sys=True)


def record(tree: Path, out: Path, only: str | None) -> None:
    """Run every case that is not finished; ``only`` is a part of the names of those that are wanted."""
    code, output, errors = shortlist(tree, "losses", "--json")
    if code:
        raise SystemExit(errors)
    make_data(out / "_data")
    known = set(json.loads(output)["losses"])
    # versions without this setting ignored the weights of interactions
    ignore_weights = (tree / "src/shortlist/tasks/settings.py").exists()
    # versions without this flag list what was measured, which may hold items of test
    as_measured = "--as-measured" in (tree / "src/shortlist/cli/recommend.py").read_text()
    begin, failed = time.perf_counter(), 0
    for case in cases(known):
        if (only is None or only in case.name) and not (out / case.name).exists():
            start = time.perf_counter()
            error = _record_case(tree, out, case, ignore_weights, as_measured)
            failed += error is not None
            print(f"{case.name}  {time.perf_counter() - start:.1f} s  {error or ''}".rstrip(), flush=True)
    print(f"{time.perf_counter() - begin:.0f} s, {failed} failed")


def _record_case(tree: Path, out: Path, case: Case, ignore_weights: bool, as_measured: bool) -> str | None:
    """Fill the folder of a case, which has its name only when it is whole; the message if the command fails."""
    work, failure = out / "_unfinished" / case.name, out / f"{case.name}.failed"
    shutil.rmtree(work, ignore_errors=True)
    work.parent.mkdir(parents=True, exist_ok=True)
    if case.arguments[0] != "train":
        work.mkdir()
    arguments = case.arguments
    if ignore_weights and "training.beat_popularity=false" in arguments:  # a model that a loss trains
        arguments = (*arguments, "--set", "training.use_weights=false")
    if as_measured and arguments[0] == "recommend" and "--users" in arguments:
        arguments = (*arguments, "--as-measured")
    filled = (text.replace("{out}", str(out)).replace("{case}", str(work)) for text in arguments)
    code, output, errors = shortlist(tree, *filled)
    if code:
        failure.write_text(errors)
        return (errors.strip().splitlines() or [f"exit code {code}"])[-1]
    if "--json" in case.arguments:
        (work / "printed.json").write_text(output)
    failure.unlink(missing_ok=True)
    work.rename(out / case.name)
    return None


def compare(first: Path, second: Path) -> bool:
    """Print how each case differs; whether none does."""
    names = {path.name for folder in (first, second) for path in folder.iterdir() if not path.name.startswith("_")}
    counts = {"identical": 0, "differ": 0, "failed in both": 0}
    for name in sorted({name.removesuffix(".failed") for name in names}):
        missing = [folder for folder in (first, second) if not (folder / name).is_dir()]
        if len(missing) == 2:
            counts["failed in both"] += 1
            print(f"{name}: failed in both")
            continue
        if missing:
            failed = (missing[0] / f"{name}.failed").exists()
            found = [f"{'failed' if failed else 'not recorded'} in {missing[0]}"]
        else:
            found = list(differences(first / name, second / name))
        counts["differ" if found else "identical"] += 1
        print(f"{name}: {'; '.join(found) if found else 'identical'}")
    print(", ".join(f"{count} {what}" for what, count in counts.items()))
    return not counts["differ"]


def differences(first: Path, second: Path) -> Iterator[str]:
    """What differs between the results of a case, file by file."""
    for name in COMPARED:
        yield from _file_differences(name, first / name, second / name)


def _file_differences(name: str, first: Path, second: Path) -> Iterator[str]:
    if not first.exists() or not second.exists():
        if first.exists() or second.exists():
            yield f"{name} only in {(first if first.exists() else second).parent}"
        return
    if name == "model.safetensors":
        found = _mapping_differences(load_file(first), load_file(second))
    elif name == "history.parquet":
        found = _mapping_differences(_pairs(first), _pairs(second))
    elif name.endswith(".parquet"):
        found = _mapping_differences(_columns(first), _columns(second))
    else:
        found = _mapping_differences(_values(first), _values(second))
    if found:
        more = f" and {len(found) - 6} more" if len(found) > 6 else ""
        yield f"{name}: {', '.join(found[:6])}{more}"


def _pairs(path: Path) -> dict[str, pl.Series]:
    """The pairs of a history, in one order; what else stands beside them may change."""
    frame = pl.read_parquet(path, columns=["user", "item", "part"]).with_columns(pl.col("part").cast(pl.String))
    return {column.name: column for column in frame.sort("user", "item", "part")}


def _columns(path: Path) -> dict[str, pl.Series]:
    return {column.name: column for column in pl.read_parquet(path)}


def _values(path: Path) -> dict[str, Any]:
    """The figures of a JSON file, or of the epochs of a log, by the keys that lead to them."""
    if path.suffix == ".jsonl":
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        return _flat({f"epoch {line['epoch']}": line for line in lines if "epoch" in line})
    content = json.loads(path.read_text())
    return _flat({part: content.get(part) for part in ("test", "valid")} if path.name == "metrics.json" else content)


def _flat(value: Any, path: str = "") -> dict[str, Any]:
    """``{"test": {"ndcg@5": 1}}`` → ``{"test ndcg@5": 1}``, without durations and the path of the run."""
    if isinstance(value, list):
        value = {str(index): part for index, part in enumerate(value)}
    if not isinstance(value, dict):
        return {path: value}
    kept = {key: part for key, part in value.items() if key not in ("seconds", "run")}
    return {name: leaf for key, part in kept.items() for name, leaf in _flat(part, f"{path} {key}".strip()).items()}


def _mapping_differences(first: dict[str, Any], second: dict[str, Any]) -> list[str]:
    """The names that only one side has, and those whose values are not the same."""
    found = [f"{name} only in the first" for name in first if name not in second]
    found += [f"{name} only in the second" for name in second if name not in first]
    both = [name for name in first if name in second]
    return found + [f"{name} ({how})" for name in both if (how := _unlike(first[name], second[name]))]


def _unlike(first: Any, second: Any) -> str:
    """How two values differ; empty if they are the same, bit for bit where they are arrays."""
    if isinstance(first, pl.Series):
        if first.dtype != second.dtype or len(first) != len(second):
            return f"{first.dtype} × {len(first)} → {second.dtype} × {len(second)}"
        changed = int(first.ne_missing(second).sum())
        return f"{changed} of {len(first)} rows" if changed else ""
    if isinstance(first, np.ndarray):
        if first.dtype != second.dtype or first.shape != second.shape:
            return f"{first.dtype} {first.shape} → {second.dtype} {second.shape}"
        if first.tobytes() == second.tobytes():
            return ""
        gap = np.abs(first.astype(np.float64) - second.astype(np.float64))
        return f"{int((gap != 0).sum())} of {gap.size} values, by {gap.max():.2g} at most"
    same = json.dumps(first) == json.dumps(second)  # as text: exact, and NaN is NaN
    return "" if same else f"{first} → {second}"


def main() -> None:
    """Record or compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    actions = parser.add_subparsers(dest="action", required=True)
    recording = actions.add_parser("record", help="run the cases with the library in a tree")
    recording.add_argument("--tree", type=Path, required=True, help="a checkout; its src is used")
    recording.add_argument("--out", type=Path, required=True, help="folder of the recording")
    recording.add_argument("--only", help="run only the cases with this in their names")
    comparing = actions.add_parser("compare", help="compare two recordings")
    comparing.add_argument("first", type=Path)
    comparing.add_argument("second", type=Path)
    chosen = parser.parse_args()
    if chosen.action == "record":
        record(chosen.tree.resolve(), chosen.out.resolve(), chosen.only)
    elif not compare(chosen.first, chosen.second):
        raise SystemExit(1)


if __name__ == "__main__":
    main()
