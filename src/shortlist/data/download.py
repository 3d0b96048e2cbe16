"""Resumable HTTP downloads.

The bytes are stored in ``NAME.part``, and the server's version tag (ETag or Last-Modified) in ``NAME.part.tag``. A file
that has changed on the server is downloaded from its beginning, never combined with older bytes.
"""

from __future__ import annotations

import errno
import hashlib
import http.client
import math
import os
import re
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import IO

from shortlist.errors import ShortlistError
from shortlist.files import write_errors

Progress = Callable[[int, int | None], None]
"""Called with the number of bytes received and, if known, the size of the file."""

BLOCK = 1 << 18
TIMEOUT_SECONDS = 30.0


@dataclass(frozen=True)
class Partial:
    """The two files of a partial download."""

    data: Path
    tag: Path

    @classmethod
    def of(cls, path: Path) -> Partial:
        """The partial download of the given path."""
        return cls(path.with_name(path.name + ".part"), path.with_name(path.name + ".part.tag"))

    def size(self) -> int:
        """The number of bytes that a resumed download can reuse: 0 without a version tag."""
        return self.data.stat().st_size if self.data.exists() and self.tag.exists() else 0

    def remove(self) -> None:
        """Remove both files."""
        self.data.unlink(missing_ok=True)
        self.tag.unlink(missing_ok=True)


def fetch(
    address: str,
    path: Path,
    progress: Progress | None = None,
    *,
    pause_seconds: float = 1.0,
    most_bytes: int | None = None,
) -> Path:
    """Download the address into the ``.part`` file of a path, and resume an interrupted download.

    The caller checks the file and renames it. After a broken connection the download is retried as long as each attempt
    receives more bytes; otherwise the received bytes remain for the next call. A file that turns out larger than
    ``most_bytes`` is given up and removed.
    """
    partial = Partial.of(path)
    make_folder(path.parent)
    while True:
        kept = partial.size()
        try:
            _receive(address, partial, progress, most_bytes)
            return partial.data
        except _TooLargeError:
            partial.remove()
            raise ShortlistError(f"{address}: expected at most {most_bytes:,} bytes, received more") from None
        except urllib.error.HTTPError as problem:
            problem.close()
            if problem.code == HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE and kept:
                if problem.headers.get("Content-Range") == f"bytes */{kept}":
                    return partial.data  # the file is already complete
                partial.remove()  # more bytes than the server has: not the same file
                continue
            raise ShortlistError(f"{address}: expected a file, received HTTP {problem.code} {problem.reason}") from None
        except (http.client.HTTPException, OSError) as problem:
            reason = str(getattr(problem, "reason", problem)) or type(problem).__name__
        if partial.size() <= kept:
            stays = f"; {kept:,} bytes are kept for the next attempt" if kept else ""
            raise ShortlistError(f"{address}: expected the complete file, received an interruption ({reason}){stays}")
        time.sleep(pause_seconds)


def make_folder(folder: Path) -> None:
    """Create a folder if it does not exist."""
    with write_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)


def digest_of(stream: IO[bytes], algorithm: str) -> str:
    """Checksum of a stream, ``md5`` or ``sha256``, to verify published files."""
    state = hashlib.new(algorithm, usedforsecurity=False)
    while block := stream.read(BLOCK):
        state.update(block)
    return state.hexdigest()


class _TooLargeError(Exception):
    """The file is larger than what is registered."""


def _receive(address: str, partial: Partial, progress: Progress | None, most_bytes: int | None) -> None:
    """One request: the rest of the file if the server still has the same version, else all of it."""
    with _ask(address, partial) as response:
        start, total = _extent(response)
        if response.headers.get_content_type() == "text/html":
            raise ShortlistError(f"{address}: expected a file, received a web page")
        if start not in (0, partial.size()):
            raise http.client.HTTPException(f"bytes from {start:,} on, not the requested ones")
        if total is None and not response.chunked:
            raise ShortlistError(f"{address}: expected a response with a length, received one without")
        most = math.inf if most_bytes is None else most_bytes
        if (total or 0) > most:
            raise _TooLargeError
        with write_errors(partial.data):
            stream = partial.data.open("ab" if start else "wb", buffering=0)
            _keep_tag(response, partial)  # after older bytes are removed: they must never be paired with a newer tag
        n_received = start
        with stream:
            while block := response.read1(BLOCK):  # read1 returns the bytes received before an interruption
                if n_received + len(block) > most:
                    raise _TooLargeError
                with write_errors(partial.data):
                    if stream.write(block) < len(block):
                        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                n_received += len(block)
                if progress is not None:
                    progress(n_received, total)
    if total is not None and n_received != total:
        raise http.client.HTTPException(f"the connection ended after {n_received:,} of {total:,} bytes")


def _ask(address: str, partial: Partial) -> http.client.HTTPResponse:
    """Send the request, for the missing bytes if some are stored."""
    request = urllib.request.Request(address, headers={"User-Agent": "shortlist", "Accept-Encoding": "identity"})
    if kept := partial.size():
        request.add_header("Range", f"bytes={kept}-")
        request.add_header("If-Range", partial.tag.read_text(encoding="utf-8"))
    response: http.client.HTTPResponse = urllib.request.urlopen(request, timeout=TIMEOUT_SECONDS)
    return response


def _extent(response: http.client.HTTPResponse) -> tuple[int, int | None]:
    """The offset of the response's bytes in the file, and the size of the file if known."""
    if response.status == HTTPStatus.PARTIAL_CONTENT:
        content_range = re.fullmatch(r"bytes (\d+)-\d+/(\d+|\*)", response.headers.get("Content-Range", ""))
        if content_range is None:
            raise http.client.HTTPException("a part of the file without its place")
        return int(content_range[1]), None if content_range[2] == "*" else int(content_range[2])
    length = response.headers.get("Content-Length")
    return 0, int(length) if length is not None and length.isdecimal() else None


def _keep_tag(response: http.client.HTTPResponse, partial: Partial) -> None:
    """Store the version tag; a weak ETag does not guarantee the same bytes and is not used."""
    tag = response.headers.get("ETag", "")
    mark = tag if tag.startswith('"') else response.headers.get("Last-Modified")
    if mark:
        partial.tag.write_text(mark, encoding="utf-8")
    else:
        partial.tag.unlink(missing_ok=True)
