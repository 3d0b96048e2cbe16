"""Load a data set (a frame, a table, a folder, an archive, a name) and split it for training and evaluation."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import polars as pl

from shortlist.data import builtin, datasets
from shortlist.data.checks import parse_times
from shortlist.data.columns import Columns
from shortlist.data.display import unix_unit
from shortlist.data.frames import open_frame
from shortlist.data.interactions import Interactions
from shortlist.data.noise import flip_negatives
from shortlist.data.prepare import (
    MICROSECONDS,
    check_size,
    deduplicate,
    k_core,
    keep_rated,
    read_frame,
    restrict_all,
    time_as_number,
)
from shortlist.data.public_sets import SETS
from shortlist.data.sources import SINGLE
from shortlist.data.splits import Split, at_time, hold_out_irbenchmark, hold_out_share, last_share, leave_last
from shortlist.data.tables import Table, read_tables
from shortlist.errors import InputError
from shortlist.parameters import LARGEST_SEED, Configured, param


class LoadOptions(Configured):
    """Options of reading and splitting data; each is also a command-line flag."""

    user: str | None = param(default=None, help="column of the user: a name, or a number if there is no header")
    item: str | None = param(default=None, help="column of the item")
    weight: str | None = param(default=None, help="column of the weight or rating; '-' reads none")
    time: str | None = param(default=None, help="column of the time; '-' reads none")
    delimiter: str | None = param(default=None, help="delimiter of fields, such as ',' or '::'")
    min_rating: float | None = param(default=None, help="drop rows with a lower weight")
    core: int = param(default=0, at_least=0, help="drop users and items with fewer pairs, repeatedly")
    split: Literal["random", "last", "time"] | None = param(
        default=None, help="how a single table is split; none: time with `at`, last with `last`, else random"
    )
    test_share: float = param(
        default=0.2, at_least=0, below=1, help="fraction of each user's items, for split random; 0 for no test part"
    )
    valid_share: float = param(
        default=0.1,
        at_least=0,
        below=1,
        help="fraction of each user's training items for validation, or for split time the last fraction of all "
        "training interactions by time; 0 for none",
    )
    last: int | None = param(
        default=None,
        at_least=1,
        help="number of each user's last items for test, and of those before for validation, for split last; none: 1",
    )
    at: int | float | str | None = param(
        default=None, help="the time at which test begins, for split time: a number like those, or an ISO date"
    )
    cold_users: Literal["error", "drop"] | None = param(
        default=None,
        help="users without training items after split last or time: an error, or drop them; none: split time drops "
        "them, split last is an error",
    )
    on_bad_rows: Literal["error", "skip"] = param(
        default="error", help="rows that cannot be read: an error, or drop them"
    )
    protocol: Literal["shortlist", "irbenchmark"] = param(
        default="shortlist", help="irbenchmark: hold out validation as the authors of SL@K do"
    )
    noise: float = param(
        default=0.0,
        at_least=0,
        help="false positives added to train, as a fraction of each user's training items; drawn from items that the "
        "user has in no part",
    )
    seed: int = param(default=0, at_least=0, at_most=LARGEST_SEED, help="seed of the random splits and of the noise")


def load(source: Any, options: LoadOptions | None = None, **settings: Any) -> Split:
    """Read, filter and split.

    ``source`` is a DataFrame of any library, or a single table, which is split; a folder or archive with tables named
    train, test and optionally valid, which remain unchanged; or the name of a registered data set, of which
    ``"debian"`` is built in. A data set that is already split has the users and items of all its parts. Without a valid
    part, one is held out of train. ``settings`` are :class:`LoadOptions` by name, and override those of ``options``.

    >>> split = load("debian", valid_share=0.0, seed=1)
    >>> split.train.n_users == split.test.n_users
    True
    >>> clicks = pl.DataFrame({"who": ["ann", "ann", "bob", "bob"], "sku": [1, 2, 2, 3], "ts": [5, 9, 6, 7]})
    >>> split = load(clicks, user="who", split="last", valid_share=0.0)
    >>> split.test.item_ids.gather(split.test.indices).to_list()
    [2, 3]
    """
    options = LoadOptions(**{**(options.settings() if options else {}), **settings})
    owner, read, library = _read(source, options)
    parts = {part: table.frame for part, table in read.items()}
    options = _resolved(owner, options, is_single=SINGLE in parts)
    owners = {part: owner if part == SINGLE else f"{owner} ({part})" for part in parts}
    rated = {part: keep_rated(frame, options.min_rating, owners[part]) for part, frame in parts.items()}
    tables = dict(zip(rated, deduplicate(list(rated.values())), strict=True))
    if options.min_rating is not None:  # ratings select the rows; the selected rows have equal weights
        tables = {part: table.without_weights() for part, table in tables.items()}
    repeated = sum(rated[part].height - tables[part].n_pairs for part in tables)
    if SINGLE in tables:
        split = _split(owner, parts[SINGLE], k_core(tables[SINGLE], options.core), options)
    else:
        split = _as_given(owner, tables, options)
    native: dict[str, Any] = {} if library == "polars" else {"frame_library": library}
    names = dict(next((read[part].names for part in (SINGLE, "train") if part in read), {}))
    if names:
        native["columns"] = names
    skipped = tuple(
        str(table.bad_rows) for table in read.values() if table.bad_rows is not None and table.bad_rows.count
    )
    return replace(
        split,
        notes=(*skipped, *split.notes),
        train=_with_noise(split, options),
        repeated_pairs=repeated,
        protocol=options.protocol,
        frame_library=library,
        origin={"source": owner, **options.settings(), **native},
    )


def _resolved(owner: str, options: LoadOptions, *, is_single: bool) -> LoadOptions:
    """The options with those that follow from others; contradictions are refused."""
    how = options.split
    for name, needed in (("at", "time"), ("last", "last")):
        value = getattr(options, name)
        if value is None or how == needed:
            continue
        if how is not None:
            raise InputError(f"LoadOptions.{name}: expected none for split {how}, received {value!r}")
        how = "time" if needed == "time" else "last"
    if not is_single:
        if how in ("time", "last"):
            raise InputError(f"LoadOptions.split: expected none for {owner}, which is split already, received {how!r}")
        return options
    settings = {**options.settings(), "split": how or "random"}
    if how == "last":
        settings |= {"last": options.last or 1, "cold_users": options.cold_users or "error"}
    elif how == "time":
        settings |= {"cold_users": options.cold_users or "drop"}
    return LoadOptions(**settings)


def _read(source: Any, options: LoadOptions) -> tuple[str, dict[str, Table], str]:
    """The source's name in errors, its tables, and the library of the frame."""
    columns = Columns(options.user, options.item, options.weight, options.time)
    if not isinstance(source, str | Path):
        frame = open_frame(source)
        if options.delimiter is not None:
            raise InputError(
                f"LoadOptions.delimiter: expected none for a {frame.label}, received {options.delimiter!r}"
            )
        table = read_frame(frame, columns, skip_bad_rows=options.on_bad_rows == "skip")
        return frame.label, {SINGLE: table}, frame.library
    return str(source), _read_files(source, columns, options), "polars"


