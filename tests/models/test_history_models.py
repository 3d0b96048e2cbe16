"""History models against their definitions, written user by user."""

import numpy as np
import pytest
import torch

from shortlist.data import Interactions
from shortlist.losses import SL
from shortlist.models import Pooled, SimpleX
from shortlist.scores import Batch
from shortlist.training import OptimizerSettings, Training, TrainingSettings


@pytest.fixture
def train() -> Interactions:
    """Six users and eight items; the last user and the last item met nobody."""
    met = np.random.default_rng(2).random((6, 8)) < 0.5
    met[5], met[:, 7] = False, False
    users, items = met.nonzero()
    return Interactions.from_pairs(users, items, user_ids=np.arange(6), item_ids=np.arange(8))


@pytest.mark.parametrize("model", [Pooled(dim=4), SimpleX(dim=4, own=0.3)], ids=["pooled", "simplex"])
def test_a_user_is_the_mapped_mean_of_the_history(train: Interactions, model: Pooled | SimpleX) -> None:
    model.initialize(train, torch.Generator().manual_seed(0))
    with torch.no_grad():
        model.map.copy_(torch.randn(4, 4, generator=torch.Generator().manual_seed(1)))
    vectors = model.embeddings()
    for user in range(6):
        history = train.row(user).tolist()
        expected = model.map @ model.item[history].mean(0) if history else torch.zeros(4)
        if isinstance(model, SimpleX):
            expected = 0.3 * model.user[user] + 0.7 * expected
        torch.testing.assert_close(vectors.user_UD[user], expected)
    assert vectors.item_ID is model.item


def test_training_leaves_a_share_of_the_history_out(train: Interactions) -> None:
    model = Pooled(dim=4, dropout=0.5)
    model.initialize(train, torch.Generator().manual_seed(0))
    batch = Batch(torch.arange(6), 6, row_P=torch.arange(6), item_P=torch.arange(6))
    first, again = (model.encode(batch, torch.Generator().manual_seed(3)).row_RD for _ in range(2))
    assert torch.equal(first, again)
    assert not torch.equal(first, model.embeddings().user_UD)
    whole = Pooled(dim=4, dropout=0.0)
    whole.initialize(train, torch.Generator().manual_seed(0))
    encoded = whole.encode(batch, torch.Generator().manual_seed(3))
    assert torch.equal(encoded.row_RD, whole.embeddings().user_UD)
    assert torch.equal(model.encode(batch).row_RD, model.embeddings().user_UD)


def test_leaving_items_out_teaches_to_find_those_that_are_missing() -> None:
    """Items come in pairs that are always met together; half of each user's pairs are torn for the question."""
    rng = np.random.default_rng(0)
    rows = [sorted(rng.choice(20, 4, replace=False)) for _ in range(60)]
    pairs = [(user, 2 * twin + side) for user, row in enumerate(rows) for twin in row for side in (0, 1)]
    users, items = zip(*pairs, strict=True)
    train = Interactions.from_pairs(users, items, user_ids=np.arange(60), item_ids=np.arange(40))
    found = []
    for dropout in (0.0, 0.5):
        model = Pooled(dim=16, dropout=dropout)
        settings, optimizer = TrainingSettings(epochs=60, batch=20), OptimizerSettings(lr=0.02, schedule="constant")
        Training(model, SL(tau=0.1), train, training=settings, optimizer=optimizer).run()
        with torch.no_grad():
            one = torch.nn.functional.normalize(model.item @ model.map.T)  # users who met a single item
            score = one @ torch.nn.functional.normalize(model.item).T
        score.fill_diagonal_(-torch.inf)
        found.append(float((score.argmax(1) == (torch.arange(40) ^ 1)).float().mean()))
    assert found[1] > 0.95
    assert found[1] >= found[0]
