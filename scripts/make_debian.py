"""Make the built-in set from a release of Debian: which packages a source package depends on or recommends.

On a machine that runs Debian, with the index of the release at hand::

    /usr/lib/apt/apt-helper cat-file /var/lib/apt/lists/*_bookworm_main_binary-amd64_Packages* > Packages
    python scripts/make_debian.py Packages --release /var/lib/apt/lists/*_bookworm_InRelease

The rules that turn the index into pairs are told in the set's card, ``src/shortlist/data/debian/README.md``.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import json
import lzma
import re
from collections import Counter
from collections.abc import Iterator
from datetime import UTC
from email.utils import parsedate_to_datetime
from pathlib import Path

import polars as pl

Stanza = dict[str, str]
Pairs = set[tuple[str, str]]

CORE = 5
FOLDER = Path(__file__).parents[1] / "src/shortlist/data/debian"
# Haskell's libraries are named with version and ABI hash, libghc-text-dev-1.2.5.0-8553e: nobody knows them by that.
HASKELL_ABI = re.compile(r"(?<=^libghc-)(.+)-[0-9][0-9.]*-[0-9a-f]{5}$")
# A name ends where a version (>= 1), an architecture :any or a list of architectures [amd64] begins.
NAME = re.compile(r"[^\s(:\[]+")


def stanzas(text: str) -> Iterator[Stanza]:
    """The paragraphs of a control file, each a field → value; a folded value is joined into one line."""
    for paragraph in re.split(r"\n\n+", text.strip()):
        unfolded = re.sub(r"\n[ \t]+", " ", paragraph)
        yield {name: value.strip() for name, _, value in (line.partition(":") for line in unfolded.split("\n"))}


def named(relations: str) -> Iterator[str]:
    """The first name of every relation: of ``a (>= 1) | b, c:any`` these are ``a`` and ``c``."""
    for relation in relations.split(","):
        if found := NAME.search(relation):
            yield HASKELL_ABI.sub(r"\1", found[0])


def source_of(package: Stanza) -> str:
    """The source that a binary is built from, which is not told when it has the same name."""
    return package.get("Source", package["Package"]).split()[0]


def pairs_of(packages: list[Stanza]) -> Pairs:
    """(source, package) for every package that a binary of the source depends on or recommends."""
    return {
        (source_of(package), name)
        for package in packages
        for field in ("Depends", "Recommends")
        for name in named(package.get(field, ""))
    }


def core_of(pairs: Pairs, k: int) -> Pairs:
    """The largest part in which every source has at least k packages and every package at least k sources."""
    while True:
        sources, names = Counter(source for source, _ in pairs), Counter(name for _, name in pairs)
        kept = {(source, name) for source, name in pairs if sources[source] >= k and names[name] >= k}
        if len(kept) == len(pairs):
            return kept
        pairs = kept


def titles_of(packages: list[Stanza], items: list[str]) -> list[str | None]:
    """One line on each item: a package's own description, or for a virtual name that of its only provider."""
    own = {package["Package"]: package["Description"] for package in packages}
    providers: dict[str, set[str]] = {}
    for package in packages:
        for name in named(package.get("Provides", "")):
            providers.setdefault(name, set()).add(package["Description"])
    return [own.get(name) or (min(given) if len(given := providers.get(name, set())) == 1 else None) for name in items]


def read_index(path: Path) -> bytes:
    """The index itself, whichever way it is packed."""
    packed = path.read_bytes()
    if packed.startswith(b"\x1f\x8b"):
        return gzip.decompress(packed)
    return lzma.decompress(packed) if packed.startswith(b"\xfd7zXZ") else packed


def read_release(path: Path, digest: str) -> dict[str, str]:
    """Name and date of the release, once it is shown that the index belongs to it."""
    text = path.read_text(encoding="utf-8")
    if not re.search(rf"^ {digest} +\d+ \S+/Packages$", text, re.MULTILINE):
        raise SystemExit(f"{path}: expected a release that lists the index with SHA-256 {digest}, received another")
    fields = dict(re.findall(r"^(Origin|Version|Codename|Date): (.+)$", text, re.MULTILINE))
    date = parsedate_to_datetime(fields["Date"]).astimezone(UTC).date()
    return {"release": "{Origin} {Version} ({Codename})".format(**fields), "date": date.isoformat()}


def make(index: Path, release: Path, folder: Path) -> dict[str, str | int]:
    """Write ``pairs.parquet``, ``titles.parquet`` and ``facts.json``; the same index gives the same bytes."""
    text = read_index(index)
    digest = hashlib.sha256(text).hexdigest()
    told = read_release(release, digest)
    packages = list(stanzas(text.decode("utf-8")))
    pairs = pl.DataFrame(sorted(core_of(pairs_of(packages), CORE)), schema=["user", "item"], orient="row")
    items = pairs["item"].unique().sort()
    titles = pl.DataFrame({"item": items, "title": titles_of(packages, items.to_list())})
    folder.mkdir(parents=True, exist_ok=True)
    for name, table in (("pairs", pairs), ("titles", titles)):
        table.write_parquet(folder / f"{name}.parquet", compression="zstd", compression_level=22, statistics=False)
    sizes = {"users": pairs["user"].n_unique(), "items": len(items), "interactions": len(pairs)}
    facts: dict[str, str | int] = {**told, "index_sha256": digest, "core": CORE, **sizes}
    (folder / "facts.json").write_text(json.dumps(facts, indent=2) + "\n", encoding="utf-8")
    return facts


def main() -> None:
    """Read the command line and say what was made."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("packages", type=Path, help="the release's Packages index, plain, .gz or .xz")
    parser.add_argument("--release", type=Path, required=True, help="the Release or InRelease file that lists it")
    parser.add_argument("--out", type=Path, default=FOLDER, help="where to write (default: into the library)")
    given = parser.parse_args()
    print(json.dumps(make(given.packages, given.release, given.out)))


if __name__ == "__main__":
    main()
