"""Factors fitted by alternating least squares, by the package `implicit`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from scipy import sparse
from torch import Tensor

from shortlist.data import IntArray, Interactions
from shortlist.errors import missing_extra
from shortlist.models.base import VectorBaseline, registry
from shortlist.models.baselines.history_scorer import ones
from shortlist.models.history_lookup import rows_of
from shortlist.parameters import Search, param


@registry.register("ials")
class IALS(VectorBaseline):
    """Factors of users and items for which ``Σ_ui c_ui (x_ui − p_u·q_i)² + λ(‖P‖² + ‖Q‖²)`` is small.

    ``x_ui`` is 1 for the pairs met and 0 for all others; the confidence ``c_ui`` is α for those met and 1 for the rest.
    Users and items are solved for in turns. Needs the extra ``shortlist[ials]``.
    """

    summary = "Matrix factorisation by alternating least squares over all pairs; needs the extra ials."
    formula = "p_u·q_i"
    citation = "Hu, Koren, Volinsky, Collaborative Filtering for Implicit Feedback Datasets, ICDM 2008"
    cost = "a small system of equations for each user and item in every turn"
    use = "Where the catalogue is large and a baseline of vectors is wanted."

    factors: int = param(
        default=64, at_least=1, help="numbers that describe a user or an item", search=Search(16, 256, log=True)
    )
    regularization: float = param(
        default=10.0, at_least=0, help="λ, the weight of the squared factors", search=Search(0.01, 100, log=True)
    )
    alpha: float = param(
        default=5.0, above=0, help="α, the confidence in a pair that was met", search=Search(1, 100, log=True)
    )
    iterations: int = param(
        default=15, at_least=1, help="turns of solving for users and for items", search=Search(5, 50)
    )
    threads: int = param(default=0, at_least=0, help="threads; 0 for all cores")

    @property
    def n_items(self) -> int:
        """Size of the catalogue."""
        return len(self.item_ID)

    def fit(self, train: Interactions, seed: int = 0) -> None:
        """Alternate between users and items; the seed draws the factors to start from."""
        least_squares, one_blas_thread = _implicit()
        met_UI = sparse.csr_matrix(ones(train.indptr, train.indices, train.n_items), copy=True)  # it wants to write
        with one_blas_thread():
            model = least_squares(
                factors=self.factors,
                regularization=self.regularization,
                alpha=self.alpha,
                iterations=self.iterations,
                num_threads=self.threads,
                random_state=seed % (1 << 32),  # it takes no larger ones
            )
            model.fit(met_UI, show_progress=False)
        self.user_UD = torch.from_numpy(model.user_factors)
        self.item_ID = torch.from_numpy(model.item_factors)

    def score_all(self, users: IntArray, out: Tensor | None = None) -> Tensor:
        """Products of the users' factors with those of all items."""
        return self.score_vectors(self.user_UD[torch.from_numpy(users).long()], out)

    def score_vectors(self, vector_ND: Tensor, out: Tensor | None = None) -> Tensor:
        """Products of given factors with those of all items."""
        return torch.mm(vector_ND, self.item_ID.T, out=out)

    def fold_in(self, histories: Sequence[IntArray]) -> Tensor:
        """The factors that fitting would solve for with the items held: ``(QᵀQ + (α−1)·Q_HᵀQ_H + λI)·p = α·Σ_H q``.

        Solved in double precision: without λ the factors of a short history are hardly determined.
        """
        row_P, item_P = rows_of(histories, self.n_items)
        item_ID, met = self.item_ID.double(), item_P.split(torch.bincount(row_P, minlength=len(histories)).tolist())
        shared_DD = item_ID.T @ item_ID + self.regularization * torch.eye(item_ID.shape[1], dtype=item_ID.dtype)
        vector_ND = item_ID.new_empty(len(histories), item_ID.shape[1])
        for row, item_H in enumerate(met):
            met_HD = item_ID[item_H]
            system_DD = shared_DD + (self.alpha - 1) * met_HD.T @ met_HD
            vector_ND[row] = torch.linalg.solve(system_DD, self.alpha * met_HD.sum(0))
        return vector_ND.to(self.item_ID.dtype)

    def state(self) -> dict[str, Tensor]:
        """The factors."""
        return {"user_factors": self.user_UD, "item_factors": self.item_ID}

    def load_state(self, state: Mapping[str, Tensor]) -> None:
        """Take over the factors."""
        self.user_UD, self.item_ID = state["user_factors"], state["item_factors"]


def _implicit() -> tuple[Any, Any]:
    """The solver, and a context in which BLAS keeps to one thread: the solver runs threads of its own."""
    try:
        from implicit.cpu.als import AlternatingLeastSquares
        from threadpoolctl import threadpool_limits
    except ImportError as error:
        raise missing_extra("ials", "implicit", "ials", error) from error
    return AlternatingLeastSquares, lambda: threadpool_limits(1, user_api="blas")
