"""The report of the demo: models on the built-in dataset, with example lists."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from shortlist.data import Split
from shortlist.data.builtin import DEBIAN, load_debian_titles
from shortlist.recommend import recommend
from shortlist.report.model_comparison import Entry, accuracy_section, breakdown_section
from shortlist.report.page import Cell, Page, Section, Table
from shortlist.runs import Run


@dataclass(frozen=True)
class Place:
    """A place of a list: the package, its title, and whether it was held out."""

    rank: int
    item: str
    title: str
    hit: bool


@dataclass(frozen=True)
class Example:
    """The known and held-out items of a source package, and the lists of the models."""

    user: str
    known: Sequence[str]
    held_out: Sequence[str]
    lists: Mapping[str, Sequence[Place]]

    def as_json(self) -> dict[str, Any]:
        """The example as JSON."""
        return asdict(self)


def example_lists(runs: Mapping[str, Run], users: Sequence[str], k: int) -> list[Example]:
    """The first K places of each run for some source packages."""
    titles = dict(load_debian_titles().iter_rows())
    split = next(iter(runs.values())).split
    assert split.test is not None
    found = {name: recommend(run, users, k, filter_seen="measured") for name, run in runs.items()}
    examples = []
    for user in users:
        index = next(iter(runs.values())).users.index(user)
        held_out = split.test.item_ids[split.test.row(index)].to_list()
        lists = {
            name: [
                Place(rank, item, titles.get(item) or "", item in held_out)
                for _, item, rank, _ in table.filter(user_id=user).iter_rows()
            ]
            for name, table in found.items()
        }
        examples.append(Example(user, split.train.item_ids[split.train.row(index)].to_list(), held_out, lists))
    return examples


def demo_page(entries: Sequence[Entry], split: Split, examples: Sequence[Example], k: int) -> Page:
    """Build the report."""
    lead = (
        f"{DEBIAN.users:,} source packages of {DEBIAN.release} are the users, the {DEBIAN.items:,} packages "
        f"that they depend on or recommend the items; {DEBIAN.interactions:,} pairs. A fifth of each user's items is "
        "held out: which model finds them again?"
    )
    return Page(
        "What does a package need?",
        lead,
        [
            accuracy_section(entries, k),
            breakdown_section(entries, split, k),
            Section("Example lists", [_LISTS], [_table(example) for example in examples]),
        ],
    )


_LISTS = (
    "The first places of each model's list for well-known packages, the best model on validation first. Items marked "
    "✓ were held out of training and found again; the others are either wrong or good suggestions."
)


def _table(example: Example) -> Table:
    names = list(example.lists)
    longest = max(len(places) for places in example.lists.values())
    rows = [[str(row + 1), *(_cell(example.lists[name], row) for name in names)] for row in range(longest)]
    known = ", ".join(example.known[:6]) + (f" and {len(example.known) - 6} more" if len(example.known) > 6 else "")
    return Table(["", *names], rows, f"{example.user}: known to need {known}")


def _cell(places: Sequence[Place], row: int) -> Cell | str:
    if row >= len(places):
        return ""
    place = places[row]
    return Cell(f"{place.item} ✓" if place.hit else place.item, place.hit)