def _read_files(source: str | Path, columns: Columns, options: LoadOptions) -> dict[str, Table]:
    name, path = str(source), Path(source)
    if not path.exists():
        if name == builtin.DEBIAN_NAME:
            return {SINGLE: Table(builtin.load_debian())}
        if name not in SETS:
            expected = f"a folder, a table, an archive or a name ({builtin.DEBIAN_NAME}, {', '.join(SETS)})"
            raise InputError(f"data: expected {expected}, received {name!r}")
        found = datasets.find(name)
        if found is None:
            raise InputError(f"{name}: expected a downloaded data set; download it with `shortlist data get {name}`")
        path, options = found, _as_registered(name, options)
        columns = Columns(options.user, options.item, options.weight, options.time)
    skip = options.on_bad_rows == "skip"
    return read_tables(path, columns=columns, delimiter=options.delimiter, skip_bad_rows=skip)


def _as_registered(name: str, options: LoadOptions) -> LoadOptions:
    """The options with a data set's registered columns as defaults."""
    known = {key: text for key, text in SETS[name].options.items() if getattr(options, key) is None}
    return LoadOptions.from_text(known, **options.settings())


def _as_given(owner: str, parts: dict[str, Interactions], options: LoadOptions) -> Split:
    """The parts of data that is already split, unchanged: also pairs in two parts, and users of test only."""
    if options.core > 1:
        raise InputError(f"LoadOptions.core: expected 0 for {owner}, which is split already, received {options.core}")
    train, valid = parts["train"], parts.get("valid")
    check_size(train, f"{owner} (train)")
    if valid is None:
        train, valid = _hold_out_valid(train, options)
    return Split(train, valid, parts["test"])


