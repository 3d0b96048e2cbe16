"""The demonstration: every part of it with few epochs, and, where time is given, whole."""

import json
import os
import re
import sys
from pathlib import Path

import pytest

from command import Command
from shortlist.cli.demo import CONTESTANTS, SETTINGS
from shortlist.runs import open_run
from shortlist.training import temperature

README = Path(__file__).parents[2] / "README.md"


def test_demo(shortlist: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All models on the whole set, those that are trained for a moment only: enough to be ahead of popularity."""
    for model, few in {
        "mf": {"epochs": 4, "temperature_epochs": 1},
        "lightgcn": {"epochs": 1},
        "pooled": {"epochs": 1},
    }.items():
        monkeypatch.setitem(SETTINGS, model, {**SETTINGS[model], "training": few})
    monkeypatch.setattr(temperature, "STEPS", 1)
    answer = shortlist("demo", "--out", tmp_path / "demo", "--json")
    assert answer.code == 0, answer.err
    content = answer.json
    assert list(content["runs"]) == list(CONTESTANTS)
    figures = {name: metrics["test"]["ndcg@20"] for name, metrics in content["runs"].items()}
    assert figures["ease"] > 0.5 > figures["item_knn"] > figures["popularity"] > 0.2
    trained = [name for name, (_, loss) in CONTESTANTS.items() if loss]
    assert min(figures[name] for name in trained) > figures["popularity"] + 0.1
    ranked = sorted(content["runs"], key=lambda name: content["runs"][name]["valid"]["ndcg@20"], reverse=True)
    assert content["best"] == ranked[0]
    assert all(list(example["lists"]) == ranked for example in content["lists"])
    for name, metrics in content["runs"].items():
        looked = ["temperature_search"] if name.startswith("mf") else []
        assert list(metrics["seconds"]) == ["load", *looked, "train", "evaluate"]
    assert [example["user"] for example in content["lists"]] == ["inkscape", "openssh", "pandas"]
    assert all(len(places) == 10 for example in content["lists"] for places in example["lists"].values())
    assert any(place["hit"] for example in content["lists"] for place in example["lists"]["ease"])
    page = (tmp_path / "demo" / "report.html").read_text()
    assert page.count("<svg") == 6
    assert "<script" not in page
    assert "libglib2.0-0 ✓" in page
    assert json.loads((tmp_path / "demo" / "runs" / "ease" / "metrics.json").read_text()) == content["runs"]["ease"]
    assert open_run(tmp_path / "demo" / "runs" / "item_knn").users.index("git") >= 0


def test_a_missing_extra_leaves_out_its_row_and_says_so(
    shortlist: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without implicit and altair: no iALS, no page; everything else is there."""
    for package in ("implicit.cpu.als", "altair"):
        monkeypatch.setitem(sys.modules, package, None)
    monkeypatch.setattr("shortlist.cli.demo.CONTESTANTS", {"popularity": ("popularity", None), "ials": ("ials", None)})
    answer = shortlist("demo", "--out", tmp_path / "demo", "--json")
    assert answer.code == 0, answer.err
    assert list(answer.json["runs"]) == ["popularity"]
    assert answer.json["page"] is None
    ials, page = answer.json["missing"]
    assert "install it with: pip install 'shortlist[ials]'" in ials
    assert "install it with: pip install 'shortlist[report]'" in page
    assert ials in answer.err
    assert page in answer.err
    assert not (tmp_path / "demo" / "report.html").exists()


@pytest.mark.skipif(not os.environ.get("SHORTLIST_SLOW"), reason="takes a minute; SHORTLIST_SLOW=1 runs it")
def test_the_readme_shows_what_the_demo_finds(shortlist: Command, tmp_path: Path) -> None:
    """Sums differ in their last bits from machine to machine, so that training does in the third place."""
    runs = shortlist("demo", "--out", tmp_path / "demo", "--json").json["runs"]
    rows = re.findall(r"^\| (\w+)[^|]* \| (0\.\d{4}) \| (0\.\d{4}) \| [\d.]+ % \|$", README.read_text(), re.MULTILINE)
    assert [model for model, *_ in rows] == [model for model, _ in CONTESTANTS.values()]
    shown = [[float(value) for value in values] for _, *values in rows]
    found = [[run["test"]["ndcg@20"], run["test"]["recall@20"]] for run in runs.values()]
    assert shown == [pytest.approx(values, abs=0.003) for values in found]


def test_a_place_that_cannot_be_written_is_refused_before_any_work(shortlist: Command, tmp_path: Path) -> None:
    (tmp_path / "demo").write_text("a file")
    answer = shortlist("demo", "--out", tmp_path / "demo")
    assert (answer.code, answer.out) == (2, "")
    assert "Not a directory" in answer.err
