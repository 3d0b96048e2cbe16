"""Rows that cannot be read and are skipped if the caller asks for it, with a count and the first few for people."""

from __future__ import annotations

from dataclasses import dataclass, field

NAMED = 3
"""How many skipped rows are described."""


@dataclass
class BadRows:
    """The skipped rows of one table.

    >>> bad = BadRows("clicks.csv")
    >>> bad.add("row 4, column 'sku': expected an id, received nothing")
    >>> bad.add("row 9: expected 3 fields, received 2")
    >>> print(bad)
    clicks.csv: 2 bad rows skipped: row 4, column 'sku': expected an id, received nothing; row 9: expected 3 fields, ...
    """

    label: str
    count: int = 0
    first: list[str] = field(default_factory=list)

    def add(self, what: str) -> None:
        """Count a row; the first few are kept in words."""
        self.count += 1
        if len(self.first) < NAMED:
            self.first.append(what)

    def __str__(self) -> str:
        rows = "1 bad row" if self.count == 1 else f"{self.count:,} bad rows"
        more = f"; and {self.count - len(self.first):,} more" if self.count > len(self.first) else ""
        return f"{self.label}: {rows} skipped: {'; '.join(self.first)}{more}"
