"""The page docs/add-a-loss.md: its package is found and trained with, and its entry passes the suite."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from pages import REPOSITORY, blocks

BLOCKS = [each for each in blocks(REPOSITORY / "docs" / "add-a-loss.md") if each.language != "math"]


def block(place: str) -> str:
    (found,) = (each.text for each in BLOCKS if each.place == place)
    return found


def run(script: str, folder: Path, **environment: str) -> str:
    """Run a script of the page unchanged, with the commands of this Python."""
    commands = folder / "commands"
    commands.mkdir(exist_ok=True)
    for name, module in {"python": "", "pip": "-m pip", "shortlist": "-m shortlist"}.items():
        (commands / name).write_text(f'#!/bin/sh\nexec {sys.executable} {module} "$@"\n')
        (commands / name).chmod(0o755)
    path = f"{commands}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, **environment}
    answer = subprocess.run(
        ["sh", "-ec", script], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    assert answer.returncode == 0, answer.stdout + answer.stderr
    return answer.stdout


def test_every_block_is_tested() -> None:
    """The tests below cover these blocks and no others."""
    assert [(each.language, each.place) for each in BLOCKS] == [
        ("python", "gce_loss.py"),
        ("toml", "pyproject.toml"),
        ("sh", ""),
        ("sh", ""),
        ("python", "tests/losses/entries/softmax.py"),
        ("sh", "repository"),
    ]


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, str], str]:
    """The page's package, installed by pip into a folder of its own, and the output of `shortlist losses gce`."""
    folder = tmp_path_factory.mktemp("package")
    for place in ("gce_loss.py", "pyproject.toml"):
        (folder / place).write_text(block(place), encoding="utf-8")
    installed = tmp_path_factory.mktemp("installed")
    environment = {
        "PYTHONPATH": f"{installed}{os.pathsep}{REPOSITORY / 'src'}",
        # install into that folder, without downloads
        "PIP_TARGET": str(installed),
        "PIP_NO_DEPS": "1",
        "PIP_NO_INDEX": "1",
        "PIP_NO_BUILD_ISOLATION": "0",
    }
    install, _ = (each.text for each in BLOCKS if each.language == "sh" and not each.place)
    return folder, environment, run(install, folder, **environment)


def test_an_installed_package_is_found_by_its_entry_point(package: tuple[Path, dict[str, str], str]) -> None:
    folder, environment, output = package
    assert "(1 − p^q)/q" in output
    assert "how little wrong clicks count" in output
    (folder / "gce_loss.py").unlink()  # from here on the installed module is imported
    listed = run("shortlist losses", folder, **environment)
    assert "Losses for noisy clicks: softmax losses that a wrong click moves little." in listed
    assert re.search(r"^  gce +NDCG, where some clicks are wrong$", listed, re.MULTILINE)
    where = run(
        "python -c 'from shortlist.losses import registry; print(registry[\"gce\"].__module__)'", folder, **environment
    )
    assert where.strip() == "gce_loss"


def test_a_model_is_trained_with_it_and_ranked(package: tuple[Path, dict[str, str], str], clicks: Path) -> None:
    """The commands of the page, on a small table."""
    folder, environment, _ = package
    _, rank = (each.text for each in BLOCKS if each.language == "sh" and not each.place)
    assert rank.count("shortlist train debian ") == 3
    output = run(rank.replace(" debian ", f" {clicks} "), folder, **environment)
    assert "gce on" in output.replace("mf with ", "")
    assert {"sl − gce", "slatk − gce", "slatk − sl"} <= set(re.findall(r"\w+ − \w+", output))
    config = (folder / "runs" / "gce" / "config.json").read_text(encoding="utf-8")
    assert '"q": 0.1' in config
    output = run("shortlist recommend runs/gce --user person-00 --k 3", folder, **environment)
    assert output.count("10") >= 3  # an even person's things are 1000 … 1019


def test_the_suite_covers_a_loss_in_the_repository(tmp_path: Path) -> None:
    """The loss and its entry at the ends of their files, in a copy of the repository."""
    for part in ("src", "tests"):
        shutil.copytree(REPOSITORY / part, tmp_path / part, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(REPOSITORY / "pyproject.toml", tmp_path)
    ends = {
        "src/shortlist/losses/softmax.py": "gce_loss.py",
        "tests/losses/entries/softmax.py": "tests/losses/entries/softmax.py",
    }
    for file, place in ends.items():
        with (tmp_path / file).open("a", encoding="utf-8") as end:
            end.write("\n\n" + block(place))
    output = run(block("repository"), tmp_path, PYTHONPATH=str(tmp_path / "src"))
    passed = re.search(r"(\d+) passed", output)
    assert passed is not None
    assert int(passed.group(1)) > 40
    assert "failed" not in output


@pytest.mark.parametrize(("name", "code"), [(None, 0), ("slatk", 0), ("odd", 1)])
def test_a_package_that_cannot_be_loaded_is_named(name: str | None, code: int, tmp_path: Path) -> None:
    """A folder as pip would install it."""
    facts = tmp_path / "broken_losses-0.1.dist-info"
    facts.mkdir()
    (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: broken-losses\nVersion: 0.1\n")
    (facts / "entry_points.txt").write_text("[shortlist.losses]\nodd = broken_losses:Odd\n")
    (tmp_path / "broken_losses.py").write_text("raise RuntimeError('no licence')\n")
    path = os.pathsep.join([str(tmp_path), str(REPOSITORY / "src")])
    answer = subprocess.run(
        [sys.executable, "-m", "shortlist", "losses", *([name] if name else [])],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    message = "'odd' of the installed package broken-losses cannot be loaded: RuntimeError: no licence"
    assert answer.returncode == code
    assert answer.stderr == ("" if name == "slatk" else f"shortlist: losses: {message}\n")
    assert bool(answer.stdout) == (code == 0)
