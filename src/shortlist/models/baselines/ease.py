"""A linear autoencoder over the items, solved in closed form."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Self

import torch
from torch import Tensor
from torch.nn.functional import embedding_bag

from shortlist.data import IntArray, Interactions, Split, training_part
from shortlist.errors import ShortlistError
from shortlist.memory import check_memory
from shortlist.models.base import Baseline, registry
from shortlist.models.baselines.history_scorer import History, ones
from shortlist.models.state import get_tensor
from shortlist.parameters import Search, param


@registry.register("ease")
class EASE(Baseline):
    """Item-to-item weights B with zero diagonal that best reconstruct the user × item matrix X.

    ``min ‖X − XB‖² + λ‖B‖², diag(B) = 0`` is solved by ``B_ij = −P_ij / P_jj`` with ``P = (XᵀX + λI)⁻¹``. The
    scores are ``XB``.

    The weights are dense: memory grows with the square of the catalogue (4 bytes × items², and 1 byte × items² while
    they are solved for). The same bits come out for the same number of threads; with another number the last bits of
    the matrix products may differ.

    >>> train =  Interactions.from_pairs([0, 0, 1], [0, 1, 0], user_ids=["ann", "bob"], item_ids=["x", "y", "z"])
    >>> model = EASE(regularization=1.0)
    >>> _ = model.fit(train)
    >>> [round(weight, 2) for weight in model.weights_II[:, 0].tolist()]
    [0.0, 0.5, 0.0]
    """

    summary = "Item-to-item weights solved in closed form: a linear autoencoder."
    formula = "Σ_h B_hi over the items h of the history"
    citation = "Steck, Embarrassingly Shallow Autoencoders for Sparse Data, WWW 2019"
    cost = "one inverse of items × items: time grows with the cube of the catalogue, memory with its square"
    use = "Up to some tens of thousands of items: a strong baseline with λ as the only hyperparameter."

    regularization: float = param(
        default=300.0,
        above=0,
        help="λ, the weight of the squared item-to-item weights",
        search=Search(1, 10_000, log=True),
    )

    @property
    def n_users(self) -> int:
        """Number of users whose histories are known."""
        return len(self.history)

    @property
    def n_items(self) -> int:
        """Size of the catalogue."""
        return len(self.weights_II)

    def fit(self, data: Interactions | Split, *, seed: int = 0) -> Self:
        """Solve for the weights."""
        train = training_part(data)
        check_memory("ease", 5 * train.n_items**2)  # the weights, and a quarter of them as workspace of the inverse
        train_UI = ones(train.indptr, train.indices, train.n_items)
        try:
            inverse_II = torch.from_numpy((train_UI.T @ train_UI).toarray(order="C"))
            inverse_II.diagonal().add_(self.regularization)
            invert_(inverse_II)
        except (MemoryError, RuntimeError) as error:
            size = f"{train.n_items:,} items ({4e-9 * train.n_items**2:.1f} GB of weights)"
            raise ShortlistError(f"ease: cannot solve for {size}: {str(error).splitlines()[0]}") from error
        scale_I = -1.0 / inverse_II.diagonal()
        self.weights_II = inverse_II.mul_(scale_I).fill_diagonal_(0)
        self.history = History.of(train)
        return self

    def fold_in(self, histories: Sequence[IntArray]) -> History:
        """The histories, which are complete queries."""
        return History.from_lists(histories, self.n_items)

    def score(self, queries: IntArray | History, out: Tensor | None = None) -> Tensor:
        """Sums of the weights' rows over the users' histories.

        Histories are short relative to the catalogue: gathering their rows reads far less than a full product.
        """
        items_P, start_R = self.history.of_queries(queries).bags()
        scores_RI = embedding_bag(items_P, self.weights_II, start_R, mode="sum")
        return scores_RI if out is None else out.copy_(scores_RI)

    def item_similarity(self, items: IntArray) -> Tensor:
        """The weights of an item in the scores of others."""
        return self.weights_II[torch.as_tensor(items).long()]

    def state(self) -> dict[str, Tensor]:
        """The weights and the histories."""
        return {"weights": self.weights_II, **self.history.state()}

    def load_state(self, state: Mapping[str, Tensor]) -> None:
        """Load the weights and the histories."""
        weights_II = get_tensor(state, "weights", None, None)
        self.weights_II = get_tensor(state, "weights", len(weights_II), len(weights_II))
        self.history = History.from_state(state, self.n_items)


def invert_(matrix_NN: Tensor) -> None:
    """Invert a symmetric positive definite matrix in place, by 2 × 2 blocks and the Schur complement.

    Nearly all of it is matrix products of half the size: 4/3·n³ operations, where the general inverse takes 2·n³.

    >>> matrix = torch.tensor([[2.0, 1.0], [1.0, 1.0]])
    >>> invert_(matrix)
    >>> matrix.round(decimals=3).tolist()
    [[1.0, -1.0], [-1.0, 2.0]]
    """
    half = len(matrix_NN) // 2
    if half < 256:
        matrix_NN.copy_(torch.cholesky_inverse(torch.linalg.cholesky(matrix_NN)))
        return
    upper, cross, lower = matrix_NN[:half, :half], matrix_NN[:half, half:], matrix_NN[half:, half:]
    invert_(upper)
    solved = upper @ cross
    lower.addmm_(cross.T, solved, alpha=-1)
    invert_(lower)
    torch.mm(solved, lower, out=cross)
    upper.addmm_(cross, solved.T)
    matrix_NN[half:, :half] = cross.neg_().T
