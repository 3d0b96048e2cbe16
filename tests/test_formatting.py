"""Numbers as text."""

import math
from typing import Any

import pytest

from shortlist.formatting import (
    MISSING,
    format_argument,
    format_duration,
    format_interval,
    format_number,
    format_p,
    format_range,
    format_setting,
    format_signed,
    format_value,
)


@pytest.mark.parametrize(
    ("p", "text"),
    [(1.0, "1.0000"), (0.0496, "0.0496"), (0.0001, "0.0001"), (0.0000999, "< 0.0001"), (0.0, "< 0.0001"), (None, "")],
)
def test_p_values(p: float | None, text: str) -> None:
    assert format_p(p) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (None, "not known"),
        (0.0, "1 s"),
        (59.6, "1 min 0 s"),
        (3599.4, "59 min 59 s"),
        (3600, "1 h 0 min"),
        (1e5, "27 h 46 min"),
    ],
)
def test_durations(seconds: float | None, text: str) -> None:
    assert format_duration(seconds) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (12_345, "12,345"),
        (2.0, "2"),
        (0.0, "0"),
        (1234.5, "1,234"),
        (1e-7, "1e-07"),
        ({"a": {"b": 1}, "c": None}, "a b 1"),
    ],
)
def test_values_of_any_type(value: Any, text: str) -> None:
    assert format_value(value) == text


@pytest.mark.parametrize(
    ("value", "argument", "setting"),
    [
        (True, "true", "True"),
        (None, "none", "None"),
        ([5, 20], "5,20", "[5, 20]"),
        (1 / 3, str(1 / 3), "0.333333"),
        (2_000_000, "2000000", "2000000"),
    ],
)
def test_settings(value: Any, argument: str, setting: str) -> None:
    assert format_setting(value) == setting
    assert format_argument(value) == argument


def test_what_is_missing_or_undefined() -> None:
    assert format_number(None) == ""
    assert format_number(None, missing=MISSING) == "–"
    assert format_number(math.nan) == "nan"
    assert format_interval(None) == ""
    assert format_range(1, 1) == "1"


def test_signs() -> None:
    assert [format_signed(value) for value in (0.0, 0.25, -0.25)] == ["+0.0000", "+0.2500", "−0.2500"]
