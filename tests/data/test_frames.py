"""Frames of every library give what a file gives, and bad ones one clear line."""

import datetime as dt
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from shortlist.data import Interactions, LoadOptions, Split, from_polars, load, read, to_interactions, to_polars
from shortlist.data.columns import Columns, assign
from shortlist.errors import InputError, MissingExtra

CSV = """customer_no,sku,rating,ts
ann,30,4.5,2024-05-31T08:30:00
bob,10,1,2024-06-01
ann,10,-2,2024-05-31T08:30:00
cleo,20,3,2024-06-02T00:00:00Z
bob,30,5,2024-05-30
ann,30,3,2024-06-03
bob,20,2,2024-06-01
cleo,10,3,2024-06-02
"""


def duckdb_relation(frame: pl.DataFrame) -> duckdb.DuckDBPyRelation:
    return duckdb.from_arrow(frame.to_arrow())


LIBRARIES: dict[str, Callable[[pl.DataFrame], Any]] = {
    "polars": lambda frame: frame,
    "polars lazy": lambda frame: frame.lazy(),
    "pandas": lambda frame: frame.to_pandas(),
    "pandas with pyarrow types": lambda frame: frame.to_pandas(use_pyarrow_extension_array=True),
    "pandas with objects": lambda frame: frame.to_pandas().astype(object),
    "pandas with another index": lambda frame: frame.to_pandas().set_index(pd.Index(range(50, 50 + len(frame)))),
    "pyarrow": lambda frame: frame.to_arrow(),
    "duckdb": duckdb_relation,
}


@pytest.fixture
def clicks(tmp_path: Path) -> Path:
    path = tmp_path / "clicks.csv"
    path.write_text(CSV)
    return path


def arrays(interactions: Interactions | None) -> list[Any]:
    assert interactions is not None
    events = interactions.events
    found = [interactions.indptr, interactions.indices, interactions.weights, interactions.times]
    found += [events.indptr, events.items, events.times, events.weights]
    return [
        interactions.user_ids.to_list(),
        interactions.item_ids.to_list(),
        *((array.dtype, array.tolist()) for array in found if array is not None),
    ]


@pytest.mark.parametrize("dates", ["text", "dates"])
@pytest.mark.parametrize("library", LIBRARIES)
def test_a_frame_gives_what_the_file_gives(clicks: Path, library: str, dates: str) -> None:
    frame = pl.read_csv(clicks)
    if dates == "dates":
        frame = frame.with_columns(read(clicks)["time"].alias("ts"))
    converted = LIBRARIES[library](frame)
    from_file = arrays(to_interactions(read(clicks)))
    assert len(from_file) == 10
    assert arrays(Interactions.from_frame(converted)) == from_file
    named = Interactions.from_frame(converted, user="customer_no", item="sku", weight="rating", time="ts")
    assert arrays(named) == from_file
    for settings in ({"split": "last", "cold_users": "drop"}, {"seed": 3, "min_rating": -2.0}, {"weight": "-"}):
        one, other = load(clicks, **settings), load(converted, **settings)
        assert (one.frame_library, other.frame_library) == ("polars", library.split()[0])
        assert one.repeated_pairs == other.repeated_pairs == 1
        assert arrays(one.train) == arrays(other.train)
        assert arrays(one.test) == arrays(other.test)


@pytest.mark.parametrize("library", LIBRARIES)
def test_there_and_back(library: str) -> None:
    frame = pl.DataFrame({"user": ["ann", "bob"], "item": [3, 4], "score": [0.5, 1.5]})
    converted = LIBRARIES[library](frame)
    inside, name = to_polars(converted)
    assert inside.equals(frame)
    back = from_polars(inside, name)
    kinds = {"polars": pl.DataFrame, "pandas": pd.DataFrame, "pyarrow": pa.Table, "duckdb": pa.Table}
    assert type(back) is kinds[name]
    assert to_polars(back)[0].equals(frame)


U = [UUID(int=5), UUID(int=4)]
IDS: dict[str, tuple[Any, list[Any]]] = {
    "whole floats of pandas": (pd.Series([2.0, 1.0]), [1, 2]),
    "nullable integers of pandas": (pd.Series([2, 1], dtype="Int64"), [1, 2]),
    "categories of text": (pd.Series(["b", "a"], dtype="category"), ["a", "b"]),
    "categories of numbers": (pd.Series([20, 3], dtype="category"), [3, 20]),
    "UUIDs in pandas": (pd.Series(U), [str(U[1]), str(U[0])]),
    "UUIDs in polars": (pl.Series(U, dtype=pl.Object), [str(U[1]), str(U[0])]),
    "text and numbers": (pd.Series(["b", 7], dtype=object), ["7", "b"]),
    "Python's integers": (pd.Series([10, 9], dtype=object), [9, 10]),
    "an enum": (pl.Series(["b", "a"], dtype=pl.Enum(["b", "a"])), ["a", "b"]),
    "large numbers": (pl.Series([2**64 - 1, 1], dtype=pl.UInt64), [1, 2**64 - 1]),
    "texts of digits": (pl.Series(["10", "9"]), ["10", "9"]),
}


