"""Matrix factorisation: an embedding for each user and item."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn

from shortlist.data import IntArray, Interactions
from shortlist.models.base import Factored, normal_users, registry
from shortlist.models.folded import FoldInUsers, mean_length
from shortlist.models.state import get_tensor
from shortlist.parameters import param
from shortlist.scores import Embeddings, Similarity


@registry.register("mf")
class MF(Factored):
    r"""Matrix factorisation.

    .. math:: s_{ui} = \mathrm{sim}(e_u, e_i) + b_i

    with embeddings e, the inner product or a cosine as similarity, and an optional bias b of the items.

    Koren et al., "Matrix Factorization Techniques for Recommender Systems", Computer 2009.

    >>> train = Interactions.from_pairs([0, 1], [0, 2], user_ids=["ann", "bob"], item_ids=["x", "y", "z"])
    >>> model = MF(dim=8)
    >>> model.initialize(train, torch.Generator().manual_seed(0))
    >>> model.score(train.users_of_pairs()).shape
    torch.Size([2, 3])
    """

    summary = "Matrix factorisation: an embedding for each user and item, trained by a loss."
    formula = "sim(e_u, e_i) + b_i"
    citation = "Koren et al., Computer 2009"
    cost = "none: the embeddings are the parameters"
    use = "The first choice: any loss, any size, the fastest epochs."

    dim: int = param(default=64, at_least=1, help="dimension of the embeddings")
    similarity: Similarity = param(default="cosine", help="similarity of a user's and an item's embedding")
    item_bias: bool = param(default=False, help="whether each item has a bias")
    init: float = param(default=0.1, above=0, help="standard deviation of the initial embeddings")

    def initialize(self, train: Interactions, generator: torch.Generator) -> None:
        """Normally distributed embeddings, zero bias."""
        self._take(
            normal_users(train, self.dim, self.init, generator),
            torch.randn(train.n_items, self.dim, generator=generator).mul_(self.init),
            torch.zeros(train.n_items) if self.item_bias else None,
        )

    def embeddings(self) -> Embeddings:
        """The parameters."""
        return Embeddings(self.user, self.item, self.similarity, self._parameters.get("bias"))

    def fold_in(self, histories: Sequence[IntArray]) -> FoldInUsers:
        """The complete embedding must be learned."""
        fixed_ND = self.user.detach().new_zeros(len(histories), self.dim)
        return FoldInUsers(fixed_ND, 1.0, mean_length(self.user), self.similarity)

    def load_state(self, state: Mapping[str, Tensor]) -> None:
        """Load saved embeddings."""
        item_ID = get_tensor(state, "item", None, self.dim)
        bias_I = get_tensor(state, "bias", len(item_ID)) if "bias" in state else None
        self._take(get_tensor(state, "user", None, self.dim), item_ID, bias_I)
        self.eval()

    def _take(self, user_UD: Tensor, item_ID: Tensor, bias_I: Tensor | None) -> None:
        self.user, self.item = nn.Parameter(user_UD), nn.Parameter(item_ID)
        self.register_parameter("bias", None if bias_I is None else nn.Parameter(bias_I))
