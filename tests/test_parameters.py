"""Parameters by their former names."""

import json
from pathlib import Path

import pytest

from command import Command
from shortlist.errors import InputError
from shortlist.losses import SL, ListNet, SLAtK
from shortlist.parameters import Configured, RenamedParameter
from shortlist.runs import open_run
from shortlist.training import OptimizerSettings, TrainingSettings

RENAMED = [
    (SL, {"pull": 0.9}, {"positive_weight": 0.9}),
    (SLAtK, {"pull": 0.8}, {"positive_weight": 0.8}),
    (ListNet, {"target_is": "softmax"}, {"target_distribution": "softmax"}),
    (TrainingSettings, {"against": "pairs"}, {"candidates": "pairs"}),
    (TrainingSettings, {"pilot": 3}, {"temperature_epochs": 3}),
    (TrainingSettings, {"share": 0.25}, {"uniform_fraction": 0.25}),
    (OptimizerSettings, {"rows": "touched"}, {"lazy": True}),
    (OptimizerSettings, {"rows": "all"}, {"lazy": False}),
    (OptimizerSettings, {"final": 0.5}, {"final_lr_factor": 0.5}),
]


@pytest.mark.parametrize(("owner", "former", "current"), RENAMED)
def test_former_name_is_accepted_with_a_warning(
    owner: type[Configured], former: dict[str, object], current: dict[str, object]
) -> None:
    (old,), (new,) = former, current
    with pytest.warns(RenamedParameter, match=rf"^{owner.__name__}\.{old} is now {owner.__name__}\.{new}$"):
        settings = owner(**former).settings()
    assert settings == owner(**current).settings()
    with pytest.warns(RenamedParameter):
        assert owner.from_text({name: str(value) for name, value in former.items()}).settings() == settings


def test_both_names_at_once_are_refused() -> None:
    with pytest.raises(InputError, match=r"^SL\.positive_weight: expected one value, received it also as 'pull'$"):
        SL(positive_weight=0.9, pull=0.8)


def test_command_prints_one_line_for_a_former_name(shortlist: Command, tmp_path: Path) -> None:
    run = tmp_path / "run"
    settings = ("--set", "training.against=all", "--set", "training.epochs=2", "--set", "training.pilot=0")
    settings += ("--set", "training.beat_popularity=false")
    answer = shortlist("train", "debian", "--core", "10", *settings, "--out", run)
    assert answer.code == 0
    assert answer.err.count("shortlist: TrainingSettings.against is now TrainingSettings.candidates\n") == 1
    assert answer.err.count("shortlist: TrainingSettings.pilot is now TrainingSettings.temperature_epochs\n") == 1


def test_run_of_an_earlier_version_opens_without_a_warning(shortlist: Command, tmp_path: Path) -> None:
    run = tmp_path / "run"
    short = (
        "--set",
        "training.epochs=2",
        "--set",
        "training.temperature_epochs=0",
        "--set",
        "training.candidates=pairs",
    )
    assert shortlist("train", "debian", "--core", "10", "--loss", "sl", *short, "--out", run).code == 0
    config = json.loads((run / "config.json").read_bytes())
    current = open_run(run).config
    config["loss"]["pull"] = config["loss"].pop("positive_weight")
    config["training"]["against"] = config["training"].pop("candidates")
    config["optimizer"]["rows"] = "touched" if config["optimizer"].pop("lazy") else "all"
    (run / "config.json").write_text(json.dumps(config))
    (run / "manifest.json").unlink()  # earlier versions wrote none
    assert open_run(run).config == current
    answer = shortlist("recommend", run, "--history", "python3-numpy", "--k", "3")
    assert (answer.code, answer.err) == (0, "")
