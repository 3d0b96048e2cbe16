"""Write requirements.lock: every installed package with the SHA-256 of the file that pip would install.

Run in the environment that ``make setup`` has built, where an index answers: ``.venv/bin/python scripts/lock.py``.
The hashes are those of this platform and version of Python.
"""

from __future__ import annotations

import hashlib
import json
import platform
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlparse

LOCK = Path(__file__).parents[1] / "requirements.lock"
HEAD = "# Written by scripts/lock.py for CPython {python} on {system}; `make locked` installs exactly these files.\n"


def installed() -> list[str]:
    """The installed packages with their versions, without Shortlist itself."""
    command = [sys.executable, "-m", "pip", "list", "--format", "json", "--exclude-editable"]
    found = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    own = {"shortlist", "pip", "setuptools"}
    return sorted(f"{each['name']}=={each['version']}" for each in found if each["name"].lower() not in own)


def resolved(requirements: list[str]) -> list[dict[str, Any]]:
    """What pip would install for them, by its own report."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder, "report.json")
        options = ["--dry-run", "--ignore-installed", "--no-deps", "--quiet", "--report", str(report)]
        subprocess.run([sys.executable, "-m", "pip", "install", *options, *requirements], check=True)
        entries: list[dict[str, Any]] = json.loads(report.read_text(encoding="utf-8"))["install"]
        return entries


def lines(entries: list[dict[str, Any]]) -> list[str]:
    """A line for each package."""
    found = []
    for each in entries:
        about = each["metadata"]
        found.append(f"{about['name']}=={about['version']} --hash=sha256:{digest(each['download_info'])}")
    return sorted(found)


def digest(source: dict[str, Any]) -> str:
    """The SHA-256 that the index gives, or that of the local file."""
    known = source.get("archive_info", {}).get("hashes", {}).get("sha256")
    if known is not None:
        return str(known)
    return hashlib.sha256(Path(unquote(urlparse(source["url"]).path)).read_bytes()).hexdigest()


if __name__ == "__main__":
    head = HEAD.format(python=platform.python_version(), system=f"{platform.system()} {platform.machine()}")
    LOCK.write_text(head + "\n".join(lines(resolved(installed()))) + "\n", encoding="utf-8")
