"""The built-in set is what its card says, and the script makes it the same way every time."""

import gzip
import hashlib
import json
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest

import shortlist.data
from shortlist.data.builtin import DEBIAN, load_debian, load_debian_titles

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "scripts/make_debian.py"
CARD = Path(shortlist.data.__file__).parent / "debian/README.md"


def test_sizes_are_those_of_the_card() -> None:
    pairs = load_debian()
    assert pairs.schema == pl.Schema({"user": pl.String, "item": pl.String})
    sizes = (pairs["user"].n_unique(), pairs["item"].n_unique(), pairs.height)
    assert sizes == (DEBIAN.users, DEBIAN.items, DEBIAN.interactions) == (11_778, 4_770, 141_464)
    card = CARD.read_text(encoding="utf-8")
    assert all(f"{size:,}" in card for size in sizes)
    assert all(fact in card for fact in (DEBIAN.release, DEBIAN.date, DEBIAN.index_sha256, SCRIPT.name))


def test_pairs_are_sorted_distinct_and_five_core() -> None:
    pairs = load_debian()
    assert pairs.equals(pairs.unique().sort("user", "item"))
    assert pairs.null_count().sum_horizontal().item() == 0
    assert all(pairs[column].value_counts()["count"].min() == DEBIAN.core for column in pairs.columns)


def test_names_are_bare_names() -> None:
    pairs = load_debian()
    for column in pairs.columns:
        assert pairs[column].str.contains(r"^[a-z0-9][a-z0-9+._-]+$").all()


def test_every_item_has_a_row_among_the_titles() -> None:
    titles = load_debian_titles()
    assert titles["item"].equals(load_debian()["item"].unique().sort())
    assert titles["title"].null_count() == 5


def test_a_persons_expectations_hold() -> None:
    """Spot checks of what everybody who knows these packages would say."""
    pairs = load_debian()
    assert {"python3-numpy", "python3-scipy", "python3-joblib"} <= set(pairs.filter(user="scikit-learn")["item"])
    assert {"libgtk2.0-0", "libtiff6", "libwebp7"} <= set(pairs.filter(user="gimp")["item"])


def stanza(name: str, **fields: str) -> str:
    lines = {"Package": name, **fields, "Description": f"what {name} does"}
    return "\n".join(f"{key}: {value}" for key, value in lines.items())


def an_index() -> bytes:
    """Five sources that need the same five things, told in all the ways that the index has."""
    needs = "a (>= 1:2.0), b:any | old-b, c [amd64],\n d, libghc-text-dev-1.2.5.0-8553e"
    paragraphs = [
        stanza(f"lib{n}", Source=f"src{n} (1.0-{n})", Depends=needs, Recommends=f"a, rare{n}") for n in range(5)
    ]
    paragraphs += [stanza("small", Depends="a, b, c, d"), stanza("a"), stanza("ghc", Provides="c, d (= 1), e")]
    return ("\n\n".join([*paragraphs, stanza("other", Provides="d")]) + "\n").encode()


def run(folder: Path, index: bytes, listed: bytes, *, packed: bool = False) -> subprocess.CompletedProcess[str]:
    digest = hashlib.sha256(listed).hexdigest()
    release = "Origin: Debian\nVersion: 1.2\nCodename: toy\nDate: Sat, 11 Jul 2026 10:16:37 UTC\nSHA256:\n"
    (folder / "Release").write_text(f"{release} {digest} {len(listed)} main/binary-amd64/Packages\n")
    (folder / "Packages").write_bytes(gzip.compress(index) if packed else index)
    command = [SCRIPT, folder / "Packages", "--release", folder / "Release", "--out", folder / "out"]
    return subprocess.run([sys.executable, *map(str, command)], capture_output=True, text=True, check=False)


@pytest.mark.skipif(not SCRIPT.exists(), reason="the scripts are not part of the installed library")
def test_the_script_reads_every_form_and_repeats_its_bytes(tmp_path: Path) -> None:
    made = []
    for name, packed in (("plain", False), ("packed", True)):
        folder = tmp_path / name
        folder.mkdir()
        answer = run(folder, an_index(), an_index(), packed=packed)
        assert answer.returncode == 0, answer.stderr
        made.append({path.name: path.read_bytes() for path in sorted((folder / "out").iterdir())})
        facts = json.loads((folder / "out/facts.json").read_text())
        assert facts["release"] == "Debian 1.2 (toy)"
        assert (facts["date"], facts["users"], facts["items"], facts["interactions"]) == ("2026-07-11", 5, 5, 25)
    assert made[0] == made[1]
    pairs = pl.read_parquet(tmp_path / "plain/out/pairs.parquet")
    assert pairs["user"].unique().sort().to_list() == [f"src{n}" for n in range(5)]
    titles = pl.read_parquet(tmp_path / "plain/out/titles.parquet")
    assert titles["item"].to_list() == ["a", "b", "c", "d", "libghc-text-dev"]
    assert titles["title"].to_list() == ["what a does", None, "what ghc does", None, None]


@pytest.mark.skipif(not SCRIPT.exists(), reason="the scripts are not part of the installed library")
def test_the_script_refuses_an_index_of_another_release(tmp_path: Path) -> None:
    answer = run(tmp_path, an_index(), b"another index")
    assert answer.returncode != 0
    assert "expected a release that lists the index" in answer.stderr
    assert not (tmp_path / "out").exists()