@pytest.mark.parametrize("case", IDS)
def test_ids_of_many_types(case: str) -> None:
    column, expected = IDS[case]
    maker = pd.DataFrame if isinstance(column, pd.Series) else pl.DataFrame
    interactions = Interactions.from_frame(maker({"user": column, "item": column}))
    assert interactions.user_ids.to_list() == interactions.item_ids.to_list() == expected


MOMENT = 1_717_144_200_000_000  # 2024-05-31 08:30 UTC in microseconds
TIMES: dict[str, tuple[Any, int]] = {
    "Timestamps": (pd.Series([pd.Timestamp("2024-05-31 08:30")] * 2), MOMENT),
    "Timestamps as objects": (pd.Series([pd.Timestamp("2024-05-31 08:30")] * 2, dtype=object), MOMENT),
    "a zone": (pd.Series(pd.to_datetime(["2024-05-31T10:30:00+02:00"] * 2)), MOMENT),
    "nanoseconds": (pd.Series(pd.to_datetime(["2024-05-31 08:30"] * 2)).astype("datetime64[ns]"), MOMENT),
    "Python's datetimes": (pl.Series([dt.datetime(2024, 5, 31, 8, 30)] * 2), MOMENT),
    "dates as objects": (pd.Series([dt.date(1970, 1, 2)] * 2, dtype=object), 86_400_000_000),
    "ISO text": (pl.Series(["2024-05-31T08:30:00Z", "2024-05-31 08:30"]), MOMENT),
    "whole numbers": (pl.Series([12, 12], dtype=pl.UInt16), 12),
    "whole floats": (pd.Series([12.0, 12.0]), 12),
    "fractions": (pd.Series([1.5, 1.5]), 1_500_000),
}


@pytest.mark.parametrize("case", TIMES)
def test_times_of_many_types(case: str) -> None:
    column, expected = TIMES[case]
    maker = pd.DataFrame if isinstance(column, pd.Series) else pl.DataFrame
    interactions = Interactions.from_frame(maker({"user": [1, 2], "item": [1, 1], "time": column}))
    assert interactions.times is not None
    assert interactions.times.tolist() == [expected] * 2


@pytest.mark.parametrize(
    "column",
    [
        pd.Series([True, False]),
        pd.Series([Decimal("1.0"), Decimal("0.0")]),
        pl.Series([Decimal("1.0"), Decimal("0.0")]),
        pl.Series(["1", "0"]),
        pd.Series([1, 0], dtype="Int8"),
    ],
)
def test_weights_of_many_types(column: Any) -> None:
    maker = pd.DataFrame if isinstance(column, pd.Series) else pl.DataFrame
    interactions = Interactions.from_frame(maker({"user": [1, 2], "item": [1, 1], "weight": column}))
    assert interactions.weights is not None
    assert (interactions.weights.dtype, interactions.weights.tolist()) == (np.float32, [1.0, 0.0])


def three(**columns: list[Any]) -> pd.DataFrame:
    return pd.DataFrame({"user": ["a", "b", "c"], "item": [1, 2, 3], **columns})


