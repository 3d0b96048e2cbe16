"""The page of losses: made from what they say of themselves, and never behind it."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

import pytest
import torch
from torch import Tensor

from command import Command
from losses.values import registered
from shortlist.errors import ShortlistError
from shortlist.losses import registry
from shortlist.report.losses import HIGHEST, REACH, kernel_pictures, losses_page, made, markdown
from shortlist.scores import Kernel, Softplus

DOCS = Path(__file__).parents[2] / "docs"
STALE = "behind the losses: shortlist losses --out docs/losses.md writes it anew"


@pytest.fixture(scope="module")
def pictures() -> dict[str, str]:
    return kernel_pictures(registered())


@pytest.fixture(scope="module")
def page() -> str:
    return losses_page("losses", registered())


def curves(svg: str) -> dict[str, list[list[float]]]:
    """The lines of a picture by their names, in points of its 260 × 150: what text around them measures is left out."""
    found = {}
    for path in ElementTree.fromstring(svg).iter("{http://www.w3.org/2000/svg}path"):
        if path.get("aria-roledescription") == "line mark":
            name = re.search(r"name: (\S+)", path.get("aria-label", ""))
            assert name is not None
            points = re.findall(r"[ML]([-\d.]+),([-\d.]+)", path.get("d", ""))
            found[name.group(1)] = [[float(x), float(y)] for x, y in points]
    return found


def test_the_page_of_losses_in_the_repository_is_current(page: str) -> None:
    assert (DOCS / "losses.md").read_text(encoding="utf-8") == page, f"docs/losses.md is {STALE}"


def test_the_charts_of_kernels_in_the_repository_are_current(pictures: dict[str, str]) -> None:
    assert sorted(path.name for path in (DOCS / "losses").iterdir()) == sorted(pictures), f"docs/losses is {STALE}"
    for file, svg in pictures.items():
        kept = curves((DOCS / "losses" / file).read_text(encoding="utf-8"))
        assert kept == curves(svg), f"docs/losses/{file} is {STALE}"


def test_every_loss_has_its_section(page: str) -> None:
    sections = re.findall(r"^### (\S+)$", page, re.MULTILINE)
    assert len(sections) == len(set(sections))
    for name in registered():
        section = page.split(f"\n### {name}\n")[1].split("\n### ")[0].split("\n## ")[0]
        assert "```math\n" in section
        for key in registry[name].declared:
            assert f"\n| `loss.{key}` | " in section
        assert f"](#{name})" in page


def test_every_picture_that_is_shown_is_there(page: str, pictures: dict[str, str]) -> None:
    assert sorted(re.findall(r"\]\(losses/(\S+)\)", page)) == sorted(pictures)


@pytest.mark.parametrize(
    ("file", "value", "slope"),
    [
        ("softplus.svg", lambda x: math.log1p(math.exp(x)), lambda x: 1 / (1 + math.exp(-x))),
        ("sigmoid.svg", lambda x: 1 / (1 + math.exp(-x)), lambda x: math.exp(-x) / (1 + math.exp(-x)) ** 2),
    ],
)
def test_a_picture_shows_value_and_slope(
    pictures: dict[str, str], file: str, value: Callable[[float], float], slope: Callable[[float], float]
) -> None:
    """Read back off the picture: both curves have one scale, from the lowest to the highest that is drawn."""
    drawn = curves(pictures[file])
    height = {name: [150 - y for _, y in points] for name, points in drawn.items()}
    at = [-REACH + 2 * REACH * x / 260 for x, _ in drawn["φ"]]
    unit = height["φ"][-1] / value(at[-1])
    for name, function in {"φ": value, "φ′": slope}.items():
        assert height[name] == pytest.approx([unit * function(x) for x in at], abs=0.05)


def test_nothing_far_off_is_drawn(pictures: dict[str, str]) -> None:
    """eˣ leaves the picture at ln 5."""
    last = max(x for x, _ in curves(pictures["exponential.svg"])["φ"])
    assert -REACH + 2 * REACH * last / 260 == pytest.approx(math.log(HIGHEST), abs=2 * REACH / 120)


def test_docstrings_become_markdown() -> None:
    text = r"""What it is.

    .. math:: a \\
              b

        c

    where :math:`x_u` is ``x`` of :class:`~shortlist.scores.Kernel`.

    >>> 1 + 1
    2
    """
    assert markdown(text) == (
        "What it is.\n\n```math\na \\\\\nb\n```\n\n```math\nc\n```\n\n"
        "where $`x_u`$ is `x` of `Kernel`.\n\n```python\n>>> 1 + 1\n2\n```"
    )


def test_kernels_are_drawn_with_defaults_and_ones() -> None:
    @dataclass(frozen=True)
    class Learnt(Kernel):
        width: Tensor
        power: float
        margin: float = 0.5

        def value(self, x: Tensor) -> Tensor:
            return x * self.width

        def slope(self, x: Tensor) -> Tensor:
            return self.width.expand_as(x)

    kernel = made(Learnt)
    assert (kernel.width.item(), kernel.power, kernel.margin) == (1.0, 1.0, 0.5)
    assert torch.equal(kernel.value(torch.ones(2)), torch.ones(2, dtype=torch.float64))


def test_a_kernel_that_cannot_be_made_is_named() -> None:
    class Odd(Softplus):
        def __init__(self, shape: str) -> None:
            self.letter = shape[0]

    with pytest.raises(ShortlistError, match=r"^Odd: expected a kernel whose settings may be 1"):
        made(Odd)


def test_only_kernels_of_one_difference_are_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    class Step(Softplus):
        """φ(x) = 1 where x > 0."""

        def value(self, x: Tensor) -> Tensor:
            return (x > 0).to(x.dtype)

        def slope(self, x: Tensor) -> Tensor:
            raise NotImplementedError

    class _Hidden(Softplus):
        pass

    class Twice(Softplus):
        def __init__(self, kernel: Kernel) -> None:
            self.kernel = kernel

    for kernel in (Step, _Hidden, Twice):
        monkeypatch.setattr(kernel, "__module__", "shortlist.losses.made_up")
    drawn = kernel_pictures(["bpr"])
    assert {"step.svg", "softplus.svg"} <= drawn.keys()
    assert not {"hidden.svg", "_hidden.svg", "twice.svg"} & drawn.keys()
    assert list(curves(drawn["step.svg"])) == ["φ"]


def test_the_command_writes_page_and_pictures(shortlist: Command, tmp_path: Path) -> None:
    answer = shortlist("losses", "bpr", "--out", tmp_path / "some.md")
    assert answer.code == 0, answer.err
    page = (tmp_path / "some.md").read_text(encoding="utf-8")
    assert "### bpr" in page
    assert "### bce" not in page
    shown = re.findall(r"\]\((some/\S+)\)", page)
    assert shown
    assert all((tmp_path / path).read_text(encoding="utf-8").startswith("<svg") for path in shown)
    assert answer.out == f"Page: {tmp_path / 'some.md'}, with {len(shown)} pictures in {tmp_path / 'some'}\n"
    content = shortlist("losses", "bpr", "--out", tmp_path / "some.md", "--json").json
    assert content == {
        "page": str(tmp_path / "some.md"),
        "pictures": {"folder": str(tmp_path / "some"), "count": len(shown)},
    }
    assert shortlist("losses", "--out", tmp_path / "page.txt").code == 2
