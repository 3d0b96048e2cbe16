"""Registered sets: only what was checked gets a name, and nothing half-made is left behind."""

import gzip
import hashlib
import io
import json
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Protocol

import pytest

from data.web import Site, served
from shortlist.data import datasets as registry
from shortlist.data.datasets import AS_PUBLISHED, RECORDED, SAME_TABLE, default_folder, find, get, named, receipt_of
from shortlist.data.load import LoadOptions, load
from shortlist.data.public_sets import SETS, PublicSet
from shortlist.data.statistics import describe
from shortlist.errors import InputError, ShortlistError

TABLE = b"1\t10\t5\t0\n2\t11\t4\t1\n" * 1000


def archive(level: int = 9, table: bytes = TABLE) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as packed:
        packed.writestr(zipfile.ZipInfo("toy/u.data"), table, zipfile.ZIP_DEFLATED, level)
    return buffer.getvalue()


TOY = PublicSet(
    "toy",
    "a set for tests",
    address="http://127.0.0.1:9/files/set.zip",
    page="",
    interactions=2000,
    terms="",
    md5=hashlib.md5(archive()).hexdigest(),
    table="toy/u.data",
    table_sha256=hashlib.sha256(TABLE).hexdigest(),
)


class Register(Protocol):
    """Changes what is known of the toy set."""

    def __call__(self, address: str, *, checksums: bool = True) -> None: ...


@pytest.fixture
def register(monkeypatch: pytest.MonkeyPatch) -> Register:
    """Makes the toy set the only one that is registered."""

    def enrol(address: str, *, checksums: bool = True) -> None:
        known = TOY if checksums else replace(TOY, md5=None, table_sha256=None)
        monkeypatch.setattr(registry, "SETS", {"toy": replace(known, address=address)})

    monkeypatch.setenv("no_proxy", "*")
    enrol(TOY.address)
    return enrol


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_facts_are_well_formed() -> None:
    assert len({known.file_name for known in SETS.values()}) == len(SETS)
    for name, known in SETS.items():
        assert name == known.name
        assert known.address.startswith("https://")
        assert known.interactions > 0
        assert known.terms
        assert known.md5 is None or len(bytes.fromhex(known.md5)) == 16
        assert known.table_sha256 is None or len(bytes.fromhex(known.table_sha256)) == 32
        assert set(known.options) <= {"user", "item", "weight", "time", "delimiter"}


def test_an_unknown_name_is_answered_with_the_nearest() -> None:
    with pytest.raises(InputError, match="did you mean 'ml-100k'"):
        named("ml-100")
    with pytest.raises(InputError, match="comes with the library"):
        get("debian")


def test_a_download_is_checked_kept_and_found(register: Register, tmp_path: Path) -> None:
    with served(Site(archive(), cut_after=[100])) as site:
        register(site.address)
        assert find("toy", folder=tmp_path) is None
        path = get("toy", folder=tmp_path)
        assert get("toy", folder=tmp_path) == find("toy", folder=tmp_path) == path
    assert len(site.asked) == 2, "the second call finds it there"
    assert path.read_bytes() == archive()
    assert names(tmp_path) == ["set.zip", "set.zip.receipt.json"]
    receipt = receipt_of(path)
    assert receipt is not None
    assert (receipt.checked, receipt.origin, receipt.size) == (AS_PUBLISHED, site.address, len(archive()))


def test_an_altered_download_leaves_nothing(register: Register, tmp_path: Path) -> None:
    altered = archive(table=TABLE.replace(b"5", b"1"))
    with served(Site(altered)) as site:
        register(site.address)
        with pytest.raises(ShortlistError, match=f"toy: expected a file with MD5 {TOY.md5}, received") as caught:
            get("toy", folder=tmp_path)
    assert not isinstance(caught.value, InputError)
    assert names(tmp_path) == []


def test_an_interrupted_download_looks_like_nothing(register: Register, tmp_path: Path) -> None:
    with served(Site(archive(), cut_after=[100, 0])) as site:
        register(site.address)
        with pytest.raises(ShortlistError, match="100 bytes are kept"):
            get("toy", folder=tmp_path)
        assert names(tmp_path) == ["set.zip.part", "set.zip.part.tag"]
        assert find("toy", folder=tmp_path) is None
        assert get("toy", folder=tmp_path).read_bytes() == archive()
    assert names(tmp_path) == ["set.zip", "set.zip.receipt.json"]


def test_a_set_without_checksum_records_it_and_holds_to_it(register: Register, tmp_path: Path) -> None:
    with served(Site(archive())) as site:
        register(site.address, checksums=False)
        path = get("toy", folder=tmp_path)
        receipt = receipt_of(path)
        assert receipt is not None
        assert (receipt.checked, receipt.sha256) == (RECORDED, hashlib.sha256(archive()).hexdigest())
        path.unlink()
        site.content, site.tag = archive(level=1), '"second"'
        with pytest.raises(ShortlistError, match="as recorded, received"):
            get("toy", folder=tmp_path)
    assert names(tmp_path) == ["set.zip.receipt.json"]
    assert find("toy", folder=tmp_path) is None


