"""The built-in data set: the packages that a Debian source package depends on or recommends.

Its card, ``debian/README.md`` next to this file, describes its source and how its recommendations can be judged.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from importlib.resources import files
from io import BytesIO

import polars as pl

_FOLDER = files("shortlist.data") / "debian"


@dataclass(frozen=True)
class BuiltInFacts:
    """Source and sizes of a built-in data set."""

    release: str
    date: str
    index_sha256: str
    core: int
    users: int
    items: int
    interactions: int


DEBIAN_NAME = "debian"
"""The name of the data set for the loader."""

DEBIAN = BuiltInFacts(**json.loads((_FOLDER / "facts.json").read_text(encoding="utf-8")))


def load_debian() -> pl.DataFrame:
    """The pairs, sorted: ``user`` is a source package, ``item`` a package that its binaries depend on or recommend.

    >>> pairs = load_debian()
    >>> pairs.filter(user="flask")["item"].to_list()[-3:]
    ['python3-jinja2', 'python3-pkg-resources', 'python3-werkzeug']
    """
    return _read("pairs.parquet")


def load_debian_titles() -> pl.DataFrame:
    """A one-line description of each item (``item``, ``title``); a few items have none.

    >>> load_debian_titles().filter(item="python3-jinja2")["title"].item()
    'small but fast and easy to use stand-alone template engine'
    """
    return _read("titles.parquet")


def _read(name: str) -> pl.DataFrame:
    return pl.read_parquet(BytesIO((_FOLDER / name).read_bytes()))
