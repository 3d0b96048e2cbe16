"""Whatever is wrong with a file gets one line that names it, and no other kind of exception."""

import gzip
import zipfile
from pathlib import Path

import polars as pl
import pytest

from shortlist.data import Columns, LoadOptions, load, read
from shortlist.errors import InputError

# Each file's name and content, and what the line must say.
BAD_FILES: dict[str, tuple[str, bytes, str]] = {
    "missing user column": ("a.csv", b"who,item\n1,2\n", r"expected a user column .*received the columns who, item"),
    "missing item column": ("a.tsv", b"user\tx\n1\t2\n", r"expected an item column .*received the columns user, x"),
    "no header": ("a.csv", b"1,2\n3,4\n", r"expected a user column .*give the columns by position"),
    "empty": ("a.csv", b"", "expected rows, received an empty file"),
    "empty lines only": ("a.csv", b"\n \n\n", "expected rows, received an empty file"),
    "header only": ("a.csv", b"user,item\n", "expected rows, received none"),
    "empty ndjson": ("a.ndjson", b" \n", "expected rows, received an empty file"),
    "empty txt": ("train.txt", b"", "expected rows, received an empty file"),
    "txt of users alone": ("train.txt", b"1\n2\n", "expected lines of a user and items, received none"),
    "not UTF-8": ("a.csv", b"user,item\n1,2\n3,caf\xe9\n", "row 3: expected UTF-8 text, received the byte 0xe9"),
    "header not UTF-8": ("a.csv", b"user,item,\xff\n1,2,3\n", "row 1: expected UTF-8 text, received the byte 0xff"),
    "not UTF-8 with ::": ("a.dat", b"1::2\n3::\xff\n", "row 2: expected UTF-8 text, received the byte 0xff"),
    "ndjson not UTF-8": ("a.ndjson", b'{"user":1,"item":"\xff"}\n', "row 1: expected UTF-8 text"),
    "row too short": ("a.csv", b"user,item,x\n1,2,3\n4,5\n", r"row 3: expected 3 fields, received 2 \('4,5'\)"),
    "row too long": ("a.csv", b"user,item\n1,2\n4,5,6\n", r"row 3: expected 2 fields, received 3 \('4,5,6'\)"),
    "row too short with ::": ("a.dat", b"1::2::3\n4::5\n", "row 2: expected 3 fields, received 2"),
    "row too short in .inter": (
        "a.inter",
        b"user_id:token\titem_id:token\n1\n",
        "row 2: expected 2 fields, received 1",
    ),
    "no user": ("a.csv", b"user,item\n1,2\n,3\n", "row 3, column 'user': expected an id, received nothing"),
    "no user after a blank line": ("a.csv", b"user,item\n\n1,2\n,3\n", "row 4, column 'user': expected an id"),
    "empty quoted item": ("a.csv", b'user,item\na,""\n', "row 2, column 'item': expected an id, received nothing"),
    "null in ndjson": ("a.ndjson", b'{"user":1,"item":2}\n{"user":3}\n', "row 2, column 'item': expected an id"),
    "space before an id": ("a.csv", b"user,item\na,x\nb, y\n", "row 3, column 'item': expected an id without spaces"),
    "space after an id": ("a.csv", b"user,item\na ,x\n", r"row 2, column 'user': expected an id .*received 'a '"),
    "rating NaN": ("a.csv", b"user,item,rating\n1,2,3\n4,5,NaN\n", "row 3, column 'rating': expected a number, rec"),
    "rating missing": ("a.csv", b"user,item,rating,x\n1,2,,1\n", "row 2, column 'rating': expected a number, rec"),
    "rating infinite": ("a.csv", b"user,item,rating\n1,2,inf\n", "row 2, column 'rating': expected a number, rec"),
    "rating in words": ("a.data", b"1\t2\tgood\n", "row 1, column '3': expected a number, received 'good'"),
    "rating a list": ("a.ndjson", b'{"user":1,"item":2,"rating":[1]}\n', "column 'rating': expected numbers, received"),
    "time in words": ("a.csv", b"user,item,time\n1,2,2024-05-31\n1,3,soon\n", "row 3, column 'time': expected a numb"),
    "no such day": ("a.csv", b"user,item,date\n1,2,2024-02-30\n", "row 2, column 'date': expected .* ISO date"),
    "time missing": ("a.csv", b"user,item,time\n1,2,5\n1,3,\n", "row 3, column 'time': expected .*received nothing"),
    "time infinite": ("a.csv", b"user,item,time\n1,2,5\n1,3,inf\n", "row 3, column 'time': expected .*received 'inf'"),
    "ids with fractions": ("a.ndjson", b'{"user":1.5,"item":2}\n', "column 'user': expected text or whole numbers"),
    "broken JSON": ("a.ndjson", b'{"user":1,"item":2}\n{"user":\n', "row 2: expected a JSON object, received"),
    "JSON that is no object": ("a.jsonl", b"[1, 2]\n", r"row 1: expected a JSON object, received '\[1, 2\]'"),
    "quote without an end": ("a.csv", b'user,item\n1,"2\n3,4\n', "a.csv: expected a delimited table"),
    "not Parquet": ("a.parquet", b"user,item\n1,2\n", "expected a Parquet file, received a file that cannot be read"),
    "not gzip": ("a.csv.gz", b"user,item\n1,2\n", "expected a gzip file, received a file that cannot be read"),
    "truncated gzip": ("a.csv.gz", gzip.compress(b"user,item\n1,2\n" * 99)[:-9], "expected a gzip file"),
    "not a zip": ("a.zip", b"user,item\n1,2\n", "expected a zip archive, received a file that cannot be read"),
    "unknown kind": ("a.xlsx", b"PK", r"expected a name that ends in \.csv, .* received 'a.xlsx'"),
}


