"""Settings of batches: their size and the candidates of their rows."""

from __future__ import annotations

from typing import Literal

from shortlist.negatives import Distribution
from shortlist.parameters import Configured, param

CandidateMode = Literal["auto", "all", "shared", "pairs"]


class BatchSettings(Configured):
    """The size of batches, the candidates of their rows, and the use of weights."""

    batch: int | None = param(
        default=None, at_least=1, help="rows (or pairs) in a step; none: 256 rows with all items, else 1024"
    )
    candidates: CandidateMode = param(
        default="auto",
        help="candidates of a row: all items, a sample shared by the batch, or negatives drawn for each pair",
        aliases=("against",),
    )
    negatives: int | None = param(
        default=None,
        at_least=1,
        help="number of sampled negatives; none: the default of the loss or model, or 1000",
    )
    distribution: Distribution = param(
        default="uniform",
        help="sampling distribution; in_batch and mixed (partly uniform) need candidates=shared",
    )
    power: float = param(default=0.75, at_least=0, help="exponent of the popularity distribution")
    uniform_fraction: float = param(
        default=0.5, above=0, below=1, help="fraction of a mixed sample that is uniform", aliases=("share",)
    )
    exclude: bool = param(default=True, help="whether draws for a pair exclude the user's other items")
    weighted: bool | None = param(
        default=None,
        help="whether samples are weighted to represent all items; none: for non-uniform samples",
    )
    use_weights: bool = param(
        default=True, help="whether positives are weighted by the weights of the data, if it has any"
    )
