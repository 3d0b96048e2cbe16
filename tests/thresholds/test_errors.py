"""What is wrong with estimated thresholds, against the same said with loops over floats."""

from __future__ import annotations

import statistics

import pytest
import torch

from shortlist.losses import SL, SLAtK, SogSLAtK
from shortlist.scores import DenseTable
from shortlist.thresholds import judge


@pytest.mark.parametrize("k", [1, 3, 7])
def test_judgement_by_loops(k: int) -> None:
    generator = torch.Generator().manual_seed(k)
    score_RI = torch.rand(11, 17, generator=generator)
    row_P = torch.arange(11).repeat_interleave(4)
    item_P = torch.cat([torch.randperm(17, generator=generator)[:4] for _ in range(11)])
    estimate_R = torch.rand(11, generator=generator)
    judged = judge(estimate_R, score_RI.sort(1).values, score_RI[row_P, item_P], row_P, k)

    exact = [sorted(row, reverse=True)[k - 1] for row in score_RI.tolist()]
    off = [guess - right for guess, right in zip(estimate_R.tolist(), exact, strict=True)]
    places = [
        abs(sum(score >= guess for score in row) - k)
        for row, guess in zip(score_RI.tolist(), estimate_R.tolist(), strict=True)
    ]
    pairs = [(row, float(score_RI[row, item])) for row, item in zip(row_P.tolist(), item_P.tolist(), strict=True)]
    inside = {pair for pair in pairs if pair[1] >= exact[pair[0]]}
    taken = {pair for pair in pairs if pair[1] >= float(estimate_R[pair[0]])}
    assert judged.error == pytest.approx(statistics.mean(map(abs, off)), rel=1e-6)
    assert judged.deviation == pytest.approx(statistics.pstdev(map(abs, off)), rel=1e-6)
    assert judged.bias == pytest.approx(statistics.mean(off), rel=1e-6)
    assert judged.rank_error == pytest.approx(statistics.mean(places))
    assert judged.recall == pytest.approx(len(inside & taken) / max(1, len(inside)))
    assert judged.precision == pytest.approx(len(inside & taken) / max(1, len(taken)))


def test_exact_thresholds_are_faultless() -> None:
    score_RI = torch.rand(5, 9)
    row_P = torch.arange(5)
    ascending_RI = score_RI.sort(1).values
    judged = judge(ascending_RI[:, -2], ascending_RI, score_RI.amax(1), row_P, 2)
    assert (judged.error, judged.deviation, judged.bias, judged.rank_error) == (0, 0, 0, 0)
    assert (judged.recall, judged.precision) == (1, 1)


@pytest.mark.parametrize("loss", [SLAtK(tau_w=0.5), SogSLAtK(tau_w=0.5)], ids=["slatk", "sogslatk"])
def test_weights_of_positives(loss: SLAtK | SogSLAtK) -> None:
    """σ((s − β)/τ_w): half at the threshold; none where a loss does not use thresholds."""
    table = DenseTable.from_pairs(torch.tensor([0.3, 0.3]), torch.zeros(2, 4)).with_threshold(torch.tensor([0.3, 0.8]))
    assert loss.weights(table).tolist() == pytest.approx([0.5, 0.2689414213699951])
    assert SL().weights(table) is None
