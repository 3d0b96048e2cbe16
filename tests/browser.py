"""A real browser that tests can look at and press keys in: Chromium, spoken to through a pipe, without network."""

import json
import os
import shutil
import subprocess
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from pictures import pixels

CHROMIUM = next(
    (path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), ""
)

QUIET = ("--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--disable-background-networking",
         "--proxy-server=127.0.0.1:9", "--no-first-run")  # fmt: skip

needs_browser = pytest.mark.skipif(not CHROMIUM, reason="no Chromium is installed")

KEYS = {"Tab": 9, "Enter": 13, "Escape": 27, " ": 32, "ArrowUp": 38, "ArrowDown": 40}


class Tab:
    """A page that is open; what it is asked goes through the browser's own protocol."""

    def __init__(self, write: int, read: int) -> None:
        self._write, self._read, self._number, self._left = write, read, 0, b""
        target = self._ask("Target.createTarget", url="about:blank")["targetId"]
        self._session = self._ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        self._ask("Page.enable")

    def open(self, page: Path) -> None:
        """Go to a file and wait until it is there."""
        self._ask("Page.navigate", url=page.as_uri())
        while self._message().get("method") != "Page.loadEventFired":
            pass

    def narrow(self, width: int) -> None:
        """Let the screen be this wide, as on a telephone; windows of the browser itself have a smallest width."""
        self._ask("Emulation.setDeviceMetricsOverride", width=width, height=800, deviceScaleFactor=1, mobile=False)

    def press(self, *keys: str) -> None:
        """Press keys, one after the other: those of :data:`KEYS`, or signs to be typed."""
        for key in keys:
            text = {"Enter": "\r"}.get(key, key if len(key) == 1 else "")
            code = KEYS.get(key, ord(key.upper()[0]))
            same = {"key": key, "windowsVirtualKeyCode": code, **({"text": text} if text else {})}
            self._ask("Input.dispatchKeyEvent", type="keyDown" if text else "rawKeyDown", **same)
            self._ask("Input.dispatchKeyEvent", type="keyUp", key=key, windowsVirtualKeyCode=code)

    def see(self, expression: str) -> Any:
        """The value of an expression in the page."""
        answer = self._ask("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def _ask(self, method: str, **parameters: Any) -> dict[str, Any]:
        self._number += 1
        where = {"sessionId": self._session} if hasattr(self, "_session") else {}
        message = {"id": self._number, "method": method, "params": parameters, **where}
        os.write(self._write, json.dumps(message).encode() + b"\0")
        while (answer := self._message()).get("id") != self._number:
            pass
        assert "error" not in answer, answer
        result: dict[str, Any] = answer["result"]
        return result

    def _message(self) -> dict[str, Any]:
        while b"\0" not in self._left:
            more = os.read(self._read, 1 << 20)
            assert more, "the browser has gone"
            self._left += more
        first, _, self._left = self._left.partition(b"\0")
        message: dict[str, Any] = json.loads(first)
        return message


@contextmanager
def browser(profile: Path) -> Iterator[Tab]:
    """A browser with one empty page; it ends with the block."""
    (theirs_in, ours_out), (ours_in, theirs_out) = os.pipe(), os.pipe()

    def place() -> None:
        """The browser reads from descriptor 3 and writes to 4; copies first, lest one of them is overwritten."""
        copies = os.dup(theirs_in), os.dup(theirs_out)
        os.dup2(copies[0], 3)
        os.dup2(copies[1], 4)

    process = subprocess.Popen(
        [CHROMIUM, *QUIET, f"--user-data-dir={profile}", "--remote-debugging-pipe", "about:blank"],
        preexec_fn=place,
        close_fds=False,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    os.close(theirs_in)
    os.close(theirs_out)
    try:
        yield Tab(ours_out, ours_in)
    finally:
        os.close(ours_out)
        os.close(ours_in)
        with suppress(subprocess.TimeoutExpired):
            process.wait(5)
        process.kill()
        process.wait()


def browse(page: Path, folder: Path, *flags: str) -> str:
    """What the browser prints; a profile of its own, no network."""
    words = [CHROMIUM, *QUIET, f"--user-data-dir={folder / 'profile'}", *flags, page.as_uri()]
    return subprocess.run(words, capture_output=True, text=True, timeout=120, check=True).stdout


def ink_in_colour(page: Path, folder: Path, scheme: int, paper: tuple[int, int, int], height: int) -> int:
    """How much of a page is in colour, in light (1) or dark (0); its paper and that text stands out are checked."""
    picture = folder / "page.png"
    browse(
        page,
        folder,
        f"--blink-settings=preferredColorScheme={scheme}",
        f"--window-size=1200,{height}",
        "--force-device-scale-factor=0.5",  # fewer pixels to read
        f"--screenshot={picture}",
    )
    colours = Counter(pixels(picture.read_bytes()))
    assert colours.most_common(1)[0][0] == paper
    is_bright = sum(paper) > 384
    ink = sum(count for colour, count in colours.items() if (sum(colour) < 200 if is_bright else sum(colour) > 560))
    assert ink > 200
    return sum(count for colour, count in colours.items() if max(colour) - min(colour) > 90)
