"""Limits that hold before memory or disk is used."""

import gzip
import io
import zipfile
from pathlib import Path

import pytest

from shortlist.data import load, sources
from shortlist.errors import InputError

HEAD = b"user,item\n"
ROWS = b"ann,1\nann,2\nbob,2\nbob,3\n"


def packed(kind: str, folder: Path, content: bytes) -> Path:
    if kind == "gzip":
        path = folder / "t.csv.gz"
        path.write_bytes(gzip.compress(content))
        return path
    path = folder / "t.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        if kind == "zip":
            archive.writestr("t.csv", content)
        else:
            archive.writestr("t.csv.gz", gzip.compress(content))
    return path


@pytest.mark.parametrize("kind", ["gzip", "zip", "gzip in zip"])
def test_a_size_limit_for_what_is_unpacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    path = packed(kind, tmp_path, HEAD + 1000 * ROWS)
    assert load(path, valid_share=0.0).train.n_users == 2
    monkeypatch.setenv("SHORTLIST_MAX_UNPACKED", "5000")
    with pytest.raises(InputError, match=r"expected at most 5,000 bytes when unpacked.*SHORTLIST_MAX_UNPACKED"):
        load(path)
    monkeypatch.setenv("SHORTLIST_MAX_UNPACKED", "lots")
    with pytest.raises(InputError, match="SHORTLIST_MAX_UNPACKED: expected a number of bytes, received 'lots'"):
        load(path)


@pytest.mark.parametrize("kind", ["gzip", "zip", "gzip in zip"])
def test_a_limit_of_the_ratio(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    monkeypatch.setattr(sources, "RATIO_FROM", 1 << 20)
    path = packed(kind, tmp_path, HEAD + bytes(20 << 20))
    with pytest.raises(InputError, match="expected at most 1000 bytes for each packed one"):
        load(path)


def test_gzip_of_several_members(tmp_path: Path) -> None:
    path = tmp_path / "t.csv.gz"
    path.write_bytes(gzip.compress(HEAD) + gzip.compress(ROWS))
    assert load(path, valid_share=0.0).train.n_users == 2
    assert io.BytesIO(path.read_bytes()).read(2) == b"\x1f\x8b"
