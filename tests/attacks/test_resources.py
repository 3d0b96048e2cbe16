"""Sizes that no machine has, noise that looks like a collapse, downloads and specifications without end."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import torch

from command import Command, says
from shortlist import memory
from shortlist.data.download import Partial, fetch
from shortlist.data.public_sets import SETS
from shortlist.errors import InputError, ShortlistError
from shortlist.recommend import recommend
from shortlist.runs import open_run


@pytest.mark.parametrize("model", ["mf", "lightgcn", "pooled", "ncf"])
def test_an_absurd_dimension_is_refused_with_the_number_of_bytes(
    shortlist: Command, clicks: Path, tmp_path: Path, model: str
) -> None:
    out = tmp_path / "run"
    answer = shortlist("train", clicks, "--model", model, "--set", "model.dim=1000000000000", "--out", out)
    says(answer, 2, "expected a need of at most", "bytes of memory, which are available")
    assert not out.exists()


def test_ease_compares_its_need_with_the_memory(
    shortlist: Command, clicks: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory, "available_memory", lambda: 5 * 40**2 - 1)
    answer = shortlist("train", clicks, "--model", "ease", "--out", tmp_path / "run")
    says(answer, 2, "ease: expected a need of at most 7,999 bytes", "received 8,000")
    monkeypatch.setattr(memory, "available_memory", lambda: 5 * 40**2)
    assert shortlist("train", clicks, "--model", "ease", "--out", tmp_path / "run").code == 0


def test_memory_is_known_here() -> None:
    found = memory.available_memory()
    assert found is None or found > 1 << 20


NESTED = "[" * 3000 + "]" * 3000
BOMB = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{name}: &{name} [{', '.join([f'*{before}'] * 9)}]\n" for before, name in zip("abcdefgh", "bcdefghi", strict=True)
)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (f"title: {NESTED}", "levels of nesting"),
        (BOMB + "title: *i\n", "expected at most 100,000 values, received more"),
        ("title: &a [*a]", "received an alias to itself"),
        ("title: x\n# " + "x" * 1_000_001, "expected at most 1,000,000 characters"),
    ],
    ids=["nested", "aliases", "a cycle", "long"],
)
def test_specifications_are_bounded(shortlist: Command, tmp_path: Path, text: str, why: str) -> None:
    path = tmp_path / "grid.yaml"
    path.write_text(text)
    says(shortlist("bench", path, "--out", tmp_path / "out"), 2, why)


@pytest.mark.parametrize("suffix", [".parquet", ".csv"])
def test_lists_of_all_users_are_written_part_by_part(
    shortlist: Command, ease: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suffix: str
) -> None:
    import importlib

    from shortlist.recommend import recommend as module  # noqa: F401

    parts = importlib.import_module("shortlist.recommend.recommend")
    whole = recommend(open_run(ease), None, 10)
    out, sizes, real = tmp_path / f"lists{suffix}", [], parts.recommend

    def counted(*values: Any, **named: Any) -> pl.DataFrame:
        table = real(*values, **named)
        sizes.append(table.height)
        return table

    monkeypatch.setattr(parts, "recommend", counted)
    monkeypatch.setattr(parts.recommend_parts, "__kwdefaults__", {**parts.recommend_parts.__kwdefaults__, "rows": 75})
    answer = shortlist("recommend", ease, "--users", "all", "--k", 10, "--out", out, "--json")
    assert answer.code == 0, answer
    assert answer.json == {"users": 60, "rows": whole.height, "out": str(out)}
    assert len(sizes) == 9
    assert max(sizes) <= 75
    found = pl.read_parquet(out.read_bytes()) if suffix == ".parquet" else pl.read_csv(out)
    assert found.schema.names() == whole.schema.names()
    assert found["item_id"].to_list() == whole["item_id"].to_list()
    assert found["user_id"].to_list() == whole["user_id"].to_list()
    np.testing.assert_array_equal(found["score"].cast(pl.Float32), whole["score"])
    if suffix == ".parquet":
        assert found.schema == whole.schema
    assert [path.name for path in tmp_path.iterdir()] == [out.name]


@pytest.mark.parametrize("chunked", [True, False])
def test_a_download_stops_at_its_registered_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chunked: bool
) -> None:
    from data.web import Site, served

    monkeypatch.setenv("no_proxy", "*")
    content = bytes(3_000_000)
    with served(Site(content, chunked=chunked)) as site:
        with pytest.raises(ShortlistError, match="expected at most 1,000,000 bytes, received more"):
            fetch(site.address, tmp_path / "set.zip", most_bytes=1_000_000)
        assert not Partial.of(tmp_path / "set.zip").data.exists()
        assert len(fetch(site.address, tmp_path / "set.zip", most_bytes=3_000_000).read_bytes()) == 3_000_000


def test_every_registered_set_has_a_limit() -> None:
    assert all(0 < known.most_bytes < 10**11 for known in SETS.values())


class TestCollapse:
    @staticmethod
    def validated(values: list[Any], n_queries: int, **settings: Any) -> Any:
        """A training whose validation gives these values, one for each epoch."""
        from shortlist.data import Interactions
        from shortlist.losses import SL
        from shortlist.models import MF
        from shortlist.training import Training, TrainingSettings

        ids = {"user_ids": pl.arange(n_queries, eager=True), "item_ids": [0, 1, 2]}
        train, valid = (
            Interactions.from_pairs(np.arange(n_queries), np.full(n_queries, item), **ids) for item in (0, 1)
        )
        options = TrainingSettings(epochs=len(values), validate_every=1, patience=99, beat_popularity=False, **settings)
        run = Training(MF(dim=2), SL(tau=0.2), train, valid=valid, training=options, k=1)

        def validate(model: object) -> float:
            value = values[run.progress.epoch - 1]
            run._value_Q = torch.tensor(value, dtype=torch.float64)
            return float(run._value_Q.mean())

        run._validated = validate  # type: ignore[method-assign]
        return run

    @staticmethod
    def hits(n_hits: int, n_queries: int) -> list[float]:
        return [float(number < n_hits) for number in range(n_queries)]

    def test_noise_of_few_users_is_no_collapse(self) -> None:
        run = self.validated([self.hits(4, 40), self.hits(1, 40), self.hits(3, 40)], 40)
        assert run.run().epoch == 3

    def test_a_collapse_of_many_users_is_one(self) -> None:
        with pytest.raises(ShortlistError, match="training collapsed by epoch 2"):
            self.validated([self.hits(400, 4000), self.hits(100, 4000)], 4000).run()

    def test_a_setting_turns_it_off(self) -> None:
        values = [self.hits(400, 4000), self.hits(100, 4000)]
        assert self.validated(values, 4000, stop_on_collapse=False).run().epoch == 2

    def test_it_is_judged_alike_after_a_resumption(self, tmp_path: Path) -> None:
        values = [self.hits(400, 4000), self.hits(100, 4000)]
        run, path = self.validated(values, 4000), tmp_path / "checkpoint"
        run.epoch()
        run.save(path, {})
        again = self.validated(values, 4000)
        again.resume(path, {})
        assert torch.equal(again._best_Q, run._best_Q)
        with pytest.raises(ShortlistError, match="training collapsed by epoch 2"):
            again.epoch()

    def test_the_setting_does_not_change_what_a_run_is_known_by(self) -> None:
        from shortlist.runs import result_config
        from shortlist.training import TrainingSettings

        default = TrainingSettings().settings()
        config = {"k": 5, "training": default}
        assert "stop_on_collapse" not in result_config(config, tau_is_open=False)["training"]
        off = {"k": 5, "training": {**default, "stop_on_collapse": False}}
        assert result_config(off, tau_is_open=False)["training"]["stop_on_collapse"] is False
        assert not math.isnan(default["checkpoint_every"])


def test_input_errors_of_memory_are_input_errors() -> None:
    with pytest.raises(InputError, match="received 1,000,000,000,000,000,000"):
        memory.check_memory("mf", 10**18)
