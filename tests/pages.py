"""The pages of the repository, and the blocks of code in them."""

import re
from dataclasses import dataclass
from pathlib import Path

REPOSITORY = Path(__file__).parents[1]
PAGES = [REPOSITORY / "README.md", *sorted((REPOSITORY / "docs").rglob("*.md"))]


@dataclass(frozen=True)
class Block:
    """A block: its language, the file or folder that it belongs to (none: the reader's own), its text and its line."""

    language: str
    place: str
    text: str
    line: int


def blocks(page: Path) -> list[Block]:
    """The blocks of a page that have a language."""
    text = page.read_text(encoding="utf-8")
    found = re.finditer(r"^```(\w+)(?: (\S+))?\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    return [Block(each[1], each[2] or "", each[3], text.count("\n", 0, each.start()) + 2) for each in found]
