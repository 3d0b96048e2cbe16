"""One call from what a person has (a folder, a table, an archive, a name) to a split that can be trained on."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Literal

import numpy as np
import polars as pl

from shortlist.data import builtin, datasets
from shortlist.data.checks import parse_times
from shortlist.data.columns import Columns
from shortlist.data.interactions import Interactions
from shortlist.data.noise import flip_negatives
from shortlist.data.prepare import check_size, deduplicate, k_core, keep_rated, restrict, time_as_number
from shortlist.data.public_sets import SETS
from shortlist.data.sources import SINGLE
from shortlist.data.splits import Split, at_time, hold_out_irbenchmark, hold_out_share, leave_last
from shortlist.data.tables import read_parts
from shortlist.errors import InputError
from shortlist.parameters import LARGEST_SEED, Configured, param


class LoadOptions(Configured):
    """How data is read and split; each is also a flag of the command line."""

    user: str | None = param(default=None, help="column of the user: a name, or a number if there is no header")
    item: str | None = param(default=None, help="column of the item")
    weight: str | None = param(default=None, help="column of the weight or rating; '-' reads none")
    time: str | None = param(default=None, help="column of the time; '-' reads none")
    delimiter: str | None = param(default=None, help="what stands between fields, such as ',' or '::'")
    min_rating: float | None = param(default=None, help="leave out rows with a lower weight")
    core: int = param(default=0, at_least=0, help="leave out users and items with fewer pairs, until none is left")
    split: Literal["random", "last", "time"] = param(default="random", help="how a single table is split")
    test_share: float = param(default=0.2, above=0, below=1, help="share of each user's items, for split random")
    valid_share: float = param(
        default=0.1, at_least=0, below=1, help="share of each user's training items held out for validation; 0 for none"
    )
    last: int = param(
        default=1, at_least=1, help="how many of each user's last items are test, and as many before them validation"
    )
    at: int | float | str | None = param(default=None, help="the time at which test begins, for split time")
    cold_users: Literal["error", "drop"] = param(
        default="error", help="users whom split last or time leaves without training items: refuse, or leave them out"
    )
    protocol: Literal["shortlist", "irbenchmark"] = param(
        default="shortlist", help="irbenchmark: hold out validation as the authors of SL@K do"
    )
    noise: float = param(
        default=0.0,
        at_least=0,
        help="false positives mixed into train, as a share of each user's items there; they are drawn from items that "
        "no part has for the user",
    )
    seed: int = param(default=0, at_least=0, at_most=LARGEST_SEED, help="seed of the random splits and of the noise")


def load(source: str | Path, options: LoadOptions | None = None) -> Split:
    """Read, filter and split.

    ``source`` is a folder or archive with tables named train, test and perhaps valid, which stay as they are; a single
    table, which is split; or the name of a registered set, of which ``"debian"`` comes with the library. The users and
    items of a set that came split are those of all its parts. Without a valid part, one is held out of train.

    >>> split = load("debian")
    >>> split.train.n_users == split.test.n_users
    True
    """
    options = options or LoadOptions()
    parts = _read(source, options)
    owners = {part: str(source) if part == SINGLE else f"{source} ({part})" for part in parts}
    rated = {part: keep_rated(frame, options.min_rating, owners[part]) for part, frame in parts.items()}
    met = dict(zip(rated, deduplicate(list(rated.values())), strict=True))
    repeated = sum(rated[part].height - met[part].n_pairs for part in met)
    if SINGLE in met:
        split = _split(str(source), parts[SINGLE], k_core(met[SINGLE], options.core), options)
    else:
        split = _as_given(str(source), met, options)
    return replace(split, train=_with_noise(split, options), repeated_pairs=repeated)


def _read(source: str | Path, options: LoadOptions) -> dict[str, pl.DataFrame]:
    name, path = str(source), Path(source)
    if not path.exists():
        if name == builtin.DEBIAN_NAME:
            return {SINGLE: builtin.load_debian()}
        if name not in SETS:
            expected = f"a folder, a table, an archive or a name ({builtin.DEBIAN_NAME}, {', '.join(SETS)})"
            raise InputError(f"data: expected {expected}, received {name!r}")
        found = datasets.find(name)
        if found is None:
            raise InputError(f"{name}: expected a set that is at hand; fetch it with `shortlist data get {name}`")
        path, options = found, _as_registered(name, options)
    columns = Columns(options.user, options.item, options.weight, options.time)
    return read_parts(path, columns=columns, delimiter=options.delimiter)


def _as_registered(name: str, options: LoadOptions) -> LoadOptions:
    """The options with what is registered about a set's columns, where the caller has not said otherwise."""
    known = {key: text for key, text in SETS[name].options.items() if getattr(options, key) is None}
    return LoadOptions.from_text(known, **options.settings())


