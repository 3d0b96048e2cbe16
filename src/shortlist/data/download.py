"""Fetch a file over HTTP so that an interruption costs only what was still missing.

The bytes gather in ``NAME.part``. Beside it ``NAME.part.tag`` keeps the server's mark of the version they belong to
(ETag or Last-Modified): a file that changed on the server meanwhile is fetched from its beginning, never spliced.
"""

from __future__ import annotations

import errno
import hashlib
import http.client
import os
import re
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import IO

from shortlist.errors import InputError, ShortlistError

Progress = Callable[[int, int | None], None]
"""Called with the bytes at hand and, where it is known, the bytes of the whole file."""

BLOCK = 1 << 18
TIMEOUT_SECONDS = 30.0


@dataclass(frozen=True)
class Partial:
    """The two files of a download that is under way."""

    data: Path
    tag: Path

    @classmethod
    def of(cls, path: Path) -> Partial:
        """Those that belong to the whole file's path."""
        return cls(path.with_name(path.name + ".part"), path.with_name(path.name + ".part.tag"))

    def size(self) -> int:
        """The bytes that a resumed download may keep: none without a mark of their version."""
        return self.data.stat().st_size if self.data.exists() and self.tag.exists() else 0

    def remove(self) -> None:
        """Leave nothing behind."""
        self.data.unlink(missing_ok=True)
        self.tag.unlink(missing_ok=True)


def fetch(address: str, path: Path, progress: Progress | None = None, *, pause_seconds: float = 1.0) -> Path:
    """Fetch the address into the ``.part`` file of a path, going on where an earlier call was interrupted.

    The caller checks what arrived and renames it. A broken connection is taken up again as long as every try brings
    more of the file; when one does not, what arrived remains for the next call.
    """
    partial = Partial.of(path)
    make_folder(path.parent)
    while True:
        kept = partial.size()
        try:
            _receive(address, partial, progress)
            return partial.data
        except urllib.error.HTTPError as problem:
            problem.close()
            if problem.code == HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE and kept:
                if problem.headers.get("Content-Range") == f"bytes */{kept}":
                    return partial.data  # nothing was missing
                partial.remove()  # more is kept than the server has: it cannot be the same file
                continue
            raise ShortlistError(f"{address}: expected a file, received HTTP {problem.code} {problem.reason}") from None
        except (http.client.HTTPException, OSError) as problem:
            reason = str(getattr(problem, "reason", problem)) or type(problem).__name__
        if partial.size() <= kept:
            stays = f"; {kept:,} bytes are kept for the next try" if kept else ""
            raise ShortlistError(f"{address}: expected the whole file, received an interruption ({reason}){stays}")
        time.sleep(pause_seconds)


def make_folder(folder: Path) -> None:
    """Make sure that a folder is there."""
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Say in one line that a path cannot be written to: a wrong place is bad input, a full disk is a failure."""
    try:
        yield
    except (PermissionError, NotADirectoryError, FileExistsError, IsADirectoryError) as problem:
        raise InputError(f"{path}: expected a place to write to, received {problem.strerror}") from None
    except OSError as problem:
        raise ShortlistError(f"{path}: expected room to write, received {problem.strerror}") from None


def digest_of(stream: IO[bytes], algorithm: str) -> str:
    """Checksum of a stream, ``md5`` or ``sha256``; it tells whether a file is the published one."""
    state = hashlib.new(algorithm, usedforsecurity=False)
    while block := stream.read(BLOCK):
        state.update(block)
    return state.hexdigest()


def _receive(address: str, partial: Partial, progress: Progress | None) -> None:
    """One request: the rest of the file if the server still has the same version, else all of it."""
    with _ask(address, partial) as response:
        start, total = _extent(response)
        if response.headers.get_content_type() == "text/html":
            raise ShortlistError(f"{address}: expected a file, received a web page")
        if start not in (0, partial.size()):
            raise http.client.HTTPException(f"bytes from {start:,} on, not those that were asked for")
        if total is None and not response.chunked:
            raise ShortlistError(f"{address}: expected an answer that tells its length, received one that does not")
        with writing(partial.data):
            stream = partial.data.open("ab" if start else "wb", buffering=0)
            _keep_tag(response, partial)  # after older bytes are gone: they must never stand beside a newer mark
        at_hand = start
        with stream:
            while block := response.read1(BLOCK):  # read1 hands over what came before a break
                with writing(partial.data):
                    if stream.write(block) < len(block):
                        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                at_hand += len(block)
                if progress is not None:
                    progress(at_hand, total)
    if total is not None and at_hand != total:
        raise http.client.HTTPException(f"the connection ended after {at_hand:,} of {total:,} bytes")


def _ask(address: str, partial: Partial) -> http.client.HTTPResponse:
    """Send the request, for the missing rest if something is kept."""
    request = urllib.request.Request(address, headers={"User-Agent": "shortlist", "Accept-Encoding": "identity"})
    if kept := partial.size():
        request.add_header("Range", f"bytes={kept}-")
        request.add_header("If-Range", partial.tag.read_text(encoding="utf-8"))
    response: http.client.HTTPResponse = urllib.request.urlopen(request, timeout=TIMEOUT_SECONDS)
    return response


def _extent(response: http.client.HTTPResponse) -> tuple[int, int | None]:
    """Where the answer's bytes begin in the file, and the size of the whole file if it is told."""
    if response.status == HTTPStatus.PARTIAL_CONTENT:
        told = re.fullmatch(r"bytes (\d+)-\d+/(\d+|\*)", response.headers.get("Content-Range", ""))
        if told is None:
            raise http.client.HTTPException("a part of the file without its place")
        return int(told[1]), None if told[2] == "*" else int(told[2])
    length = response.headers.get("Content-Length")
    return 0, int(length) if length is not None and length.isdecimal() else None


def _keep_tag(response: http.client.HTTPResponse, partial: Partial) -> None:
    """Keep the mark of the version; a weak ETag does not promise the same bytes and is no mark."""
    tag = response.headers.get("ETag", "")
    mark = tag if tag.startswith('"') else response.headers.get("Last-Modified")
    if mark:
        partial.tag.write_text(mark, encoding="utf-8")
    else:
        partial.tag.unlink(missing_ok=True)
