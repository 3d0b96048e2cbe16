"""Training from Python and by the command ends with the same bits."""

from pathlib import Path
from typing import Any

import pytest
import torch

from command import Command
from shortlist.data import LoadOptions, load
from shortlist.losses import registry as losses
from shortlist.models import TrainableModel, registry
from shortlist.runs import open_run
from shortlist.training import OptimizerSettings, Training, TrainingSettings

SETTINGS: dict[str, dict[str, Any]] = {
    "model": {"dim": 8},
    "optimizer": {"lr": 0.05},
    "training": {"epochs": 6, "validate_every": 2, "batch": 16, "temperature_epochs": 2, "beat_popularity": False},
}


@pytest.mark.parametrize(
    ("model", "loss", "given"),
    [("mf", "sl", {}), ("mf", "sl", {"tau": 0.3}), ("lightgcn", "slatk_detached", {}), ("mf", "bpr", {})],
)
def test_python_and_the_command_give_the_same_weights(
    model: str, loss: str, given: dict[str, Any], shortlist: Command, clicks: Path, tmp_path: Path
) -> None:
    """The temperature, where it is not given, is found by the same search."""
    k, seed = 10, 3
    sections = {**SETTINGS, "loss": given}
    words = [f"{section}.{name}={value}" for section, values in sections.items() for name, value in values.items()]
    options = [part for word in words for part in ("--set", word)]
    answer = shortlist(
        "train", clicks, "--model", model, "--loss", loss, "--k", k, "--seed", seed, *options, "--out", tmp_path / "run"
    )
    assert answer.code == 0, answer.err
    run = open_run(tmp_path / "run")

    loss_class, model_class = losses[loss], registry[model]
    chosen = loss_class(**given, **({"k": k} if "k" in loss_class.declared else {}))
    made = model_class(**SETTINGS["model"], similarity=loss_class.similarity)
    assert isinstance(made, TrainableModel)
    training = Training(
        made,
        chosen,
        load(clicks, LoadOptions(seed=seed)),
        training=TrainingSettings(**SETTINGS["training"]),
        optimizer=OptimizerSettings(**SETTINGS["optimizer"]),
        seed=seed,
        k=k,
    )
    progress = training.run()
    assert run.config["loss"] == {"name": loss, **training.loss.settings()}
    assert chosen.settings().get("tau") == losses[loss](**given).settings().get("tau")  # it was not changed
    assert run.metrics["epochs"] == progress.best_epoch
    expected, state = run.model.state(), made.state()
    assert expected.keys() == state.keys()
    assert all(torch.equal(expected[name], state[name]) for name in expected)
