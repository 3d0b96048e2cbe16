"""The files of a run with their sizes and digests, and reads that are checked against them.

``manifest.json`` is written with the run. Files are checked when the run is opened: all sizes, and the digests of files
up to 16 MB; larger ones when they are read. Runs of earlier versions have no manifest: their files must be those that
were there when the run was opened. ``model_card.md`` is for people to edit, and is not checked.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors.torch import load_file
from torch import Tensor

from shortlist.errors import InputError
from shortlist.files import check_regular, json_text
from shortlist.runs.folder import MANIFEST, replace_file

CHECKED_AT_ONCE = 1 << 24
"""Files up to this size are read when a run is opened."""

NOT_CHECKED = frozenset({MANIFEST, "model_card.md"})
BLOCK = 1 << 20


@dataclass(frozen=True)
class Digest:
    """Size and SHA-256 of a file."""

    size: int
    sha256: str

    @classmethod
    def of(cls, content: bytes) -> Digest:
        """That of some bytes."""
        return cls(len(content), hashlib.sha256(content).hexdigest())

    @classmethod
    def of_file(cls, path: Path) -> Digest:
        """That of a file, which is read a block at a time."""
        state, size = hashlib.sha256(), 0
        with path.open("rb") as stream:
            while block := stream.read(BLOCK):
                state.update(block)
                size += len(block)
        return cls(size, state.hexdigest())


class DamagedFile(InputError):
    """A file that is not as it was written."""

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(f"{path}: expected the file as it was written, received a damaged file ({reason})")
        self.reason = reason


Digests = Mapping[str, tuple[Digest, ...]]
"""The digests that each file may have: one, or two while a file is being replaced."""


def write_manifest(folder: Path) -> None:
    """Write the manifest of the files that are in a folder."""
    paths = [path for path in sorted(folder.iterdir()) if path.is_file() and path.name != MANIFEST]
    (folder / MANIFEST).write_bytes(_as_json({path.name: (Digest.of_file(path),) for path in paths}))


def replace_files(folder: Path, contents: Mapping[str, bytes]) -> None:
    """Replace files of a run one after the other. After a crash each is the old one or the new one, and accepted."""
    known = read_manifest(folder)
    if known is not None:
        new = {name: (Digest.of(content),) for name, content in contents.items()}
        either = {name: (*known.get(name, ()), *new.get(name, ())) for name in {**known, **new}}
        replace_file(folder / MANIFEST, _as_json(either))
    for name, content in contents.items():
        replace_file(folder / name, content)
    if known is not None:
        replace_file(folder / MANIFEST, _as_json({**known, **new}))


def read_manifest(folder: Path) -> Digests | None:
    """The digests of a run's files; None for a run of an earlier version, which has none."""
    path = folder / MANIFEST
    check_regular(path)
    try:
        listed = json.loads(path.read_text(encoding="utf-8"))["files"]
        known = {
            name: tuple(Digest(int(each["size"]), str(each["sha256"])) for each in digests)
            for name, digests in listed.items()
        }
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError, OverflowError) as problem:
        reason = next(iter(str(problem).splitlines()), type(problem).__name__)
        raise InputError(f"{path}: expected the manifest of a run, received a damaged file ({reason})") from problem
    if not all(name and Path(name).name == name and digests for name, digests in known.items()):
        raise InputError(f"{path}: expected names of files with digests, received a damaged file")
    return known


class RunFiles:
    """The files of an open run. What is read later is what was there when the run was opened, or an error."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.digests = read_manifest(folder)
        self._seen = {path.name: _signature(path.stat()) for path in folder.iterdir() if path.is_file()}

    def check(self, names: Iterable[str] | None = None) -> None:
        """Check the sizes of some files, or of all, and the digests of those that are small."""
        for name in (self.digests or {}) if names is None else names:
            if not self._expected(name):
                continue
            path = self.folder / name
            check_regular(path)
            if not path.is_file():
                raise InputError(f"{self.folder}: expected the folder of a run, received one without {name}")
            size = path.stat().st_size
            if size not in {each.size for each in self._expected(name)}:
                sizes = " or ".join(f"{each.size:,}" for each in self._expected(name))
                raise self._damaged(name, f"{size:,} bytes, not {sizes}")
            if size <= CHECKED_AT_ONCE:
                self.read(name)

    def read(self, name: str) -> bytes:
        """The bytes of a file."""
        path = self.folder / name
        check_regular(path)
        with path.open("rb") as stream:
            signature, content = _signature(os.fstat(stream.fileno())), stream.read()
        self._verify(name, signature, Digest.of(content) if self._expected(name) else None)
        return content

    def tensors(self, name: str) -> dict[str, Tensor]:
        """The tensors of a file, which is mapped and not copied."""
        path = self.folder / name
        check_regular(path)
        signature = _signature(path.stat())
        self._verify(name, signature, Digest.of_file(path) if self._expected(name) else None)
        tensors = load_file(path)
        if _signature(path.stat()) != signature:
            raise self._replaced(name)
        return tensors

    def _expected(self, name: str) -> tuple[Digest, ...]:
        return () if name in NOT_CHECKED else (self.digests or {}).get(name, ())

    def _verify(self, name: str, signature: tuple[int, ...], received: Digest | None) -> None:
        is_same_file = self._seen.get(name) == signature
        if received is None:
            if not is_same_file and name not in NOT_CHECKED:
                raise self._replaced(name)
        elif received not in self._expected(name):
            raise (
                self._damaged(name, "its SHA-256 is not that of manifest.json")
                if is_same_file
                else (self._replaced(name))
            )

    def _damaged(self, name: str, reason: str) -> DamagedFile:
        return DamagedFile(self.folder / name, reason)

    def _replaced(self, name: str) -> InputError:
        expected = "the file that was there when the run was opened"
        return InputError(f"{self.folder / name}: expected {expected}, received another (was the run replaced?)")


def _signature(status: os.stat_result) -> tuple[int, ...]:
    """What changes when a file is replaced or written to."""
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


def _as_json(digests: Digests) -> bytes:
    content: dict[str, Any] = {
        "format": 1,
        "files": {name: [vars(each) for each in dict.fromkeys(known)] for name, known in sorted(digests.items())},
    }
    return json_text(content).encode()
