"""Roles of a table's columns: inferred from usual names, or given by the caller."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields

from shortlist.errors import InputError

NONE = "-"
"""The name that disables an optional column."""

USUAL_NAMES: Mapping[str, tuple[str, ...]] = {
    "user": (
        *("user", "userid", "uid", "useridx", "username", "customer", "customerid", "visitor", "visitorid"),
        *("reviewer", "reviewerid", "member", "memberid", "account", "accountid", "client", "clientid", "person"),
        *("personid", "reader", "readerid", "session", "sessionid", "query", "queryid"),
        *("userno", "usernumber", "usercode", "customerno", "customernumber", "customercode", "clientno", "clientcode"),
        *("memberno", "accountno", "buyer", "buyerid", "shopper", "shopperid", "subscriber", "subscriberid"),
    ),
    "item": (
        *("item", "itemid", "iid", "itemidx", "movie", "movieid", "product", "productid", "sku", "asin"),
        *("parentasin", "article", "articleid", "track", "trackid", "song", "songid", "book", "bookid", "isbn"),
        *("business", "businessid", "venue", "venueid", "poi", "poiid", "location", "locationid", "artist"),
        *("artistid", "game", "gameid", "news", "newsid", "content", "contentid", "document", "documentid", "docid"),
        *("video", "videoid", "recipe", "recipeid", "anime", "animeid", "offer", "offerid"),
        *("itemno", "itemnumber", "itemcode", "productno", "productnumber", "productcode", "articleno"),
        *("articlenumber", "articlecode", "skuid", "skuno", "skucode", "stockcode", "materialno", "ean", "gtin", "upc"),
    ),
    "weight": ("rating", "weight", "score", "stars", "overall", "ratings", "value", "count", "plays", "playcount"),
    "time": (
        *("timestamp", "time", "datetime", "date", "ts", "unixtime", "unixreviewtime", "eventtime", "createdat"),
        *("checkintime", "utctime", "ratingtime", "reviewtime", "eventtimestamp", "eventdate", "orderdate"),
        *("ordertime", "orderedat", "purchasedate", "purchasetime", "purchasedat", "invoicedate", "transactiondate"),
    ),
}
ROLES = tuple(USUAL_NAMES)
REQUIRED = ("user", "item")


@dataclass(frozen=True)
class Columns:
    """The names of a table's columns; ``None`` infers the name.

    In a file without a header the names are the positions ``"1"``, ``"2"``, …. With the name ``"-"`` an optional column
    (weight, time) is not read, even if the table has one.
    """

    user: str | None = None
    item: str | None = None
    weight: str | None = None
    time: str | None = None

    def given(self) -> dict[str, str]:
        """The roles for which a name was given."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return {role: name for role, name in values.items() if name is not None}

    def are_positions(self) -> bool:
        """Whether the columns are given by position, as for a file without a header."""
        names = [name for name in self.given().values() if name != NONE]
        return bool(names) and all(name.isascii() and name.isdigit() for name in names)


def normalize_name(name: str) -> str:
    """A column's name in lower case, without punctuation and RecBole's type.

    >>> [normalize_name(name) for name in ["user_id:token", "movieId", " Unix Review-Time "]]
    ['userid', 'movieid', 'unixreviewtime']
    """
    return "".join(letter for letter in name.partition(":")[0].lower() if letter.isalnum())


def assign(label: str, names: Sequence[str], columns: Columns, *, is_file: bool = True) -> dict[str, str]:
    """The table's column for each role that it has. Columns of files can also be given by position.

    >>> assign("clicks.csv", ["when", "SKU", "userId", "rating"], Columns(time="when", weight="-"))
    {'user': 'userId', 'item': 'SKU', 'time': 'when'}
    >>> assign("clicks.csv", ["a", "b"], Columns(user="a"))
    Traceback (most recent call last):
    ...
    shortlist.errors.InputError: clicks.csv: expected an item column (item_id, movieId, product_id, sku, …, or given by
    `item`), received the columns a, b
    """
    given = columns.given()
    received = f"received the columns {_list(names, is_file)}"
    chosen: dict[str, str] = {}
    for role in ROLES:
        wanted = given.get(role)
        if wanted == NONE and role not in REQUIRED:
            continue
        name = _guess(role, names, taken=set(given.values())) if wanted is None else _find(wanted, names)
        if name is not None:
            chosen[role] = name
        elif wanted is not None:
            raise InputError(f"{label}: expected a column {wanted!r} for the {role}, {received}")
        elif role in REQUIRED:
            raise InputError(f"{label}: expected {_EXAMPLES[role]}, …, or given by `{role}`), {received}")
    if len(set(chosen.values())) < len(chosen):
        pairs = ", ".join(f"{role} = {name}" for role, name in chosen.items())
        raise InputError(f"{label}: expected a different column for each role, received {pairs}")
    return chosen


_EXAMPLES = {
    "user": "a user column (user_id, userId, uid, customer_id",
    "item": "an item column (item_id, movieId, product_id, sku",
}


def looks_like_header(names: Sequence[str], columns: Columns) -> bool:
    """Whether a file's first row names a user and an item."""
    given = columns.given()
    return all(
        _find(given[role], names) is not None if role in given else _guess(role, names, taken=set()) is not None
        for role in REQUIRED
    )


def _guess(role: str, names: Sequence[str], taken: set[str]) -> str | None:
    """The column whose name is first in the list of usual names."""
    by_plain_name = {normalize_name(name): name for name in reversed(names) if name not in taken}
    return next((by_plain_name[usual] for usual in USUAL_NAMES[role] if usual in by_plain_name), None)


def _find(wanted: str, names: Sequence[str]) -> str | None:
    """The column of this name, with or without RecBole's type."""
    if wanted in names:
        return wanted
    return next((name for name in names if name.partition(":")[0] == wanted), None)


def _list(names: Sequence[str], is_file: bool) -> str:
    short = [name if len(name) <= 30 else name[:29] + "…" for name in names[:12]]
    shown = ", ".join(name if name.isprintable() else repr(name) for name in short)
    has_no_header = is_file and any(name.replace(".", "").isdigit() for name in names)
    hint = "; if the first row is not a header, give the columns by position: user 1, item 2" if has_no_header else ""
    return shown + (", …" if len(names) > 12 else "") + hint
