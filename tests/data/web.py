"""A web server on this machine that misbehaves as told, for the tests of downloads."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass
class Site:
    """One file, how it is served, and what was asked for."""

    content: bytes
    tag: str | None = '"first"'
    ranges: bool = True
    cut_after: list[int | None] = field(default_factory=list)
    """For each answer in turn, after how many bytes the connection breaks; whole answers once the list is used up."""

    status: int = 200
    content_type: str = "application/octet-stream"
    tells_length: bool = True
    chunked: bool = False
    asked: list[str | None] = field(default_factory=list)
    """The Range of every request."""

    address: str = ""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    site: Site

    def do_GET(self) -> None:
        site = self.site
        wanted = self.headers.get("Range")
        site.asked.append(wanted)
        if site.status != 200:
            return self.send_error(site.status)
        start = 0
        if wanted and site.ranges and self.headers.get("If-Range") == site.tag:
            start = int(wanted.removeprefix("bytes=").removesuffix("-"))
            if start >= len(site.content):
                self.send_response(416)
                self.send_header("Content-Range", f"bytes */{len(site.content)}")
                self.send_header("Content-Length", "0")
                return self.end_headers()
        self._answer(start)
        return None

    def _answer(self, start: int) -> None:
        site, body = self.site, self.site.content[start:]
        self.send_response(206 if start else 200)
        self.send_header("Content-Type", site.content_type)
        if start:
            self.send_header("Content-Range", f"bytes {start}-{len(site.content) - 1}/{len(site.content)}")
        if site.tag:
            self.send_header("ETag", site.tag)
        if site.chunked:
            self.send_header("Transfer-Encoding", "chunked")
        elif site.tells_length:
            self.send_header("Content-Length", str(len(body)))
        self.close_connection = True
        self.end_headers()
        cut = site.cut_after.pop(0) if site.cut_after else None
        sent = body[:cut]
        self.wfile.write(b"%x\r\n%b\r\n" % (len(sent), sent) if site.chunked and sent else sent)
        if site.chunked and cut is None:
            self.wfile.write(b"0\r\n\r\n")

    def log_message(self, format: str, *args: object) -> None:
        """Be silent."""


@contextmanager
def served(site: Site) -> Iterator[Site]:
    """Serve the site as long as the block lasts."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"site": site}))
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    site.address = f"http://127.0.0.1:{server.server_port}/files/set.zip"
    try:
        yield site
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
