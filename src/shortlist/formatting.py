"""Numbers as text: one form each for metrics, intervals, p-values, counts, durations and settings."""

from __future__ import annotations

import re
from typing import Any

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
"""Characters that terminals act on instead of showing them: controls, escapes, changes of direction, half pairs."""

MISSING = "–"
"""What pages and tables show for a value that does not exist."""


def plain(text: object) -> str:
    r"""A text in which characters that a terminal would act on are written out.

    >>> plain("\x1b[2J[red]ann")
    '\\x1b[2J[red]ann'
    """
    return _CONTROL.sub(lambda found: found[0].encode("unicode_escape").decode(), str(text))


def format_number(value: float | None, digits: int = 4, *, missing: str = "") -> str:
    """A number with a fixed number of decimals.

    >>> format_number(0.12345), format_number(1.25, 1), format_number(None, missing=MISSING)
    ('0.1235', '1.2', '–')
    """
    return missing if value is None else f"{value:.{digits}f}"


def format_signed(value: float, digits: int = 4) -> str:
    """A difference with its sign, a typographic minus for negative ones.

    >>> format_signed(0.01), format_signed(-0.5, 2)
    ('+0.0100', '−0.50')
    """
    return f"{value:+.{digits}f}".replace("-", "−")


def format_interval(interval: tuple[float, float] | None) -> str:
    """Both ends of an interval, nothing where there is none.

    >>> format_interval((0.1, 0.2)), format_interval(None)
    ('0.1000 – 0.2000', '')
    """
    return "" if interval is None else f"{interval[0]:.4f} – {interval[1]:.4f}"


def format_p(p: float | None) -> str:
    """A p-value.

    >>> format_p(0.0123), format_p(3e-9), format_p(None)
    ('0.0123', '< 0.0001', '')
    """
    return "< 0.0001" if p is not None and p < 0.0001 else format_number(p)


def format_range(low: int, high: int) -> str:
    """A range of counts.

    >>> format_range(3, 3), format_range(1, 1200)
    ('3', '1–1,200')
    """
    return f"{low:,}" if low == high else f"{low:,}–{high:,}"


def format_duration(seconds: float | None) -> str:
    """A duration in hours, minutes and seconds.

    >>> format_duration(0.4), format_duration(75), format_duration(7200), format_duration(None)
    ('1 s', '1 min 15 s', '2 h 0 min', 'not known')
    """
    if seconds is None:
        return "not known"
    minutes, rest = divmod(max(1, round(seconds)), 60)
    if minutes >= 60:
        return f"{minutes // 60} h {minutes % 60} min"
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"


def format_value(value: Any) -> str:
    """A value of any type: counts with separators, other numbers to four digits, dictionaries by their entries.

    >>> format_value(12000), format_value(0.123456), format_value({"users": 3, "items": None})
    ('12,000', '0.1235', 'users 3')
    """
    if isinstance(value, dict):
        return ", ".join(f"{key} {format_value(inner)}" for key, inner in value.items() if inner is not None)
    if isinstance(value, float):
        return f"{value:,.0f}" if value.is_integer() and abs(value) >= 1 else f"{value:,.4g}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def format_setting(value: Any) -> str:
    """A setting as a page shows it: floats to six digits.

    >>> format_setting(0.1 + 0.2), format_setting("all")
    ('0.3', 'all')
    """
    return f"{value:g}" if isinstance(value, float) else str(value)


def format_argument(value: Any) -> str:
    """A setting as ``--set`` takes it, with all digits.

    >>> format_argument(True), format_argument((5, 20)), format_argument(0.1)
    ('true', '5,20', '0.1')
    """
    if isinstance(value, bool) or value is None:
        return str(value).lower()
    return ",".join(map(str, value)) if isinstance(value, tuple | list) else str(value)
