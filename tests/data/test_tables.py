"""Every format in, the same frame out."""

import datetime as dt
import gzip
import zipfile
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

from shortlist.data import Columns, read
from shortlist.data.tables import read_parts
from shortlist.errors import InputError

PLAIN = [("ann", 10, 4.0, 100), ("bob", 30, 5.0, 300), ("ann", 20, 1.5, 200)]
HEADER = ("user_id", "item_id", "rating", "timestamp")


def text(rows: list[tuple[object, ...]], delimiter: str, header: tuple[str, ...] = ()) -> str:
    return "".join(delimiter.join(map(str, row)) + "\n" for row in [header, *rows] if row)


FILES = {
    "a.csv": text(PLAIN, ",", HEADER),
    "windows.csv": "\ufeff" + text(PLAIN, ",", HEADER).replace("\n", "\r\n"),
    "blank-lines.csv": text(PLAIN, ",", HEADER).replace("\n", "\n\n"),
    "no-end.csv": text(PLAIN, ",", HEADER).rstrip("\n"),
    "quoted.csv": '"user_id","item_id","rating","timestamp"\n' + text(PLAIN, ","),
    "semicolon.csv": text(PLAIN, ";", HEADER),
    "camel.csv": text(PLAIN, ",", ("userId", "movieId", "Rating", "Time")),
    "a.tsv": text(PLAIN, "\t", ("uid", "SKU", "score", "date")),
    "bars.tsv": text(PLAIN, "|", HEADER),
    "a.inter": text(PLAIN, "\t", ("user_id:token", "item_id:token", "rating:float", "timestamp:float")),
    "a.data": text(PLAIN, "\t"),
    "header.data": text(PLAIN, "\t", HEADER),
    "a.dat": text(PLAIN, "::"),
    "header.txt": text(PLAIN, " ", HEADER),
    "a.ndjson": "".join(
        f'{{"customer_id": "{u}", "product": {i}, "weight": {w}, "ts": {t}}}\n' for u, i, w, t in PLAIN
    ),
}


@pytest.mark.parametrize("packed", [False, True], ids=["plain", "gzip"])
@pytest.mark.parametrize("name", FILES)
def test_every_text_format_gives_the_same_frame(tmp_path: Path, name: str, packed: bool) -> None:
    content = FILES[name].encode()
    path = tmp_path / (name + ".gz" if packed else name)
    path.write_bytes(gzip.compress(content) if packed else content)
    frame = read(path)
    assert frame.rows() == PLAIN
    assert frame.columns == ["user", "item", "weight", "time"]
    assert frame.dtypes == [pl.String, pl.Int64, pl.Float64, pl.Int64]


@pytest.mark.parametrize("packed", [False, True], ids=["plain", "gzip"])
def test_parquet(tmp_path: Path, packed: bool) -> None:
    path = tmp_path / "a.parquet"
    pl.DataFrame(PLAIN, schema=HEADER, orient="row").write_parquet(path)
    if packed:
        path = path.with_suffix(".parquet.gz")
        path.write_bytes(gzip.compress((tmp_path / "a.parquet").read_bytes()))
    assert read(path).rows() == PLAIN


@pytest.mark.parametrize("kind", [pl.Int8, pl.UInt32, pl.Int64, pl.UInt64, pl.String])
def test_ids_of_typed_formats_keep_their_type(tmp_path: Path, kind: pl.DataType) -> None:
    path = tmp_path / "a.parquet"
    pl.DataFrame({"user": pl.Series([1, 2]).cast(kind), "item": pl.Series([3, 4]).cast(kind)}).write_parquet(path)
    assert read(path).dtypes == [kind, kind]


