"""Short tables of interactions and splits for notebooks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from html import escape
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from shortlist.data.interactions import Interactions
    from shortlist.data.splits import Split


def html_table(title: str, rows: Mapping[str, str]) -> str:
    """A table of two columns under a title.

    >>> html_table("Split", {"users": "2"})
    '<table><caption>Split</caption><tbody><tr><th>users</th><td>2</td></tr></tbody></table>'
    """
    body = "".join(f"<tr><th>{escape(name)}</th><td>{escape(value)}</td></tr>" for name, value in rows.items())
    return f"<table><caption>{escape(title)}</caption><tbody>{body}</tbody></table>"


def describe_interactions(interactions: Interactions) -> dict[str, str]:
    """Sizes, density and time span, formatted."""
    log = interactions.log
    return {
        **_sizes([interactions]),
        **({} if log is None else {"events": f"{len(interactions.events):,}"}),
        **_time_span([interactions]),
    }


def describe_split(split: Split) -> dict[str, str]:
    """Sizes of the data and of its parts, density, time span and protocol, formatted."""
    parts = {"train": split.train, "valid": split.valid, "test": split.test}
    given = {name: part for name, part in parts.items() if part is not None}
    return {
        **_sizes(list(given.values())),
        **{f"pairs of {name}": f"{part.n_pairs:,}" for name, part in given.items()},
        **_time_span(list(given.values())),
        "protocol": split.protocol,
    }


def time_range(parts: Sequence[Interactions]) -> dict[str, Any] | None:
    """First and last time of the interactions, with their dates if they are Unix times."""
    times = [part.times for part in parts if part.times is not None and len(part.times)]
    if not times:
        return None
    first, last = int(min(part.min() for part in times)), int(max(part.max() for part in times))
    return {"first": first, "last": last, "first_date": _date(first, last), "last_date": _date(last, last)}


def _sizes(parts: Sequence[Interactions]) -> dict[str, str]:
    users, items, pairs = parts[0].n_users, parts[0].n_items, sum(part.n_pairs for part in parts)
    density = pairs / max(users * items, 1)
    return {"users": f"{users:,}", "items": f"{items:,}", "pairs": f"{pairs:,}", "density": f"{density:.3%}"}


def _time_span(parts: Sequence[Interactions]) -> dict[str, str]:
    span = time_range(parts)
    if span is None:
        return {}
    first, last = (str(span[f"{end}_date"] or span[end]) for end in ("first", "last"))
    return {"time": f"{first} to {last}"}


def unix_unit(last: float) -> int | None:
    """Units per second of a Unix time, inferred from the last time (1973 to 5138); None for other numbers.

    >>> unix_unit(1_700_000_000), unix_unit(1_700_000_000_000), unix_unit(20)
    (1, 1000, None)
    """
    return next((unit for unit in (1, 10**3, 10**6, 10**9) if 10**8 <= last / unit < 10**11), None)


def _date(time: int, last: int) -> str | None:
    """The date of a Unix time in seconds, milli-, micro- or nanoseconds, as inferred from the last time."""
    unit = unix_unit(last)
    if unit is None or time < 0:
        return None
    return datetime.fromtimestamp(time // unit, UTC).date().isoformat()
