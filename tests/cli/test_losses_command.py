"""`shortlist losses`: what people and programs are told of each loss."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from command import Command
from losses.values import registered
from shortlist.losses import registry
from shortlist.losses.families import families

NAMES = registered()


def in_one_line(text: str) -> str:
    return " ".join(text.split())


def test_the_list_fits_a_terminal(shortlist: Command) -> None:
    lines = shortlist("losses").out.splitlines()
    assert [line for line in lines if len(line) > 80] == []


def test_the_list_is_by_family(shortlist: Command) -> None:
    """A family's losses stand between its title and the next one's."""
    out = shortlist("losses").out
    known = families()
    assert sorted(name for family in known for name in family.losses) == sorted(registry)
    heads = [next(n for n, line in enumerate(out.splitlines()) if line.startswith(f.title)) for f in known]
    assert heads == sorted(heads)
    for family, start, end in zip(known, heads, [*heads[1:], None], strict=True):
        part = out.splitlines()[start:end]
        assert tuple(line.split()[0] for line in part if line[:2] == "  " and line[2] != " ") == family.losses


@pytest.mark.parametrize("name", NAMES)
def test_one_loss_is_described_completely(shortlist: Command, name: str) -> None:
    answer, loss = shortlist("losses", name), registry[name]
    assert [line for line in answer.out.splitlines() if len(line.rstrip()) > 80] == []
    content = in_one_line(answer.out)
    for fact in (loss.formula, loss.target, loss.citation, loss.cost, loss.use, loss.collapse_hint):
        assert in_one_line(fact) in content
    for key in loss.declared:
        assert f"loss.{key} " in content


def test_defaults_ranges_and_search_spaces_are_printed(shortlist: Command) -> None:
    rows = [in_one_line(line) for line in shortlist("losses", "sl").out.splitlines()]
    row = rows.index("loss.tau 0.2 temperature τ of the scores")
    assert in_one_line(" ".join(rows[row + 1 : row + 3])).startswith(
        "a number above 0; tuned in 0.02 … 0.5 (log scale)"
    )


def test_json_has_the_same_values(shortlist: Command) -> None:
    everything = shortlist("losses", "--json").json["losses"]
    assert sorted(everything) == sorted(registry)
    one = shortlist("losses", "slatk", "--json").json
    assert one == {"name": "slatk", **everything["slatk"]}
    assert everything["sl"]["family"] == "softmax"
    assert (one["cost"], one["use"]) == (registry["slatk"].cost, registry["slatk"].use)
    assert one["parameters"]["tau"]["search"] == {"low": 0.02, "high": 0.5, "log": True, "choices": []}
    assert one["parameters"]["k"] == {
        "default": 20,
        "allowed": "a whole number at least 1",
        "help": "K, the length of the list that is shown",
        "search": None,
    }


def test_an_unknown_name_is_reported(shortlist: Command) -> None:
    answer = shortlist("losses", "slak")
    assert answer.code == 2
    assert answer.err.startswith("shortlist: losses: unknown name 'slak'; did you mean 'slatk'?")


@pytest.mark.parametrize(
    ("alias", "name"),
    [("infonce", "sl"), ("InfoNCE", "sl"), ("lambdaloss", "ndcg_loss2"), ("warp", "warp"), ("SL@K", "slatk")],
)
def test_other_names_are_found(shortlist: Command, alias: str, name: str) -> None:
    assert shortlist("losses", alias, "--json").json["name"] == name
    assert shortlist("losses", alias).out.startswith(f"{name}: ")


def test_a_model_is_trained_by_a_loss_of_another_name(shortlist: Command, clicks: Path, tmp_path: Path) -> None:
    short = ["--set", "training.epochs=1", "--set", "loss.tau=0.2", "--set", "training.beat_popularity=false"]
    assert shortlist("train", clicks, "--loss", "InfoNCE", *short, "--out", tmp_path / "run").code == 0
    assert json.loads((tmp_path / "run" / "config.json").read_text())["loss"]["name"] == "sl"
