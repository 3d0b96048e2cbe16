"""Settings of the training loop: epochs, device and validation metric."""

from __future__ import annotations

from typing import Literal

import torch

from shortlist.errors import InputError
from shortlist.losses import Loss
from shortlist.metrics import AT_K
from shortlist.models import TrainableModel
from shortlist.parameters import Search, param
from shortlist.tasks import Batches, BatchSettings, Task


class TrainingSettings(BatchSettings):
    """How a model is trained: batches, epochs, validation and device."""

    epochs: int = param(
        default=40,
        at_least=1,
        help="maximum number of passes over the training data",
        search=Search(choices=(20, 40, 80)),
    )
    validate_every: int = param(default=5, at_least=1, help="epochs between validations")
    patience: int = param(default=4, at_least=1, help="validations without improvement after which training stops")
    metric: str = param(default="ndcg", help="validation metric, at the run's K unless it contains @K")
    beat_popularity: bool = param(default=True, help="whether a model that does not exceed popularity is an error")
    stop_on_collapse: bool = param(
        default=True,
        help="whether training ends with an error when validation falls far below its best, by several standard errors",
    )
    temperature_epochs: int = param(
        default=6,
        at_least=0,
        help="epochs of each trial of the search for loss.tau, if it is not set; on small data as many as 250 steps "
        "need, at most training.epochs; 0 for no trials",
        aliases=("pilot",),
    )
    device: Literal["auto", "cpu", "cuda", "mps"] = param(
        default="cpu", help="device of training; auto selects an accelerator if available"
    )
    checkpoint_every: float = param(default=20.0, at_least=0, help="minimum seconds between checkpoints")

    def validation_metric(self, k: int) -> tuple[str, int]:
        """The validation metric and its K; ``k`` unless the metric contains @K."""
        name, at, length = self.metric.partition("@")
        if name not in AT_K or bool(at) != (length.isdecimal() and int(length) > 0):
            known = ", ".join(AT_K)
            raise InputError(f"training.metric: expected one of {known}, with or without @K, received {self.metric!r}")
        return name, int(length or k)

    def torch_device(self) -> torch.device:
        """The device of the settings; an error if it is not available."""
        if self.device == "auto":
            accelerator = torch.accelerator.current_accelerator(check_available=True)
            return accelerator or torch.device("cpu")
        available = {"cpu": True, "cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
        if not available[self.device]:
            raise InputError(f"training.device: expected a device of this machine, received {self.device!r}")
        return torch.device(self.device)


def batches_for(model: TrainableModel, loss: Loss, task: Task, settings: TrainingSettings) -> Batches:
    """The batches of the settings, with defaults that suit the loss and the model."""
    if model.sampled is not None and settings.candidates not in ("auto", "pairs"):
        raise InputError(
            f"training.candidates: expected 'pairs' for a model that scores pairs of user and item "
            f"({type(model).__name__}), received {settings.candidates!r}"
        )
    return task.batches(settings, model.sampled if loss.sampled is None else loss.sampled)