def test_categories_become_text(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pl.DataFrame({"user": ["b", "a"], "item": ["x", "y"]}, schema_overrides={"user": pl.Categorical}).write_parquet(
        path
    )
    assert read(path)["user"].to_list() == ["b", "a"]


@pytest.mark.parametrize("odd", ["007", "+7", "-0", "1.0", "1e3", "99999999999999999999", "x"])
def test_ids_of_text_formats_are_numbers_only_if_they_read_the_same_when_written_back(tmp_path: Path, odd: str) -> None:
    path = tmp_path / "a.csv"
    path.write_text(f"user,item\n1,-5\n2,{odd}\n")
    frame = read(path)
    assert frame["user"].to_list() == [1, 2]
    assert frame["item"].to_list() == ["-5", odd]


def test_lightgcn(tmp_path: Path) -> None:
    path = tmp_path / "train.txt"
    path.write_text("0 5 3\n1 5\n2 \n3\n")
    assert read(path).rows() == [(0, 5), (0, 3), (1, 5)]


def test_text_of_one_pair_a_line(tmp_path: Path) -> None:
    path = tmp_path / "pairs.txt"
    path.write_text("a x\na y\nb x\n")
    assert read(path).rows() == [("a", "x"), ("a", "y"), ("b", "x")]


def test_a_text_table_without_a_header_is_not_taken_for_lightgcn(tmp_path: Path) -> None:
    path = tmp_path / "ratings.txt"
    path.write_text("1 10 5.0 100\n1 20 3.0 200\n2 10 4.0 150\n")
    with pytest.raises(InputError, match=r"one line for each user .* received several for '1'; .* give its delimiter"):
        read(path)
    by_position = Columns(user="1", item="2", weight="3")
    for options in ({"columns": by_position}, {"columns": by_position, "delimiter": " "}):
        assert read(path, **options).rows() == [(1, 10, 5.0), (1, 20, 3.0), (2, 10, 4.0)]


def test_columns_by_position(tmp_path: Path) -> None:
    path = tmp_path / "ratings_Beauty.csv"
    path.write_text("A3NH,0205616461,5.0,1369699200\nA3OJ,0558925278,3.0,1355443200\n")
    frame = read(path, columns=Columns(user="1", item="2", weight="3", time="4"))
    assert frame.rows() == [("A3NH", "0205616461", 5.0, 1369699200), ("A3OJ", "0558925278", 3.0, 1355443200)]
    with pytest.raises(InputError, match="give the columns by position: user 1, item 2"):
        read(path)


def test_named_columns_win_over_guesses(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("user_id,who,item_id,rating,time\n1,2,3,x,y\n4,5,6,x,y\n")
    columns = Columns(user="who", weight="-", time="-")
    assert read(path, columns=columns).rows() == [(2, 3), (5, 6)]


@pytest.mark.parametrize("delimiter", ["::", "~", "§", "\\t", "ab"])
def test_any_delimiter(tmp_path: Path, delimiter: str) -> None:
    path = tmp_path / "a"
    path.write_text(text(PLAIN, "\t" if delimiter == "\\t" else delimiter, HEADER))
    assert read(path, delimiter=delimiter).height == len(PLAIN)


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        (["3", "1"], [3, 1]),
        (["3.0", "1.0"], [3, 1]),
        (["3.5", "1"], [3.5, 1.0]),
        (["2024-05-31", "2024-05-31 08:30"], [dt.datetime(2024, 5, 31), dt.datetime(2024, 5, 31, 8, 30)]),
        (["2024-05-31T08:30:15Z", "2024-05-31T08:30:15+02:00"], [dt.datetime(2024, 5, 31, h, 30, 15) for h in (8, 6)]),
        (["2024-05-31T08:30:15.25"] * 2, [dt.datetime(2024, 5, 31, 8, 30, 15, 250_000)] * 2),
    ],
)
def test_times(tmp_path: Path, texts: list[str], expected: list[object]) -> None:
    path = tmp_path / "a.csv"
    path.write_text(f"user,item,time\n1,2,{texts[0]}\n3,4,{texts[1]}\n")
    assert read(path)["time"].to_list() == expected


@pytest.mark.parametrize("kind", [pl.Date, pl.Datetime("ns"), pl.Datetime("ms", "Europe/Paris"), pl.Int32, pl.Float32])
def test_times_of_typed_formats(tmp_path: Path, kind: pl.DataType) -> None:
    path = tmp_path / "a.parquet"
    pl.DataFrame({"user": [1, 2], "item": [3, 4], "date": pl.Series([0, 1000]).cast(kind)}).write_parquet(path)
    times = read(path)["time"]
    assert times.dtype == (pl.Int64 if kind.is_numeric() else pl.Datetime("us"))
    assert times[0] < times[1]


def test_a_folder_of_recboles_parts(tmp_path: Path) -> None:
    for part in ("train", "valid", "test"):
        (tmp_path / f"ml-100k.{part}.inter").write_text(f"user_id:token\titem_id:token\n{part}\t1\n")
    users = {part: frame["user"].item() for part, frame in read_parts(tmp_path).items()}
    assert users == {"train": "train", "valid": "valid", "test": "test"}
    with pytest.raises(InputError, match="expected one table, received the parts train, valid, test"):
        read(tmp_path)


def test_a_zip_with_parts_and_other_things(tmp_path: Path) -> None:
    path = tmp_path / "set.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.mkdir("set")
        archive.writestr("set/README.md", "hello")
        archive.writestr("set/train.csv.gz", gzip.compress(b"user,item\n1,2\n"))
        archive.writestr("set/validation.csv", "user,item\n1,3\n")
        archive.writestr("set/test.csv", "user,item\n1,4\n")
    assert {part: frame["item"].item() for part, frame in read_parts(path).items()} == {
        "train": 2,
        "valid": 3,
        "test": 4,
    }


def test_movielens_archives(shared_data: Callable[[str], Path]) -> None:
    small = read(shared_data("raw/ml-100k.zip"))
    assert (small.height, small["user"].n_unique(), small["item"].n_unique()) == (100_000, 943, 1_682)
    large = read(shared_data("raw/ml-1m.zip"))
    assert (large.height, large["user"].n_unique(), large["item"].n_unique()) == (1_000_209, 6_040, 3_706)
    assert small.dtypes == large.dtypes == [pl.Int64, pl.Int64, pl.Float64, pl.Int64]
