"""The registered public data sets: addresses, sizes, checksums, terms. :mod:`shortlist.data.datasets` uses them.

Checksums are those published by the authors of a data set. Without a published one, the field is empty and the file's
checksum is recorded at the first download.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

MOVIELENS_TERMS = "research; no redistribution, no commercial use without permission (README in the archive)"
UNSTATED_TERMS = "no licence is stated; its page asks for a citation"


@dataclass(frozen=True)
class PublicSet:
    """Metadata of a public data set."""

    name: str
    title: str
    address: str
    page: str
    interactions: int
    terms: str
    size: int | None = None
    md5: str | None = None
    """Checksum of the file, if its authors publish one."""

    table: str | None = None
    """The file inside the archive with the interactions."""

    table_sha256: str | None = None
    """Checksum of that table: a repacked archive with the same table is the same data set."""

    options: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """Options of the loader that cannot be inferred from the file."""

    @property
    def most_bytes(self) -> int:
        """Where a download stops: at the registered size, or well above what the set can have where it may change."""
        if self.size is None:
            return 1000 * self.interactions
        is_fixed = self.md5 is not None and self.table_sha256 is None
        return self.size if is_fixed else 2 * self.size

    @property
    def file_name(self) -> str:
        """The file's name as published."""
        return self.address.rpartition("/")[2]


def _movielens(
    name: str, title: str, interactions: int, table: str, *, size: int, md5: str | None, table_sha256: str | None = None
) -> PublicSet:
    return PublicSet(
        name,
        title,
        address=f"https://files.grouplens.org/datasets/movielens/{name}.zip",
        page=f"https://grouplens.org/datasets/movielens/{name.removeprefix('ml-').removesuffix('-small')}/",
        interactions=interactions,
        terms=MOVIELENS_TERMS,
        size=size,
        md5=md5,
        table=table,
        table_sha256=table_sha256,
    )


def _amazon(name: str, category: str, interactions: int) -> PublicSet:
    return PublicSet(
        f"amazon2014-{name}",
        f"Amazon ratings to July 2014, {category.replace('_', ' ')}",
        address=f"https://snap.stanford.edu/data/amazon/productGraph/categoryFiles/ratings_{category}.csv",
        page="https://jmcauley.ucsd.edu/data/amazon/index_2014.html",
        interactions=interactions,
        terms=UNSTATED_TERMS,
        options=MappingProxyType({"user": "1", "item": "2", "weight": "3", "time": "4"}),
    )


_ALL = (
    _movielens(
        *("ml-100k", "MovieLens 100k (1998)", 100_000, "ml-100k/u.data"),
        size=4_924_029,
        md5="0e33842e24a9c977be4e0107933c0723",
        table_sha256="06416e597f82b7342361e41163890c81036900f418ad91315590814211dca490",
    ),
    _movielens(
        *("ml-1m", "MovieLens 1M (2003)", 1_000_209, "ml-1m/ratings.dat"),
        size=5_917_549,
        md5="c4d9eecfca2ab87c1945afe126590906",
        table_sha256="506d64ca44484487c11dc2d9a28de5c54948213e6b96285e298afe28d6ea4e0f",
    ),
    _movielens(
        *("ml-10m", "MovieLens 10M (2009)", 10_000_054, "ml-10M100K/ratings.dat"),
        size=65_566_137,
        md5="ce571fd55effeba0271552578f2648bd",
    ),
    _movielens(
        *("ml-20m", "MovieLens 20M (2015)", 20_000_263, "ml-20m/ratings.csv"),
        size=198_702_078,
        md5="cd245b17a1ae2cc31bb14903e1204af3",
    ),
    _movielens(
        *("ml-25m", "MovieLens 25M (2019)", 25_000_095, "ml-25m/ratings.csv"),
        size=261_978_986,
        md5="6b51fb2759a8657d3bfcbfc42b592ada",
    ),
    _movielens(
        *("ml-32m", "MovieLens 32M (2023)", 32_000_204, "ml-32m/ratings.csv"),
        size=238_950_008,
        md5="d472be332d4daa821edc399621853b57",
    ),
    _movielens(
        *("ml-latest-small", "MovieLens latest, small; its content changes", 100_836, "ml-latest-small/ratings.csv"),
        size=978_202,
        md5=None,
    ),
    PublicSet(
        "gowalla-checkins",
        "Gowalla, all check-ins, February 2009 to October 2010",
        address="https://snap.stanford.edu/data/loc-gowalla_totalCheckins.txt.gz",
        page="https://snap.stanford.edu/data/loc-gowalla.html",
        interactions=6_442_890,
        terms=UNSTATED_TERMS,
        options=MappingProxyType({"user": "1", "time": "2", "item": "5", "delimiter": "\t"}),
    ),
    _amazon("beauty", "Beauty", 2_023_070),
    _amazon("books", "Books", 22_507_155),
    _amazon("electronics", "Electronics", 7_824_482),
    _amazon("games", "Video_Games", 1_324_753),
    _amazon("health", "Health_and_Personal_Care", 2_982_326),
    _amazon("movies", "Movies_and_TV", 4_607_047),
)

SETS: Mapping[str, PublicSet] = MappingProxyType({known.name: known for known in _ALL})
"""The registered data sets by name."""
