"""Running the command as a person does, within this process: what it prints, says and exits with."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from shortlist.cli import run


@dataclass(frozen=True)
class Answer:
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


Command = Callable[..., Answer]


def says(answer: Answer, code: int, *texts: str) -> None:
    """One line on stderr that holds the texts, and nothing on stdout."""
    assert (answer.code, answer.out) == (code, ""), answer
    assert answer.err.startswith("shortlist: ")
    assert answer.err.count("\n") == 1
    for text in texts:
        assert text in answer.err


@pytest.fixture
def shortlist(capsys: pytest.CaptureFixture[str]) -> Command:
    def command(*arguments: object) -> Answer:
        capsys.readouterr()
        code = run([str(argument) for argument in arguments])
        printed = capsys.readouterr()
        return Answer(code, printed.out, printed.err)

    return command


@pytest.fixture(scope="session")
def clicks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Sixty people with text ids and two tastes among forty things with number ids."""
    rng = np.random.default_rng(0)
    lines = ["user_id,item_id"]
    for person in range(60):
        for thing in rng.choice(20, 8, replace=False):
            lines.append(f"person-{person:02},{1000 + 20 * (person % 2) + thing}")
    path = tmp_path_factory.mktemp("clicks") / "clicks.csv"
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.fixture(scope="session")
def ease(clicks: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that tests only read."""
    folder = tmp_path_factory.mktemp("runs") / "ease"
    arguments = ["train", clicks, "--model", "ease", "--set", "model.regularization=5", "--out", folder, "--json"]
    assert run([str(argument) for argument in arguments]) == 0
    return folder
