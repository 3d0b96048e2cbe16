"""Similarities are inner products of vectors that were scaled first."""

import pytest
import torch

from shortlist.scores import Embeddings
from shortlist.scores.column_topk import largest
from shortlist.scores.similarity import with_length


def test_scaling_to_a_length_has_the_right_gradient() -> None:
    x = torch.randn(5, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0), requires_grad=True)
    assert torch.autograd.gradcheck(lambda v: with_length(v, 0.5), [x])


def test_scaling_works_across_chunks() -> None:
    x = torch.randn(5000, 4, generator=torch.Generator().manual_seed(0), requires_grad=True)
    torch.testing.assert_close(with_length(x), torch.nn.functional.normalize(x))
    weight = torch.randn(5000, 4, generator=torch.Generator().manual_seed(1))
    ours = torch.autograd.grad((with_length(x) * weight).sum(), x)[0]
    theirs = torch.autograd.grad((torch.nn.functional.normalize(x) * weight).sum(), x)[0]
    torch.testing.assert_close(ours, theirs)


def test_a_zero_vector_scores_zero() -> None:
    x = torch.zeros(1, 3, requires_grad=True)
    score = Embeddings(x, torch.eye(3), "cosine").score(torch.tensor([0]))
    assert score.tolist() == [[0, 0, 0]]
    assert torch.autograd.grad(score.sum(), x)[0].isfinite().all()


@pytest.mark.parametrize(("similarity", "expected"), [("dot", 11.0), ("cosine", 0.98387), ("half_cosine", 0.491935)])
def test_values(similarity: str, expected: float) -> None:
    embeddings = Embeddings(torch.tensor([[1.0, 2.0]]), torch.tensor([[3.0, 4.0]]), similarity)
    assert embeddings.score(torch.tensor([0])).item() == pytest.approx(expected, abs=1e-5)
    biased = Embeddings(torch.tensor([[1.0, 2.0]]), torch.tensor([[3.0, 4.0]]), similarity, torch.tensor([0.25]))
    assert biased.score(torch.tensor([0])).item() == pytest.approx(expected + 0.25, abs=1e-5)


@pytest.mark.parametrize("columns", [3, 100, 1000, 4099])
@pytest.mark.parametrize("k", [1, 20, 60])
def test_two_step_selection_equals_topk(columns: int, k: int) -> None:
    g = torch.Generator().manual_seed(columns)
    for score in (torch.randn(6, columns, generator=g), torch.randint(0, 5, (6, columns), generator=g).float()):
        assert torch.equal(largest(score, k), score.topk(min(k, columns), 1).values)