def test_a_kept_file_that_was_damaged_is_got_again(register: Register, tmp_path: Path) -> None:
    with served(Site(archive())) as site:
        register(site.address)
        path = get("toy", folder=tmp_path)
        path.write_bytes(path.read_bytes()[:-1] + b"x")
        assert get("toy", folder=tmp_path).read_bytes() == archive()
        path.write_bytes(path.read_bytes()[:-1])
        assert find("toy", folder=tmp_path) is None
        site.status = 404
        path.write_bytes(archive()[:-1] + b"x")
        with pytest.raises(ShortlistError, match="404"):
            get("toy", folder=tmp_path)
    assert names(tmp_path) == ["set.zip.receipt.json"]


def test_a_file_at_hand_needs_no_network(register: Register, tmp_path: Path) -> None:
    given, folder = tmp_path / "given.zip", tmp_path / "store"
    for level, checked in ((9, AS_PUBLISHED), (1, SAME_TABLE)):
        given.write_bytes(archive(level))
        path = get("toy", folder=folder, from_file=given)
        assert path.read_bytes() == archive(level)
        receipt = receipt_of(path)
        assert receipt is not None
        assert receipt.checked == checked
        assert find("toy", folder=folder) == path
    assert given.exists()


@pytest.mark.parametrize(
    "content",
    [b"", b"not an archive", archive()[:-30], archive(table=TABLE[:-1]), b"PK\x05\x06" + bytes(18)],
    ids=["empty", "no archive", "cut", "altered table", "empty archive"],
)
def test_a_wrong_file_at_hand_writes_nothing(register: Register, tmp_path: Path, content: bytes) -> None:
    (tmp_path / "given.zip").write_bytes(content)
    with pytest.raises(InputError, match="toy: expected a file with MD5"):
        get("toy", folder=tmp_path / "store", from_file=tmp_path / "given.zip")
    assert not (tmp_path / "store").exists()


@pytest.mark.parametrize("given", ["missing.zip", "."])
def test_a_path_without_a_file_writes_nothing(register: Register, tmp_path: Path, given: str) -> None:
    with pytest.raises(InputError, match="expected the file of a data set"):
        get("toy", folder=tmp_path / "store", from_file=tmp_path / given)
    assert not (tmp_path / "store").exists()


@pytest.mark.parametrize("text", ["", "[]", "{}", "\udc80", '{"name": "toy"}'])
def test_an_unreadable_receipt_vouches_for_nothing(register: Register, tmp_path: Path, text: str) -> None:
    (tmp_path / "set.zip").write_bytes(archive())
    (tmp_path / "set.zip.receipt.json").write_bytes(text.encode(errors="surrogateescape"))
    assert find("toy", folder=tmp_path) is None


def test_a_receipt_is_plain_json(register: Register, tmp_path: Path) -> None:
    (tmp_path / "given.zip").write_bytes(archive())
    path = get("toy", folder=tmp_path, from_file=tmp_path / "given.zip")
    answer_json = json.loads((tmp_path / f"{path.name}.receipt.json").read_text())
    assert sorted(answer_json) == ["checked", "name", "origin", "sha256", "size"]


def test_where_sets_are_kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SHORTLIST_HOME", str(tmp_path))
    assert default_folder() == tmp_path / "data"
    monkeypatch.delenv("SHORTLIST_HOME")
    monkeypatch.setattr("sys.platform", "linux")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    assert default_folder() == tmp_path / "shortlist/data"
    monkeypatch.delenv("XDG_DATA_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert default_folder() == tmp_path / ".local/share/shortlist/data"
    monkeypatch.setattr("sys.platform", "darwin")
    assert default_folder() == tmp_path / "Library/Application Support/shortlist/data"


def test_a_published_format_is_read_by_its_name(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """What is registered about a file without a header is enough to load it."""
    monkeypatch.setenv("SHORTLIST_HOME", str(tmp_path / "home"))
    checkins = "".join(
        f"{user}\t2010-10-1{user}T23:55:27Z\t30.2\t-97.7\t{place}\n" for user in range(5) for place in "xyz"
    )
    (tmp_path / "gowalla").write_bytes(gzip.compress(checkins.encode()))
    ratings = "".join(f"A{user},B00{item},{item}.0,139888320{user}\n" for user in range(5) for item in (1, 4, 5))
    (tmp_path / "amazon").write_text(ratings)
    for name, file, options in (
        ("gowalla-checkins", "gowalla", LoadOptions()),
        ("amazon2014-beauty", "amazon", LoadOptions(min_rating=3)),
    ):
        with pytest.raises(InputError, match=f"data get {name}"):
            load(name, options)
        get(name, from_file=tmp_path / file)
        split = load(name, options)
        assert split.train.times is not None
        facts = describe(split)
        assert (facts["users"], facts["interactions"]) == (5, 15 if file == "gowalla" else 10)


@pytest.mark.parametrize(("name", "sizes"), [("ml-100k", (939, 1_016, 80_393)), ("ml-1m", (6_033, 3_123, 834_449))])
def test_the_archives_at_hand(
    name: str,
    sizes: tuple[int, int, int],
    shared_data: Callable[[str], Path],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.setenv("SHORTLIST_HOME", str(tmp_path))
    path = get(name, from_file=shared_data(f"raw/{name}.zip"))
    receipt = receipt_of(path)
    assert receipt is not None
    assert receipt.checked in (AS_PUBLISHED, SAME_TABLE)
    facts = describe(load(name, LoadOptions(min_rating=3, core=10)))
    assert (facts["users"], facts["items"], facts["interactions"]) == sizes
