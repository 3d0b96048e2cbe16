"""Example lists for a few users of different activity."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from shortlist.data import IntArray
from shortlist.ranking import top_k
from shortlist.report.page import Cell, Section, Table
from shortlist.report.run.context import Subject

USERS = 4
PLACES = 10
NAMED = 12
"""Maximum number of history items that are listed."""


def examples_section(subject: Subject) -> Section:
    """The first places of a few users' lists, with held-out items marked."""
    title, split = "Example lists", subject.split
    evaluated = split.test if split.test is not None and split.test.n_pairs else split.train
    users = example_users(split.train.user_counts() * (evaluated.user_counts() > 0), subject.seed)
    if not len(users):
        return Section(title, ["There is no user with training items."])
    marked = "Items marked ✓ were held out for test and found; the others are wrong, or good suggestions."
    text = (
        f"The first {min(PLACES, split.train.n_items)} places for {len(users)} users, from the least to the most "
        f"active, drawn at random with seed {subject.seed}. Known items of a user are excluded. "
        + (marked if split.test is not None else "The run has no test items to mark.")
    )
    return Section(title, [text], [_list(subject, int(user)) for user in users])


def example_users(activity_U: IntArray, seed: int, count: int = USERS) -> IntArray:
    """One user from each of ``count`` groups by activity, in ascending order; users of activity 0 are left out.

    >>> users = example_users(np.array([5, 0, 1, 9, 3]), seed=0, count=2)
    >>> [int(user) in group for user, group in zip(users, ({2, 4}, {0, 3}))]
    [True, True]
    """
    users = np.flatnonzero(activity_U)
    ordered = users[np.argsort(activity_U[users], kind="stable")]
    generator = np.random.default_rng([seed, 2])
    chosen = [generator.choice(group) for group in np.array_split(ordered, count) if len(group)]
    return np.array(chosen, np.int64)


def _list(subject: Subject, user: int) -> Table:
    run, split = subject.run, subject.split
    length = min(PLACES, split.train.n_items)
    ranking = top_k(run.model, np.array([user]), length, exclude=run.measured_exclusions)
    taken = ranking.items_RK[0] >= 0
    held_out = set() if split.test is None else set(split.test.row(user).tolist())
    rows: list[list[Cell | str]] = []
    for place, (item, score) in enumerate(
        zip(ranking.items_RK[0][taken].tolist(), ranking.scores_RK[0][taken].tolist(), strict=True), start=1
    ):
        name, is_hit = str(run.items.values[item]), item in held_out
        row: list[Cell | str] = [str(place), Cell(f"{name} ✓" if is_hit else name, is_hit), f"{score:.4f}"]
        rows.append([*row, subject.titles.get(name, "")] if subject.titles else row)
    columns = ["", "item", "score", *(["title"] if subject.titles else [])]
    history = split.train.row(user)
    found = [item for item in ranking.items_RK[0][taken].tolist() if item in held_out]
    notes = [f"In training: {_named(subject, history.tolist())}."]
    if held_out:
        missed = sorted(held_out - set(found))
        notes.append(f"Held out: {len(held_out)}, of which {len(found)} are in the list")
        notes[-1] += f"; not in it: {_named(subject, missed)}." if missed else "."
    caption = f"{run.users.values[user]}, {len(history):,} item{'s' if len(history) != 1 else ''} in training"
    return Table(columns, rows, caption, numbers=["score"], note=" ".join(notes))


def _named(subject: Subject, items: Sequence[int]) -> str:
    names = [str(subject.run.items.values[item]) for item in items[:NAMED]]
    more = f" and {len(items) - NAMED:,} more" if len(items) > NAMED else ""
    return ", ".join(names) + more
