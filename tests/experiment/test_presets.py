"""Presets are plans that can be made, named after what they hold."""

import pytest

from shortlist.experiment import PRESETS, SECTIONS, plan
from shortlist.losses import registry as losses


@pytest.mark.parametrize("name", sorted(PRESETS))
def test_a_preset_is_a_plan(name: str) -> None:
    chosen = PRESETS[name]
    loss, data, model = name.split("-")
    assert (chosen.loss, chosen.model) == (loss, model)
    assert chosen.data.endswith(data)
    assert set(chosen.settings) <= set(SECTIONS)
    made = plan(chosen.model, chosen.loss, chosen.k, values=chosen.settings)
    assert made.model.settings()["dim"] == 64
    assert made.model.settings()["similarity"] == losses[loss].similarity
    classic = (
        data == "yelp2018"
    )  # whose LightGCN has three layers, and for which these losses have no published figures
    assert made.model.settings().get("layers") == {"mf": None, "lightgcn": 3 if classic else 2, "xsimgcl": 3}[model]
    assert not made.tau_is_open
    assert set(chosen.published) == (set() if classic else {"ndcg@20", "recall@20"})
