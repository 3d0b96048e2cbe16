"""Where settings are looked for: what is declared, what is fixed, and where a search begins."""

import pytest

from shortlist.errors import InputError
from shortlist.experiment import PRESETS, Preset, plan, preset
from shortlist.losses import registry as losses
from shortlist.models import registry as models
from shortlist.tuning import space_of
from shortlist.tuning.space import distributions, rounded


@pytest.mark.parametrize(("model", "loss"), [*(("mf", loss) for loss in losses), *((model, None) for model in models)])
def test_the_default_is_what_training_does_and_lies_in_the_space(model: str, loss: str | None) -> None:
    """For every loss and every model, whoever adds one."""
    if model == "popularity":
        with pytest.raises(
            InputError, match=r"tune: expected settings that can be searched, received none .*popularity"
        ):
            space_of(model, loss, 10)
        return
    space = space_of(model, loss, 10)
    made, usual = space.plan(space.default()), plan(model, loss, 10)
    assert made.config() == usual.config()
    assert made.model.settings() == usual.model.settings()
    assert space.divided(space.default()) == (space.default(), {})
    assert rounded(space.default()) == space.default()
    for name, kind in distributions(space).items():
        assert kind._contains(kind.to_internal_repr(space.default()[name])), name
        for end in getattr(kind, "choices", None) or (kind.low, kind.high):
            space.plan(rounded({name: end}))  # which must be allowed


def test_fixed_settings_are_not_searched() -> None:
    space = space_of("mf", "slatk_detached", 10, texts={"loss": {"tau": "0.3"}, "training": {"epochs": "7"}})
    assert set(space.searched) == {"loss.tau_w", "loss.positive_weight", "optimizer.lr"}
    chosen = space.plan({"loss.positive_weight": 0.7})
    assert chosen.config()["loss"]["tau"] == 0.3
    assert (chosen.training.epochs, chosen.config()["loss"]["positive_weight"], chosen.tau_is_open) == (7, 0.7, False)
    texts = {"loss": {"tau": "0.3", "positive_weight": "1"}, "optimizer": {"lr": "0.1"}, "training": {"epochs": "7"}}
    with pytest.raises(InputError, match=r"received none that is free \(mf with sl\)"):
        space_of("mf", "sl", 10, texts=texts)


def test_the_penalty_is_searched_where_lengths_matter() -> None:
    assert "optimizer.weight_decay" in space_of("mf", "bpr", 10).searched
    assert "optimizer.weight_decay" not in space_of("mf", "sl", 10).searched
    assert "optimizer.weight_decay" in space_of("mf", "sl", 10, texts={"model": {"similarity": "dot"}}).searched


def test_a_search_starts_with_the_published_settings() -> None:
    space = space_of("mf", "slatk", 20)
    starts = dict(space.initial_points())
    assert list(starts) == ["default", "slatk-electronic-mf", "slatk-gowalla-mf", "slatk-health-mf"]
    for name in list(starts)[1:]:
        inside, beside = space.divided(starts[name])
        assert set(inside) == set(space.searched)
        made = space.plan(rounded({**inside, **beside}))
        assert made.config() == plan("mf", "slatk", 20, values=PRESETS[name].settings).config()
    fixed = dict(space_of("mf", "slatk", 20, texts={"training": {"epochs": "5"}}).initial_points())
    assert all("training.epochs" not in point for point in fixed.values())


def test_the_loss_is_the_one_that_trains(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where none is named, the model's own choice decides what is searched and which presets fit."""
    settings = {"optimizer": {"lr": 0.02}}
    for loss in ("slatk", "bce"):
        monkeypatch.setitem(PRESETS, f"{loss}-clicks-ncf", Preset("clicks", "ncf", loss, 20, settings))
    space = space_of("ncf", None, 20)
    assert space.loss == "bce"
    assert space == space_of("ncf", "bce", 20)
    assert list(dict(space.initial_points())) == ["default", "bce-clicks-ncf"]
    assert space_of("ease", None, 20).loss is None


@pytest.mark.parametrize("name", [name for name in PRESETS if name.endswith("-xsimgcl")])
def test_the_search_of_a_contrast_reaches_that_of_presets(name: str) -> None:
    search = models["xsimgcl"].declared["contrast"].search
    assert search is not None
    assert PRESETS[name].settings["model"]["contrast"] in search.choices


def test_a_search_starts_from_a_preset() -> None:
    given = preset("slatk-gowalla-mf").settings_for("mf", "slatk")
    space = space_of("mf", "slatk", 20, values=given)
    assert set(space.searched) == set(space_of("mf", "slatk", 20).searched)
    assert space.plan(space.default()).config() == plan("mf", "slatk", 20, values=given).config()
    assert distributions(space)["training.epochs"].choices == (60, 20, 40, 80)
