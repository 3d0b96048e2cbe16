"""Factors fitted by alternating least squares, by the package `implicit`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Self

import torch
from scipy import sparse
from torch import Tensor

from shortlist.data import IntArray, Interactions, Split, training_part
from shortlist.errors import missing_extra
from shortlist.memory import check_memory
from shortlist.models.base import Baseline, cosines, registry
from shortlist.models.baselines.history_scorer import ones
from shortlist.models.folded import FoldInUsers, rows_of
from shortlist.models.state import get_tensor
from shortlist.parameters import Search, param


@registry.register("ials")
class IALS(Baseline):
    """Factors of users and items that minimise ``Σ_ui c_ui (x_ui − p_u·q_i)² + λ(‖P‖² + ‖Q‖²)``.

    ``x_ui`` is 1 for training pairs and 0 for all others; the confidence ``c_ui`` is α for training pairs and 1 for the
    others. Users and items are solved for alternately. Needs the extra ``shortlist[ials]``.
    """

    summary = "Matrix factorisation by alternating least squares over all pairs; needs the extra ials."
    formula = "p_u·q_i"
    citation = "Hu, Koren, Volinsky, Collaborative Filtering for Implicit Feedback Datasets, ICDM 2008"
    cost = "a small linear system for each user and item in every iteration"
    use = "As an embedding baseline for large catalogues."

    factors: int = param(default=64, at_least=1, help="dimension of the factors", search=Search(16, 256, log=True))
    regularization: float = param(
        default=10.0, at_least=0, help="λ, the weight of the squared factors", search=Search(0.01, 100, log=True)
    )
    alpha: float = param(
        default=5.0, above=0, help="α, the confidence in a training pair", search=Search(1, 100, log=True)
    )
    iterations: int = param(default=15, at_least=1, help="iterations, each over users and items", search=Search(5, 50))
    threads: int = param(default=0, at_least=0, help="threads; 0 for all cores")

    @property
    def n_users(self) -> int:
        """Number of users with factors."""
        return len(self.user_UD)

    @property
    def n_items(self) -> int:
        """Size of the catalogue."""
        return len(self.item_ID)

    def fit(self, data: Interactions | Split, *, seed: int = 0) -> Self:
        """Alternate between users and items; the seed determines the initial factors."""
        train = training_part(data)
        check_memory("ials", 4 * (train.n_users + train.n_items) * self.factors)
        least_squares, one_blas_thread = _implicit()
        train_UI = sparse.csr_matrix(ones(train.indptr, train.indices, train.n_items), copy=True)  # must be writable
        with one_blas_thread():
            model = least_squares(
                factors=self.factors,
                regularization=self.regularization,
                alpha=self.alpha,
                iterations=self.iterations,
                num_threads=self.threads,
                random_state=seed % (1 << 32),  # the largest seed it accepts
            )
            model.fit(train_UI, show_progress=False)
        self.user_UD = torch.from_numpy(model.user_factors)
        self.item_ID = torch.from_numpy(model.item_factors)
        return self

    def score(self, queries: IntArray | Tensor, out: Tensor | None = None) -> Tensor:
        """Inner products of factors with those of all items; queries are indices of users, or factors [R, D]."""
        if isinstance(queries, Tensor) and queries.is_floating_point():
            vector_RD = queries
        else:
            vector_RD = self.user_UD[torch.as_tensor(queries).long()]
        return torch.mm(vector_RD, self.item_ID.T, out=out)

    def fold_in(self, histories: Sequence[IntArray]) -> FoldInUsers:
        """The factors that fitting would solve for with constant items: ``(QᵀQ + (α−1)·Q_HᵀQ_H + λI)·p = α·Σ_H q``.

        Solved in double precision: with λ = 0 the system of a short history is nearly singular.
        """
        row_P, item_P = rows_of(histories, self.n_items)
        item_ID, history = self.item_ID.double(), item_P.split(torch.bincount(row_P, minlength=len(histories)).tolist())
        shared_DD = item_ID.T @ item_ID + self.regularization * torch.eye(
            len(item_ID.T), dtype=item_ID.dtype, device=item_ID.device
        )
        vector_ND = item_ID.new_empty(len(histories), item_ID.shape[1])
        for row, item_H in enumerate(history):
            factor_HD = item_ID[item_H]
            system_DD = shared_DD + (self.alpha - 1) * factor_HD.T @ factor_HD
            vector_ND[row] = torch.linalg.solve(system_DD, self.alpha * factor_HD.sum(0))
        return FoldInUsers(vector_ND.to(self.item_ID.dtype), 0.0, 0.0, "dot")

    def item_similarity(self, items: IntArray) -> Tensor:
        """The cosine of item factors."""
        return cosines(self.item_ID, items)

    def state(self) -> dict[str, Tensor]:
        """The factors."""
        return {"user_factors": self.user_UD, "item_factors": self.item_ID}

    def load_state(self, state: Mapping[str, Tensor]) -> None:
        """Load the factors."""
        self.item_ID = get_tensor(state, "item_factors", None, None)
        self.user_UD = get_tensor(state, "user_factors", None, self.item_ID.shape[1])


def _implicit() -> tuple[Any, Any]:
    """The solver, and a context that limits BLAS to one thread, because the solver is multithreaded."""
    try:
        from implicit.cpu.als import AlternatingLeastSquares
        from threadpoolctl import threadpool_limits
    except ImportError as error:
        raise missing_extra("ials", "implicit", "ials", error) from error
    return AlternatingLeastSquares, lambda: threadpool_limits(1, user_api="blas")