def _as_given(owner: str, parts: dict[str, Interactions], options: LoadOptions) -> Split:
    """Parts that came split stay as they are: also pairs that stand in two of them, and users of test alone."""
    if options.core > 1:
        raise InputError(f"LoadOptions.core: expected 0 for {owner}, which is split already, received {options.core}")
    train, valid = parts["train"], parts.get("valid")
    check_size(train, f"{owner} (train)")
    if valid is None:
        train, valid = _hold_out_valid(train, options)
    return Split(train, valid, parts["test"])


def _split(owner: str, table: pl.DataFrame, whole: Interactions, options: LoadOptions) -> Split:
    check_size(whole, owner)
    if options.split == "last":
        train, test = leave_last(whole, options.last, cold_users=options.cold_users)
    elif options.split == "time":
        train, test = at_time(whole, _moment(table, options.at), cold_users=options.cold_users)
    else:
        train, test = hold_out_share(whole, options.test_share, [options.seed, 0])
    valid: Interactions | None
    if options.split == "last" and options.protocol == "shortlist" and options.valid_share > 0:
        train, valid = leave_last(train, options.last, cold_users=options.cold_users)
    else:
        train, valid = _hold_out_valid(train, options)
    return _without_dropped(Split(train, valid, test))


def _hold_out_valid(train: Interactions, options: LoadOptions) -> tuple[Interactions, Interactions | None]:
    seed = [options.seed, 1]  # another stream than the test part's
    if options.valid_share == 0:
        return train, None
    if options.protocol == "irbenchmark":
        if options.valid_share != LoadOptions().valid_share:
            expected = "0, or none given, for the protocol irbenchmark, which has a rule of its own"
            raise InputError(f"LoadOptions.valid_share: expected {expected}, received {options.valid_share:g}")
        return hold_out_irbenchmark(train, seed)
    return hold_out_share(train, options.valid_share, seed)


def _with_noise(split: Split, options: LoadOptions) -> Interactions:
    """The training part with false positives; validation and test stay as they are."""
    if options.noise == 0:
        return split.train
    held_out = [part for part in (split.valid, split.test) if part is not None]
    return flip_negatives(split.train, options.noise, [options.seed, 2], avoid=held_out)


def _moment(table: pl.DataFrame, at: float | str | None) -> int:
    """The time at which to split, as a number like the interactions' times."""
    if at is None:
        raise InputError("LoadOptions.at: expected a time for split time, received none")
    if "time" not in table.columns:
        raise InputError("LoadOptions.split: expected a table with a time column for split time, received one without")
    kind = table.schema["time"]
    given = parse_times(pl.Series("at", [str(at)]))
    if given is None or given[0] is None or given.dtype.is_numeric() != kind.is_numeric():
        expected = "a number like those" if kind.is_numeric() else "an ISO date, as those"
        raise InputError(f"LoadOptions.at: expected {expected} of the time column, received {at!r}")
    if kind.is_integer():
        number: float = given[0]
        return math.ceil(number)  # between two whole times: the later one
    return int(time_as_number(given.cast(kind))[0])


def _without_dropped(split: Split) -> Split:
    """Leave out users and items that no part knows any more, which are those of dropped users."""
    parts = [part for part in (split.train, split.valid, split.test) if part is not None]
    keep_U = np.sum([part.user_counts() for part in parts], axis=0) > 0
    keep_I = np.sum([part.item_counts() for part in parts], axis=0) > 0
    if keep_U.all() and keep_I.all():
        return split
    train = restrict(split.train, keep_U, keep_I)
    valid = None if split.valid is None else restrict(split.valid, keep_U, keep_I)
    test = None if split.test is None else restrict(split.test, keep_U, keep_I)
    return replace(split, train=train, valid=valid, test=test)
