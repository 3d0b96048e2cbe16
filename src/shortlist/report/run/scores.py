"""Sections on scores, weights and gradients of a trained model: SL@K's Figures 1c, 2 and 5 for a run."""

from __future__ import annotations

from typing import cast

import numpy as np
import polars as pl
from torch import Tensor

from shortlist.errors import ShortlistError
from shortlist.formatting import format_signed
from shortlist.losses import Loss
from shortlist.models import TrainableModel
from shortlist.report.charts import against
from shortlist.report.page import Cell, Figure, Section, Table
from shortlist.report.run.context import Subject
from shortlist.report.run.run_charts import against_count, densities, histogram, ranges, shares
from shortlist.report.run.score_analysis import (
    DRAWS,
    Estimates,
    concentration,
    estimates,
    gradients,
    outlines,
    weight_bins,
    weights_by_rank,
)
from shortlist.thresholds import Thresholds
from shortlist.training import TrainingSettings
from shortlist.training.gradient_concentration import carried_by_top

POINTS = 150
"""Number of users in the chart of estimates."""

TOPS = (0.01, 0.05, 0.1, 0.2, 0.5)
"""Fractions of positives for which the share of the gradient is reported."""

ESTIMATED = {
    "monte_carlo": "from draws out of all items",
    "positives_kept": "the K-th of positives and draws, as SL@K's authors do",
    "stratified": "positives have weight one, draws the number of items that they represent",
}


def threshold_section(subject: Subject) -> Section:
    """Thresholds compared with scores, and the error of estimated thresholds."""
    scores, n_users = subject.scores, int(np.count_nonzero(subject.split.train.user_counts()))
    title = f"The Top-{scores.k} threshold"
    texts = [
        f"β is the score at which a user's list of {scores.k} ends: the {scores.k}-th largest of the full catalogue, "
        f"training items included. It is exact here, for {len(scores.users_R):,} of {n_users:,} users "
        + "with items in training"
        + (" (drawn at random)." if len(scores.users_R) < n_users else ".")
    ]
    kinds = {
        "other": scores.neg_M,
        "held out": scores.held_H,
        "in training": scores.pos_P,
        "threshold β": scores.threshold_R,
    }
    drawn = outlines(kinds)
    if drawn.is_empty():
        return Section(title, [*texts, "No score is finite."])
    figures = [_distribution(kinds, drawn)]
    kept = _thresholds(subject)
    if kept is None:
        texts.append(f"{_why_no_thresholds(subject)} Estimated thresholds are not evaluated.")
        return Section(title, texts, figures=figures)
    found = estimates(subject.run.model, subject.split.train, scores.users_R, kept.k, kept.samples, subject.seed)
    return Section(title, texts, figures=[*figures, *_errors(found, kept)])


def _why_no_thresholds(subject: Subject) -> str:
    if isinstance(subject.loss, str):
        return subject.loss
    return f"The loss {subject.run.config['loss']['name']} does not use thresholds."


def _thresholds(subject: Subject) -> Thresholds | None:
    return None if isinstance(subject.loss, str) else subject.loss.thresholds(subject.run.task.sizes)


def _distribution(kinds: dict[str, Tensor], drawn: pl.DataFrame) -> Figure:
    columns = ["", "how many", "lower quartile", "median", "upper quartile"]
    rows: list[list[Cell | str]] = []
    medians = {}
    for name, value in kinds.items():
        finite = value[value.isfinite()].double()
        if len(finite):
            quartiles = np.quantile(finite.numpy(), [0.25, 0.5, 0.75])
            medians[name] = float(quartiles[1])
            rows.append([name, f"{len(finite):,}", *(f"{float(each):.4f}" for each in quartiles)])
    return Figure(
        "Distribution of scores and thresholds",
        densities(drawn, axis="score"),
        "Scores of training items, of items held out for test, and of other items (some are drawn for each user), and "
        "the thresholds at which lists end. As in SL@K's Figure 2a, a good model scores training items above β and "
        "held-out items close to them, while other items stay below.",
        "Medians of scores: " + ", ".join(f"{name} {value:.4f}" for name, value in medians.items()) + ".",
        Table(columns, rows, numbers=columns[1:]),
    )


def _errors(found: Estimates, kept: Thresholds) -> list[Figure]:
    """The error of each estimator by sample size, and estimated against exact thresholds."""
    points = [
        {"name": estimator, "at": size, "value": judged.error} for (estimator, size), judged in found.judged.items()
    ]
    columns = ["estimator", "N", "mean error", "± over users", "bias", "rank error", "recall", "precision"]
    rows = [
        [
            estimator,
            f"{size:,}",
            f"{judged.error:.4f}",
            f"{judged.deviation:.4f}",
            format_signed(judged.bias),
            f"{judged.rank_error:.1f}",
            f"{judged.recall:.3f}",
            f"{judged.precision:.3f}",
        ]
        for (estimator, size), judged in found.judged.items()
    ]
    at_shown = {name: judged for (name, size), judged in found.judged.items() if size == found.shown}
    exact_R = found.exact_R[:POINTS].tolist()
    pairs = [
        {"name": name, "x": exact, "y": guess}
        for name, value_R in found.estimate_R.items()
        for exact, guess in zip(exact_R, value_R[:POINTS].tolist(), strict=True)
    ]
    meaning = "; ".join(f"{name}: {text}" for name, text in ESTIMATED.items())
    return [
        Figure(
            "Error of estimated thresholds",
            against_count(pl.DataFrame(points), title="mean |β̂ − β|", axis="N, items sampled"),
            f"Error of β estimated from N items of the catalogue, for {found.users:,} users "
            f"and {DRAWS} samples. {meaning}. Lower is better, and more samples should help; the published error is "
            f"0.06 for positives_kept at N = 1,000 on Electronic. This run was trained with loss.threshold = "
            f"{kept.estimator}.",
            f"Mean errors at N = {found.shown:,}: "
            + ", ".join(f"{name} {judged.error:.4f}" for name, judged in at_shown.items())
            + ".",
            Table(columns, rows, numbers=columns[1:]),
        ),
        Figure(
            f"Estimated and exact, N = {found.shown:,}",
            against(pl.DataFrame(pairs), title="estimated β̂", axis="exact β"),
            f"Each point is one of {len(exact_R):,} users. Points on the dashed line are exact; below it thresholds "
            "are underestimated, so that too many items count as listed (SL@K's Figure 2b).",
            f"Bias at N = {found.shown:,}: " + ", ".join(f"{name} {each.bias:+.4f}" for name, each in at_shown.items()),
        ),
    ]