def _split(owner: str, table: pl.DataFrame, interactions: Interactions, options: LoadOptions) -> Split:
    check_size(interactions, owner)
    test: Interactions | None
    valid: Interactions | None
    cold_users = options.cold_users or "error"
    if options.split == "last":
        train, test = leave_last(interactions, options.last or 1, cold_users=cold_users)
    elif options.split == "time":
        train, test = at_time(interactions, _moment(table, options.at), cold_users=cold_users)
    elif options.test_share == 0:
        train, test = interactions, None
    else:
        train, test = hold_out_share(interactions, options.test_share, [options.seed, 0])
    own_rule = options.protocol == "shortlist" and options.valid_share > 0
    if options.split == "last" and own_rule:
        train, valid = leave_last(train, options.last or 1, cold_users=cold_users)
    elif options.split == "time" and own_rule:
        train, valid = last_share(train, options.valid_share, cold_users=cold_users)
    else:
        train, valid = _hold_out_valid(train, options)
    if options.split == "time":
        test = _without_cold(train, test)
    notes = () if options.split == "random" else _dropped(interactions, train, str(options.split), cold_users)
    return _without_dropped(Split(train, valid, test, notes=notes))


def _without_cold(train: Interactions, part: Interactions | None) -> Interactions | None:
    """The part without users who have no training items: they came while validation was going on."""
    return None if part is None else part.select((train.user_counts() > 0)[part.users_of_pairs()])


def _dropped(whole: Interactions, train: Interactions, split: str, cold_users: str) -> tuple[str, ...]:
    """A line about the users who were left out."""
    cold, known = (train.user_counts() == 0) & (whole.user_counts() > 0), int((whole.user_counts() > 0).sum())
    if cold_users != "drop" or not cold.any():
        return ()
    count = int(cold.sum())
    return (
        f"split {split}: {count:,} of {known:,} users have no training items and are left out "
        "(LoadOptions.cold_users=error refuses them)",
    )


def _hold_out_valid(train: Interactions, options: LoadOptions) -> tuple[Interactions, Interactions | None]:
    seed = [options.seed, 1]  # a different stream from that of the test part
    if options.valid_share == 0:
        return train, None
    if options.protocol == "irbenchmark":
        if options.valid_share != LoadOptions().valid_share:
            expected = "0, or none given, for the protocol irbenchmark, which has its own rule"
            raise InputError(f"LoadOptions.valid_share: expected {expected}, received {options.valid_share:g}")
        return hold_out_irbenchmark(train, seed)
    return hold_out_share(train, options.valid_share, seed)


def _with_noise(split: Split, options: LoadOptions) -> Interactions:
    """The training part with added false positives; validation and test are unchanged."""
    if options.noise == 0:
        return split.train
    held_out = [part for part in (split.valid, split.test) if part is not None]
    return flip_negatives(split.train, options.noise, [options.seed, 2], avoid=held_out)


def _moment(table: pl.DataFrame, at: float | str | None) -> int:
    """The time of the split, in the units of the interactions' times."""
    if at is None:
        raise InputError("LoadOptions.at: expected a time for split time, received none")
    if "time" not in table.columns:
        raise InputError("LoadOptions.split: expected a table with a time column for split time, received one without")
    kind = table.schema["time"]
    given = parse_times(pl.Series("at", [str(at)]))
    if given is not None and given[0] is not None and kind.is_numeric() and not given.dtype.is_numeric():
        given = _as_unix(given, table["time"])
    if given is None or given[0] is None or given.dtype.is_numeric() != kind.is_numeric():
        expected = "a number like those" if kind.is_numeric() else "an ISO date, as those"
        raise InputError(f"LoadOptions.at: expected {expected} of the time column, received {at!r}")
    if kind.is_integer():
        number: float = given[0]
        return math.ceil(number)  # round up between two integer times
    return int(time_as_number(given.cast(kind))[0])


def _as_unix(date: pl.Series, times: pl.Series) -> pl.Series:
    """A date as a Unix time in the unit of the times, or as it is where they are no Unix times."""
    unit = unix_unit(float(times.cast(pl.Float64).max() or 0))  # type: ignore[arg-type]
    return date if unit is None else (date.dt.timestamp("us") / (MICROSECONDS / unit)).alias("at")


def _without_dropped(split: Split) -> Split:
    """Drop users and items that are in no part, those of dropped users."""
    parts = [part for part in (split.train, split.valid, split.test) if part is not None]
    keep_U = np.sum([part.user_counts() for part in parts], axis=0) > 0
    keep_I = np.sum([part.item_counts() for part in parts], axis=0) > 0
    if keep_U.all() and keep_I.all():
        return split
    restricted = iter(restrict_all(parts, keep_U, keep_I))
    train, valid, test = (None if part is None else next(restricted) for part in (split.train, split.valid, split.test))
    return split if train is None else replace(split, train=train, valid=valid, test=test)