def the_line(problem: pytest.ExceptionInfo[InputError], path: Path) -> str:
    line = str(problem.value)
    assert "\n" not in line
    assert line.startswith(f"{path}")
    assert problem.value.__cause__ is None
    return line


@pytest.mark.parametrize("case", BAD_FILES)
def test_bad_files(tmp_path: Path, case: str) -> None:
    name, content, expected = BAD_FILES[case]
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(InputError, match=expected) as problem:
        read(path)
    the_line(problem, path)


def test_a_column_that_was_said_but_is_not_there(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("user,item\n1,2\n")
    with pytest.raises(InputError, match="expected a column 'when' for the time, received the columns user, item"):
        read(path, columns=Columns(time="when"))
    with pytest.raises(InputError, match="a different column for each role, received user = user, item = user"):
        read(path, columns=Columns(user="user", item="user"))


@pytest.mark.parametrize("delimiter", ["", '"', "\n"])
def test_impossible_delimiters(tmp_path: Path, delimiter: str) -> None:
    path = tmp_path / "a.csv"
    path.write_text("user,item\n1,2\n")
    with pytest.raises(InputError, match=r"^delimiter: expected"):
        read(path, delimiter=delimiter)


def test_parquet_nulls_and_types(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pl.DataFrame({"user": ["a", None], "item": [1, 2]}).write_parquet(path)
    with pytest.raises(InputError, match="row 2, column 'user': expected an id, received nothing"):
        read(path)
    pl.DataFrame({"user": [1, 2], "item": [[1], [2]]}).write_parquet(path)
    with pytest.raises(InputError, match="column 'item': expected text or whole numbers, received List"):
        read(path)
    pl.DataFrame({"user": [1, 2], "item": [1, 2], "time": [True, False]}).write_parquet(path)
    with pytest.raises(InputError, match="column 'time': expected times, received Boolean"):
        read(path)


@pytest.mark.parametrize("kept", [0.0, 0.3, 0.9, 0.999])
def test_truncated_parquet_and_zip(tmp_path: Path, kept: float) -> None:
    table, archive_path = tmp_path / "a.parquet", tmp_path / "a.zip"
    pl.DataFrame({"user": range(5000), "item": range(5000)}).write_parquet(table)
    with zipfile.ZipFile(archive_path, "w") as archive:
        archive.write(table, "a.parquet")
    for path, kind in ((table, "a Parquet file"), (archive_path, "a zip archive")):
        content = path.read_bytes()
        path.write_bytes(content[: int(kept * len(content))])
        with pytest.raises(InputError, match=f"expected {kind}, received a file that cannot be read as one") as problem:
            read(path)
        the_line(problem, path)


def test_a_damaged_member_of_a_zip(tmp_path: Path) -> None:
    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a.csv", "user,item\n1,2\n")
    path.write_bytes(path.read_bytes().replace(b"1,2", b"1,3"))
    with pytest.raises(InputError, match=r"expected a zip archive, .*CRC"):
        read(path)


@pytest.mark.parametrize(
    "name", ["../a.csv", "x/../../a.csv", "/etc/a.csv", "C:\\a.csv", "..\\a.csv", "\\\\host\\a.csv"]
)
def test_a_zip_whose_paths_point_outside(tmp_path: Path, name: str) -> None:
    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("ratings.csv", "user,item\n1,2\n")
        archive.writestr(name, "user,item\n1,2\n")
    with pytest.raises(InputError, match=r"expected paths inside the archive, received .* points outside"):
        read(path)
    assert sorted(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        ([], "received nothing"),
        (["notes.md"], "received notes.md"),
        (["a.csv", "b.csv"], r"or one table .*received a.csv, b.csv"),
        (["train.csv", "train.parquet", "test.csv"], "expected one train table, received train.csv, train.parquet"),
        (["test.csv", "valid.csv"], "expected tables named train and test, received test, valid only"),
        (["train.csv", "valid.csv"], "expected tables named train and test, received train, valid only"),
    ],
)
def test_folders_that_cannot_be_understood(tmp_path: Path, names: list[str], expected: str) -> None:
    for name in names:
        (tmp_path / name).write_text("user,item\n1,2\n")
    with pytest.raises(InputError, match=expected) as problem:
        read(tmp_path)
    the_line(problem, tmp_path)


def test_nothing_at_the_path(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="received a path that does not exist"):
        read(tmp_path / "a.csv")
    with pytest.raises(InputError, match=r"^data: expected a folder, a table, an archive or a name \(debian, .*"):
        load(tmp_path / "a.csv")


@pytest.mark.parametrize(
    ("content", "options", "expected"),
    [
        ("user,item\n1,2\n1,3\n", {}, "expected at least two users, received only 1"),
        ("user,item\n1,2\n2,3\n", {"min_rating": 3}, "expected a weight column for min_rating 3"),
        ("user,item,rating\n1,2,1\n2,3,2\n", {"min_rating": 3}, "expected interactions that pass .* received none"),
        ("user,item\n1,2\n2,3\n", {"core": 2}, "expected interactions that pass .* received none"),
        ("user,item\n1,2\n2,3\n", {"split": "last"}, "expected interactions with a time"),
        ("user,item\n1,2\n2,3\n", {"split": "time", "at": 5}, "expected a table with a time column"),
        ("user,item,time\n1,2,3\n2,3,5\n", {"split": "time"}, "at: expected a time for split time, received none"),
        ("user,item,time\n1,2,3\n2,3,5\n", {"split": "time", "at": "soon"}, "at: expected a number .*received 'soon'"),
        ("user,item,time\n1,2,3\n2,3,5\n", {"split": "time", "at": "2024-05-31"}, "at: expected a number like those"),
        ("user,item,date\n1,2,2024-05-31\n2,3,2024-06-01\n", {"split": "time", "at": 5}, "at: expected an ISO date"),
        ("user,item,time\n1,2,3\n2,3,5\n", {"split": "time", "at": 9}, "received one with every interaction earlier"),
        ("user,item,time\n1,2,3\n2,3,5\n", {"split": "time", "at": 0}, "received one with every interaction later"),
        ("user,item,time\n1,2,3\n2,3,5\n", {"at": 4, "cold_users": "error"}, "received 1 without, first 2; choose"),
        ("user,item,time\n1,2,3\n2,3,5\n", {"split": "last"}, "received 2 without, first 1; filter with a larger core"),
    ],
)
def test_tables_that_cannot_be_split(tmp_path: Path, content: str, options: dict[str, object], expected: str) -> None:
    path = tmp_path / "a.csv"
    path.write_text(content)
    with pytest.raises(InputError, match=expected) as problem:
        load(path, LoadOptions(**options))
    assert "\n" not in str(problem.value)
