"""Shared data of the sections of a run's report."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from shortlist.data import FloatArray, Split
from shortlist.errors import ShortlistError
from shortlist.losses import Loss
from shortlist.losses import registry as losses
from shortlist.metrics import Interval, bootstrap
from shortlist.report.run.score_analysis import LOOKED_AT, Scores, look, some_users
from shortlist.runs import Run

RANKED = 2**27
"""Maximum number of scores to rank again; above it users are sampled."""

SHOWN = {"ndcg": "NDCG", "recall": "Recall", "precision": "Precision", "mrr": "MRR", "hit_rate": "Hit rate"}
"""Metrics of the first table, with their labels."""


@dataclass(frozen=True, eq=False)
class Subject:
    """A run with cached values for several sections."""

    run: Run
    titles: Mapping[str, str]
    seed: int

    @property
    def split(self) -> Split:
        """The data of the run, which its folder contains."""
        return self.run.split

    @cached_property
    def per_user(self) -> dict[str, FloatArray]:
        """Values of the test metrics by name."""
        return {name: self.run.per_user[name].to_numpy() for name in self.run.per_user.columns if name != "user_id"}

    @cached_property
    def intervals(self) -> dict[str, Interval]:
        """95 % bootstrap intervals of the test metrics."""
        return bootstrap(self.per_user, self.seed)

    @cached_property
    def ks(self) -> list[int]:
        """The measured list lengths."""
        names = self.per_user or self.run.metrics["valid"]
        return sorted({int(name.split("@")[1]) for name in names if "@" in name})

    @cached_property
    def k(self) -> int:
        """The K of the run, or the nearest measured one."""
        wanted = int(self.run.config.get("k", 20))
        return min(self.ks, key=lambda k: (abs(k - wanted), k), default=min(wanted, self.split.train.n_items))

    @cached_property
    def loss(self) -> Loss | str:
        """The loss with its settings, or the reason why there is none."""
        if "loss" not in self.run.config:
            return f"{self.run.config['model']['name']} is fitted without a loss."
        settings = dict(self.run.config["loss"])
        try:
            return losses[settings.pop("name")](**settings)
        except ShortlistError as problem:
            return f"The loss of this run is unknown ({problem})."

    @cached_property
    def scores(self) -> Scores:
        """Analysed scores of some users."""
        loss, train = None if isinstance(self.loss, str) else self.loss, self.split.train
        thresholds = None if loss is None else loss.thresholds(self.run.task.sizes)
        k = min(self.k if thresholds is None else thresholds.k, train.n_items)
        users = some_users(train, LOOKED_AT, self.seed)
        return look(self.run.model, self.split, users, k, None if thresholds is None else loss, self.seed)
