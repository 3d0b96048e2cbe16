"""The lock file pins every package by version and digest, as the constraints say."""

import re

from pages import REPOSITORY


def test_every_package_is_pinned_with_a_digest() -> None:
    lines = (REPOSITORY / "requirements.lock").read_text(encoding="utf-8").splitlines()[1:]
    found = [re.fullmatch(r"([\w.-]+)==([\w.+!-]+) --hash=sha256:[0-9a-f]{64}", line) for line in lines]
    assert all(found)
    locked = {re.sub(r"[-_.]+", "-", each[1]).lower(): each[2].partition("+")[0] for each in found if each}
    assert len(locked) == len(lines) > 80
    text = (REPOSITORY / "constraints.txt").read_text(encoding="utf-8")
    for name, version in re.findall(r"^([\w.-]+)==([\w.]+)", text, re.MULTILINE):
        assert locked[re.sub(r"[-_.]+", "-", name).lower()] == version
