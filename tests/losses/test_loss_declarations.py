"""What every registered loss says about itself, and what it does with wrong parameters."""

from __future__ import annotations

import doctest
import importlib
import inspect
import math
from typing import Any, get_args

import pytest
import torch

from losses.values import registered, values_of
from shortlist.errors import InputError
from shortlist.losses import SL, Loss, registry
from shortlist.losses.families import families
from shortlist.parameters import param

NAMES = registered()


def missing(cls: type[Loss]) -> list[str]:
    """What `shortlist losses NAME` and the page of losses would have to leave out."""
    facts = ("formula", "target", "citation", "cost", "use")
    found = [f"class attribute {fact}" for fact in facts if not getattr(cls, fact).strip()]
    found += [f"help of the parameter {key}" for key, declared in cls.declared.items() if not declared.help.strip()]
    text = inspect.cleandoc(vars(cls).get("__doc__") or "")
    if ".. math::" not in text:
        found.append("formula in the docstring (.. math::)")
    module = importlib.import_module(cls.__module__)
    examples = doctest.DocTestParser().get_doctest(text, vars(module), cls.__name__, None, None).examples
    if not any(cls.__name__ in each.source for each in examples) or not any(each.want for each in examples):
        found.append("runnable example in the docstring (>>>)")
    return found


def test_what_is_missing_is_named() -> None:
    class Silent(SL):
        formula, cost, use = "", "", " "
        margin: float = param(default=1.0)

    assert missing(Silent) == [
        "class attribute formula",
        "class attribute cost",
        "class attribute use",
        "help of the parameter margin",
        "formula in the docstring (.. math::)",
        "runnable example in the docstring (>>>)",
    ]


@pytest.mark.parametrize("name", NAMES)
class TestDescription:
    def test_has_test_values(self, name: str) -> None:
        values = values_of(name)
        assert values.by_hand
        assert values.variants

    def test_says_what_it_is(self, name: str) -> None:
        assert missing(registry[name]) == [], f"{name} does not say everything that people are told of a loss"

    def test_its_family_says_what_it_is(self, name: str) -> None:
        (family,) = families([name])
        assert family.about, f"the docstring of losses/{family.name}.py is to begin with 'Title: what they share.'"

    def test_searches_only_what_is_allowed(self, name: str) -> None:
        for key, declared in registry[name].declared.items():
            search = declared.search
            if search is not None:
                ends = [*search.choices, *(end for end in (search.low, search.high) if end is not None)]
                assert all(declared.accepts(end) for end in ends), key


def wrong_values(name: str) -> list[tuple[str, Any]]:
    """What no parameter of its type may be given, and what lies just outside each declared bound."""
    wrong: list[tuple[str, Any]] = []
    for key, declared in registry[name].declared.items():
        wrong.append((key, object()))
        if isinstance(declared.default, bool):
            wrong += [(key, 1), (key, "yes")]
        elif isinstance(declared.default, int):
            wrong += [(key, 2.5), (key, True), (key, "3")]
        elif isinstance(declared.default, float):
            wrong += [(key, math.nan), (key, "0.1"), (key, True)]
        elif get_args(declared.annotation):
            wrong += [(key, "neither"), (key, 0)]
        for bound in (declared.above, declared.below):
            wrong += [(key, bound)] if bound is not None else []
        wrong += [(key, low - 1) for low in (declared.above, declared.at_least) if low is not None]
        wrong += [(key, high + 1) for high in (declared.below, declared.at_most) if high is not None]
    return wrong


@pytest.mark.parametrize("name", NAMES)
class TestParameters:
    def test_settings_round_trip(self, name: str) -> None:
        for variant in values_of(name).variants:
            loss = registry[name](**variant.settings)
            again = type(loss)(**loss.settings())
            assert again.settings() == loss.settings()
            assert variant.settings.items() <= loss.settings().items()
            assert list(loss.settings()) == list(type(loss).declared)

    def test_settings_are_read_from_text(self, name: str) -> None:
        for variant in values_of(name).variants:
            loss = registry[name](**variant.settings)
            texts = {key: str(value) for key, value in loss.settings().items()}
            assert registry[name].from_text(texts).settings() == loss.settings()

    def test_wrong_values_are_named(self, name: str) -> None:
        cls = registry[name]
        for key, value in wrong_values(name):
            with pytest.raises(InputError) as caught:
                cls(**{key: value})
            message = str(caught.value)
            assert message.startswith(f"{cls.__name__}.{key}: expected "), message
            assert message.endswith(f", received {value!r}") or isinstance(value, int | float), message
            assert "\n" not in message

    def test_unknown_parameters_are_named(self, name: str) -> None:
        with pytest.raises(InputError, match=rf"^{registry[name].__name__}: unknown parameter 'no_such_thing'"):
            registry[name](no_such_thing=1)

    def test_negatives_are_asked_for(self, name: str) -> None:
        with pytest.raises(InputError, match=rf"^{registry[name].__name__}: expected negative scores"):
            registry[name]()(torch.zeros(3))


@pytest.mark.parametrize(
    ("name", "key", "value", "message"),
    [
        ("sl", "tau", 0, "SL.tau: expected a number above 0, received 0.0"),
        ("sl", "tau", -1.0, "SL.tau: expected a number above 0, received -1.0"),
        ("sl", "tau", math.nan, "SL.tau: expected a number above 0, received nan"),
        ("sl", "tau", "0.2", "SL.tau: expected a number above 0, received '0.2'"),
        ("sl", "denominator", "some", "SL.denominator: expected one of 'all', 'negatives', received 'some'"),
        ("slatk", "k", 0, "SLAtK.k: expected a whole number at least 1, received 0"),
        ("slatk", "k", 2.5, "SLAtK.k: expected a whole number at least 1, received 2.5"),
        ("slatk", "tau_w", 0.0, "SLAtK.tau_w: expected a number above 0 or none, received 0.0"),
        ("slatk", "weight", "free", "SLAtK.weight: expected one of 'published', 'detached', received 'free'"),
    ],
)
def test_messages_of_wrong_values(name: str, key: str, value: Any, message: str) -> None:
    with pytest.raises(InputError) as caught:
        registry[name](**{key: value})
    assert str(caught.value) == message


def test_a_loss_without_values_fails_with_a_clear_message() -> None:
    with pytest.raises(pytest.fail.Exception, match=r"'made_up' is registered but has no entry in VALUES"):
        values_of("made_up")
