"""Any bytes give a frame or an InputError; any table comes back from every format as it went in."""

import gzip
import io
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from shortlist.data import Columns, read
from shortlist.data.columns import looks_like_header
from shortlist.errors import InputError

NAMES = ("a.csv", "a.tsv", "a.data", "a.dat", "a.inter", "train.txt", "a.ndjson", "a.parquet")
PACKED_NAMES = ("a.zip", "a.csv.gz")

# Bytes that come near to a table get further into the readers than bytes at random.
FRAGMENTS = (
    *(
        b"user",
        b"item",
        b"rating",
        b"time",
        b":token",
        b",",
        b"\t",
        b"::",
        b" ",
        b"\n",
        b"\r\n",
        b'"',
        b'""',
        b"\\",
        b"7",
    ),
    *(b"-1", b"a", b"1e999", b"nan", b"2024-05-31", b"9" * 25, b"\xff", b"\x00", b"\xc3\xa9", b"\xef\xbb\xbf", b"\x1f"),
    *(b'{"user":1,"item":2}', b'{"user":"a"}', b"{", b"[", b"null", b"PAR1", b"user,item\n", b"user\titem\n"),
)
NEAR_TABLES = st.lists(st.sampled_from(FRAGMENTS), max_size=25).map(b"".join)


def frame_or_error(name: str, content: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, name)
        path.write_bytes(content)
        line = ""
        try:
            frame = read(path)
        except InputError as problem:
            line = str(problem)
        assert "\n" not in line
        if line:
            return
        assert frame.height > 0
        assert frame.columns[:2] == ["user", "item"]
        assert frame.null_count().sum_horizontal().item() == 0


@pytest.mark.parametrize("name", NAMES + PACKED_NAMES)
@settings(max_examples=150, deadline=None)
@given(content=st.binary(max_size=200) | NEAR_TABLES)
@example(content=b"user,item\n1,2\n3,4,5\n")
@example(content=b'user,item\n"1,2\n')
def test_any_bytes(name: str, content: bytes) -> None:
    frame_or_error(name, content)


@pytest.mark.parametrize("name", ["a.parquet", "a.zip", "a.csv.gz"])
@settings(max_examples=200, deadline=None)
@given(data=st.data())
def test_damaged_files(name: str, data: st.DataObject) -> None:
    """Whole files of which a few bytes were changed or the end is missing."""
    content = bytearray(WHOLE_FILES[name])
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    frame_or_error(name, bytes(content[: data.draw(st.integers(0, len(content)))]))


def whole_files() -> dict[str, bytes]:
    frame = pl.DataFrame({"user": ["ann", "bob", "cleo"], "item": [3, 1, 2], "rating": [1.0, 2.0, 3.0]})
    table, archive = io.BytesIO(), io.BytesIO()
    frame.write_parquet(table)
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as writing:
        writing.writestr("set/train.csv", frame.write_csv())
        writing.writestr("set/test.parquet", table.getvalue())
    return {
        "a.parquet": table.getvalue(),
        "a.zip": archive.getvalue(),
        "a.csv.gz": gzip.compress(frame.write_csv().encode()),
    }


WHOLE_FILES = whole_files()


def write_inter(frame: pl.DataFrame, path: Path) -> None:
    types = {"user": "token", "item": "token", "weight": "float", "time": "float"}
    named = frame.rename({name: f"{name}_id:{types[name]}" if name in ("user", "item") else name for name in types})
    named.write_csv(path, separator="\t", quote_style="never")


def write_double_colon(frame: pl.DataFrame, path: Path) -> None:
    path.write_text("".join("::".join(map(str, row)) + "\n" for row in [frame.columns, *frame.rows()]), newline="")


def write_gzip(frame: pl.DataFrame, path: Path) -> None:
    path.write_bytes(gzip.compress(frame.write_csv().encode()))


WRITERS: dict[str, Callable[[pl.DataFrame, Path], object]] = {
    "a.csv": pl.DataFrame.write_csv,
    "a.tsv": lambda frame, path: frame.write_csv(path, separator="\t"),
    "semicolon.csv": lambda frame, path: frame.write_csv(path, separator=";"),
    "a.csv.gz": write_gzip,
    "a.ndjson": pl.DataFrame.write_ndjson,
    "a.parquet": pl.DataFrame.write_parquet,
    "a.inter": write_inter,
    "a.dat": write_double_colon,
}
QUOTES_NOTHING = {"a.inter", "a.dat"}

WHOLE_NUMBERS = st.integers(-(2**63), 2**63 - 1)
LETTERS = st.characters(codec="utf-8", exclude_characters="\x1f")
TEXTS = st.text(LETTERS, min_size=1, max_size=8).filter(lambda text: text.strip() == text)
TEXTS_WITHOUT_CONTROLS = st.text(
    st.characters(codec="utf-8", categories=["L", "N", "P", "S"], exclude_characters='":'), min_size=1, max_size=8
)


@st.composite
def tables(draw: st.DrawFn, texts: st.SearchStrategy[str]) -> pl.DataFrame:
    size = draw(st.integers(1, 8))
    columns: dict[str, pl.Series] = {}
    for role in ("user", "item"):
        is_number = draw(st.booleans())
        values = draw(st.lists(WHOLE_NUMBERS if is_number else texts, min_size=size, max_size=size))
        columns[role] = pl.Series(values, dtype=pl.Int64 if is_number else pl.String)
    weights = st.floats(allow_nan=False, allow_infinity=False, width=32)
    columns["weight"] = pl.Series(draw(st.lists(weights, min_size=size, max_size=size)), dtype=pl.Float64)
    columns["time"] = pl.Series(draw(st.lists(WHOLE_NUMBERS, min_size=size, max_size=size)), dtype=pl.Int64)
    return pl.DataFrame(columns)


@pytest.mark.parametrize("name", WRITERS)
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_round_trip(name: str, data: st.DataObject) -> None:
    frame = data.draw(tables(TEXTS_WITHOUT_CONTROLS if name in QUOTES_NOTHING else TEXTS))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, name)
        WRITERS[name](frame, path)
        received = read(path)
    # Texts that are all numbers are numbers in a text format; as texts they are the same.
    ids = pl.col("user", "item").cast(pl.String)
    assert_frame_equal(received.with_columns(ids), frame.with_columns(ids), check_exact=True)
    typed = [role for role in ("user", "item") if frame.schema[role] == pl.Int64]
    assert all(received.schema[role] == pl.Int64 for role in typed)


@settings(max_examples=60, deadline=None)
@given(
    rows=st.dictionaries(TEXTS_WITHOUT_CONTROLS, st.lists(TEXTS_WITHOUT_CONTROLS, min_size=1, max_size=5), min_size=1)
)
def test_round_trip_of_lightgcn(rows: dict[str, list[str]]) -> None:
    user, items = next(iter(rows.items()))
    assume(not looks_like_header([user, *items], Columns()))  # ids that spell "user item" cannot be told from a header
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "train.txt")
        path.write_text("".join(f"{user} {' '.join(items)}\n" for user, items in rows.items()))
        received = read(path)
    expected = [(user, item) for user, items in rows.items() for item in items]
    assert received.cast(pl.String).rows() == expected