def weight_section(subject: Subject) -> Section:
    """Weights of positives in a Top-K loss."""
    title, scores = "Weights of positives", subject.scores
    if scores.weight_P is None:
        return Section(title, [f"{_why_no_thresholds(subject)} There are no weights of positives."])
    weight_P = scores.weight_P.double()
    bins, by_rank = (
        weight_bins(weight_P),
        weights_by_rank(weight_P, scores.rank_P, scores.k, subject.split.train.n_items),
    )
    low, mid, high = np.quantile(weight_P.numpy(), [0.05, 0.5, 0.95])
    inside = float((scores.rank_P <= scores.k).double().mean())
    tau_w = getattr(subject.loss, "weight_temperature", None)
    known = f" with τ_w = {tau_w:g}" if tau_w is not None else ""
    text = (
        f"A positive counts by its weight w = σ((s − β)/τ_w){known}: ½ at the threshold, more above it. Of "
        f"{len(weight_P):,} positives in training, {inside:.1%} are in their user's Top-{scores.k}; nine of ten "
        f"weights lie between {low:.3f} and {high:.3f}."
    )
    columns = ["rank", "positives", "lower quartile", "median weight", "upper quartile"]
    rows = [
        [row["group"], f"{row['positives']:,}", *(f"{row[key]:.4f}" for key in ("low", "mid", "high"))]
        for row in by_rank.iter_rows(named=True)
    ]
    figures = [
        Figure(
            "Distribution of weights",
            histogram(bins, title="share of positives", axis="weight w", domain=(0, 1)),
            "If all weights are near ½, the loss ignores the Top-K (τ_w is large compared with the spread of scores); "
            "if they are all near 0 or 1, positives far below the list are ignored. A good distribution lies between.",
            f"The median weight is {mid:.4f}; a tenth of weights lie outside {low:.4f} to {high:.4f}.",
        ),
        Figure(
            "Weights by rank",
            ranges(by_rank, title="weight w", axis="rank of the positive in the catalogue", domain=(0, 1), at=0.5),
            "Medians and quartiles of the weight, by the rank of the positive in the full catalogue. Up to rank "
            f"{scores.k} weights are ½ (dashed) or more; τ_w determines how fast they fall beyond it.",
            "; ".join(f"rank {row['group']}: {row['mid']:.4f}" for row in by_rank.iter_rows(named=True)) + ".",
            Table(columns, rows, numbers=columns[1:]),
        ),
    ]
    return Section(title, [text], figures=figures)


def gradient_section(subject: Subject) -> Section:
    """Concentration of the gradient on few positives."""
    title, model = "Concentration of the gradient", subject.run.model
    if isinstance(subject.loss, str):
        return Section(title, [f"{_why_no_thresholds(subject)} There is no gradient."])
    kept = _thresholds(subject)
    try:
        settings = TrainingSettings(**subject.run.config["training"])
        size_P = gradients(
            cast(TrainableModel, model),
            subject.loss,
            subject.split.train,
            settings,
            None if kept is None else kept.k,
            int(subject.run.metrics.get("epochs") or 1),
            subject.seed,
        )
    except ShortlistError as problem:
        return Section(title, [f"The training steps cannot be repeated ({problem})."])
    if not bool(size_P.isfinite().all()):
        return Section(title, ["The gradient is not finite everywhere."])
    if not float(size_P.sum()) > 0:
        return Section(title, [f"Of {len(size_P):,} positives, none receives a gradient."])
    carried = {top: carried_by_top(size_P, top) for top in TOPS}
    columns = ["the top", "carry"]
    text = (
        f"|∂L/∂s| of {len(size_P):,} positives of training (drawn at random) at the trained model: the gradient of the "
        f"loss with respect to the score of each. The top 5 % carry {carried[0.05]:.1%} of the sum."
    )
    picture = Figure(
        "Share of the gradient that the top positives carry",
        shares(concentration(size_P), title="share of the gradient", axis="share of positives, largest first"),
        "On the dashed line all positives count equally, as in SL, where 5 % carry 5 %. A curve that rises steeply at "
        "the left learns from few positives; SL@K's Figure 1c reports over 90 % for the top 5 % with LambdaLoss@K and "
        "SONG@K, and less than 15 % with SL@K.",
        "; ".join(f"the top {top:.0%} carry {share:.1%}" for top, share in carried.items()) + ".",
        Table(columns, [[f"{top:.0%}", f"{share:.1%}"] for top, share in carried.items()], numbers=columns),
    )
    return Section(title, [text, *_missing_state(subject.loss)], figures=[picture])


def _missing_state(loss: Loss) -> list[str]:
    """A note for losses with state that a run does not store."""
    if not loss.state_dict():
        return []
    return ["The loss has moving averages or scalars that a run does not store; they have their initial values here."]