# Each frame, settings, and what the line must say.
BAD: dict[str, tuple[Any, dict[str, Any], str]] = {
    "no such column": (three(), {"user": "x"}, "expected a column 'x' for the user, received the columns user, item"),
    "no item": (three()[["user"]], {}, "expected an item column .*received the columns user$"),
    "one column twice": (
        three(),
        {"user": "item", "item": "item"},
        "a different column for each role, received user = item",
    ),
    "null user": (three(user=["a", None, "c"]), {}, "row 1, column 'user': expected an id, received nothing"),
    "NaN user": (three(user=["a", np.nan, "c"]), {}, "row 1, column 'user': expected an id, received nothing"),
    "gap in whole numbers": (three(item=[1, 2, None]), {}, "row 2, column 'item': expected an id, received nothing"),
    "nothing but nulls": (three(item=[None] * 3), {}, "row 0, column 'item': expected an id, received nothing"),
    "empty user": (three(user=["a", "b", ""]), {}, "row 2, column 'user': expected an id, received nothing"),
    "spaces": (three(user=["a", " b", "c"]), {}, "row 1, column 'user': expected an id without spaces around it"),
    "spaces and a threshold": (
        three(user=["a", " b", "c"], weight=[1, 5, 5]),
        {"min_rating": 2},
        "row 1, column 'user': expected an id without spaces around it, received ' b'",
    ),
    "fractions as ids": (three(item=[1.0, 2.5, 3.0]), {}, r"row 1, column 'item': expected text or whole .* 2\.5"),
    "floats that are too large": (three(item=[1.0, 2e17, 3.0]), {}, "row 1, column 'item': expected text or whole"),
    "truth values as ids": (three(item=[True, False, True]), {}, "column 'item': expected text or whole numbers"),
    "bytes as ids": (three(item=[b"x", b"y", b"z"]), {}, "column 'item': expected text or whole numbers"),
    "tuples as ids": (three(item=[(1, 2)] * 3), {}, "column 'item': expected text, numbers or .* of type tuple"),
    "objects as ids": (three(item=[object()] * 3), {}, "column 'item': expected text, numbers or .* of type object"),
    "complex": (three(item=[1j, 2j, 3j]), {}, "column 'item': expected text, numbers or times, received"),
    "null weight": (three(rating=[1.0, None, 2.0]), {}, "row 1, column 'rating': expected a number, received nothing"),
    "infinite weight": (three(rating=[1.0, 2.0, np.inf]), {}, "row 2, column 'rating': expected a number, received"),
    "weight of 64 bits": (three(rating=[1.0, 2.0, 1e39]), {}, "row 2, column 'rating': expected a number, received"),
    "weight in words": (three(rating=["1", "good", "3"]), {}, "row 1, column 'rating': expected a .*received 'good'"),
    "weights of times": (three(weight=[dt.datetime(2024, 5, 31)] * 3), {}, "column 'weight': expected numbers"),
    "time in words": (three(ts=["2024-05-31", "soon", "2024"]), {}, "row 1, column 'ts': expected .*received 'soon'"),
    "no time": (three(ts=[pd.Timestamp("2024-05-31"), pd.NaT, pd.NaT]), {}, "row 1, column 'ts': .*received nothing"),
    "no times at all": (three(ts=[None] * 3), {}, "row 0, column 'ts': expected .*received nothing"),
    "truth values as times": (three(ts=[True, False, True]), {}, "column 'ts': expected times, received Boolean"),
    "no rows": (three()[:0], {}, "expected rows, received none"),
    "one user": (three(user=["a"] * 3), {}, "expected at least two users, received only 'a'"),
    "no weight for the threshold": (three(), {"min_rating": 3}, "expected a weight column for min_rating 3"),
    "nothing above the threshold": (three(weight=[1, 2, 2]), {"min_rating": 3}, "expected interactions that pass"),
    "two columns of one name": (pd.DataFrame([[1, 2]], columns=["a", "a"]), {}, "expected a name for each column"),
    "a number and its text as names": (
        pd.DataFrame([[1, 2]], columns=[1, "1"]),
        {},
        "for each column, received '1' twice",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_frames(case: str) -> None:
    frame, settings, expected = BAD[case]
    for call in (Interactions.from_frame, load):
        with pytest.raises(InputError, match=expected) as problem:
            call(frame, **settings)
        line = str(problem.value)
        assert "\n" not in line
        assert "DataFrame" in line
        assert problem.value.__cause__ is None


def test_nan_in_a_polars_frame() -> None:
    frame = pl.DataFrame({"user": [1, 2], "item": [1, 2], "weight": [1.0, float("nan")]})
    with pytest.raises(InputError, match="row 1, column 'weight': expected a number, received nan"):
        Interactions.from_frame(frame)
    with pytest.raises(InputError, match=r"table: row 1, column 'weight': expected a number, received nan"):
        to_interactions(frame)


def test_the_former_door_checks_too() -> None:
    with pytest.raises(InputError, match="table: row 1, column 'user': expected an id, received nothing"):
        to_interactions(pl.DataFrame({"user": [1, None], "item": [1, 2]}))
    with pytest.raises(InputError, match="clicks: row 0, column 'weight': expected a number, received nothing"):
        to_interactions(pl.DataFrame({"user": [1], "item": [1], "weight": [None]}), owner="clicks")
    with pytest.raises(InputError, match="table: expected a column 'user' for the user"):
        to_interactions(pl.DataFrame({"customer": [1], "item": [1]}))
    dated = to_interactions(pl.DataFrame({"user": [1, 2], "item": [1, 2], "time": ["1970-01-01", "1970-01-02"]}))
    assert dated.times is not None
    assert dated.times.tolist() == [0, 86_400_000_000]


@pytest.mark.parametrize("source", [3, None, [1, 2], {"user": [1]}, pl.Series([1])])
def test_what_is_no_frame(source: object) -> None:
    for call in (Interactions.from_frame, load):
        with pytest.raises(InputError, match=rf"expected a path, .* DataFrame .*received {type(source).__name__}$"):
            call(source)


def test_queries_that_fail() -> None:
    broken = pl.LazyFrame({"user": ["a"], "item": ["x"]}).with_columns(pl.col("item").cast(pl.Int64))
    with pytest.raises(InputError, match="polars LazyFrame: expected a computable query, received InvalidOp"):
        load(broken)
    with pytest.raises(InputError, match="LazyFrame: expected a frame with columns, received ColumnNotFoundError"):
        load(pl.LazyFrame({"user": ["a"]}).select("item"))
    with pytest.raises(InputError, match="DuckDB relation: expected a column 'who' for the user, received the columns"):
        load(duckdb.sql("select 1 as user, 2 as item"), user="who")


def test_columns_whose_names_are_numbers() -> None:
    frame = pd.DataFrame([["a", 1], ["b", 2]])
    assert Interactions.from_frame(frame, user="0", item="1").user_ids.to_list() == ["a", "b"]
    with pytest.raises(InputError, match=r"expected a user column .*received the columns 0, 1$"):
        Interactions.from_frame(frame)


def test_more_names_are_guessed() -> None:
    for user, item in [("customer_no", "product_code"), ("CustomerID", "StockCode"), ("buyer", "Article-No")]:
        assert assign("t", [user, item], Columns()) == {"user": user, "item": item}


def test_settings_of_load(clicks: Path) -> None:
    options = LoadOptions(split="last", cold_users="drop")
    split = load(clicks, options, valid_share=0.0)
    assert split.valid is None
    assert arrays(split.test) == arrays(load(clicks, split="last", cold_users="drop", valid_share=0.0).test)
    with pytest.raises(InputError, match="LoadOptions"):
        load(clicks, splits="last")
    with pytest.raises(InputError, match=r"LoadOptions\.split: expected"):
        load(clicks, split="first")
    with pytest.raises(InputError, match="delimiter: expected none for a polars DataFrame, received ';'"):
        load(pl.read_csv(clicks), delimiter=";")


def test_a_split_carries_its_protocol(clicks: Path) -> None:
    split = load(clicks, test_share=0.4, valid_share=0.3)
    assert split.protocol == "shortlist"
    assert split.exclusions("valid") == (split.train,)
    assert split.exclusions("test") == (split.train, split.valid)
    split = load(clicks, protocol="irbenchmark")
    assert split.valid is not None
    assert split.exclusions("valid") == split.exclusions("test") == (split.train,)
    with pytest.raises(InputError, match="exclusions: expected valid or test, received 'train'"):
        split.exclusions("train")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="protocol: expected shortlist or irbenchmark, received 'sampled'"):
        Split(split.train, None, None, protocol="sampled")  # type: ignore[arg-type]


def test_what_people_see(clicks: Path) -> None:
    interactions = Interactions.from_frame(pl.read_csv(clicks))
    assert repr(interactions) == "Interactions(3 users, 3 items, 7 pairs, weights -2 to 5)"
    assert repr(interactions.log) == "EventLog(8 events)"
    assert repr(interactions.events) == "Events(3 users, 8 events)"
    page = interactions._repr_html_()
    for name, value in {"pairs": "7", "density": "77.778%", "events": "8", "time": "2024-05-30 to 2024-06-03"}.items():
        assert f"<th>{name}</th><td>{value}</td>" in page
    page = load(clicks, protocol="irbenchmark")._repr_html_()
    for name, value in {"users": "3", "pairs": "7", "protocol": "irbenchmark"}.items():
        assert f"<th>{name}</th><td>{value}</td>" in page


def test_a_missing_pyarrow_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    frame = pl.DataFrame({"item": [1]})
    monkeypatch.setattr(pl.DataFrame, "to_pandas", lambda self: (_ for _ in ()).throw(ImportError("no pyarrow")))
    with pytest.raises(MissingExtra, match=r"pip install 'shortlist\[frames\]'"):
        from_polars(frame, "pandas")
