"""The demonstration, whole."""

import json
from pathlib import Path

from command import Command
from shortlist.runs import open_run


def test_demo(shortlist: Command, tmp_path: Path) -> None:
    answer = shortlist("demo", "--out", tmp_path / "demo", "--json")
    assert answer.code == 0, answer.err
    told = answer.json
    figures = {name: metrics["test"]["ndcg@20"] for name, metrics in told["runs"].items()}
    assert figures["ease"] > 0.5 > figures["item_knn"] > figures["popularity"] > 0.2
    assert figures["mf-slatk"] > figures["mf-sl"] - 0.005
    assert told["best"] == max(told["runs"], key=lambda name: told["runs"][name]["valid"]["ndcg@20"])
    for name, metrics in told["runs"].items():
        pilot = ["pilot"] if name.startswith("mf") else []
        assert list(metrics["seconds"]) == ["load", *pilot, "train", "evaluate"]
    assert [example["user"] for example in told["lists"]] == ["inkscape", "openssh", "pandas"]
    assert all(len(places) == 10 for example in told["lists"] for places in example["lists"].values())
    assert any(place["hit"] for example in told["lists"] for place in example["lists"]["ease"])
    page = (tmp_path / "demo" / "report.html").read_text()
    assert page.count("<svg") == 6
    assert "<script" not in page
    assert "libglib2.0-0 ✓" in page
    assert json.loads((tmp_path / "demo" / "runs" / "ease" / "metrics.json").read_text()) == told["runs"]["ease"]
    assert open_run(tmp_path / "demo" / "runs" / "item_knn").users.index("git") >= 0


def test_a_place_that_cannot_be_written_is_refused_before_any_work(shortlist: Command, tmp_path: Path) -> None:
    (tmp_path / "demo").write_text("a file")
    answer = shortlist("demo", "--out", tmp_path / "demo")
    assert (answer.code, answer.out) == (2, "")
    assert "Not a directory" in answer.err
