"""Cells of a grid: the settings that rules give them, their folders, and which of them are meant."""

import re
from pathlib import Path

import pytest
import yaml

from bench.grids import grid
from shortlist.bench import SHIPPED, Cell, cells, read_spec, select
from shortlist.errors import InputError


class TestRules:
    def test_later_ones_win_and_variants_last(self, tmp_path: Path) -> None:
        rules = [
            {"set": {"loss.tau": 0.3, "training.epochs": 7}},
            {"when": {"loss": ["slatk"]}, "set": {"loss.tau": 0.2, "loss.tau_w": 2}},
            {"when": {"dataset": "clicks.csv", "variant": "b"}, "set": {"loss.positive_weight": 0.8}},
        ]
        found = {
            (cell.loss, cell.variant): cell.plan()
            for cell in grid(tmp_path, settings=rules, variants={"a": {"training.epochs": 9}, "b": {"loss.tau": 0.4}})
        }
        assert list(found) == [("sl", "a"), ("sl", "b"), ("slatk", "a"), ("slatk", "b")]
        values = {key: (plan.loss.settings()["tau"], plan.training.epochs) for key, plan in found.items() if plan.loss}
        assert values == {
            ("sl", "a"): (0.3, 9),
            ("sl", "b"): (0.4, 7),
            ("slatk", "a"): (0.2, 9),
            ("slatk", "b"): (0.4, 7),
        }
        pulls = {key: plan.loss.settings()["positive_weight"] for key, plan in found.items() if plan.loss}
        assert (pulls["sl", "a"], pulls["sl", "b"], pulls["slatk", "b"]) == (1.0, 0.8, 0.8)

    def test_a_variant_of_one_loss_leaves_the_others_plain(self, tmp_path: Path) -> None:
        variants = {f"k{k}": {"when": {"loss": "slatk"}, "set": {"loss.k": k}} for k in (5, 10)}
        found = grid(tmp_path, variants=variants, baselines=["ease"])
        assert [(cell.model, cell.label) for cell in found] == [
            ("mf", "sl"), ("mf", "slatk/k5"), ("mf", "slatk/k10"), ("ease", ""),
        ]  # fmt: skip

    def test_a_baseline_takes_only_model_and_data_settings(self, tmp_path: Path) -> None:
        rules = [{"set": {"training.epochs": 3, "loss.tau": 0.1, "data.core": 2}}]
        variants = {"clean": {"data.noise": 0.0}, "noisy": {"data.noise": 0.1}}
        found = [c for c in grid(tmp_path, settings=rules, baselines=["ease"], variants=variants) if c.model == "ease"]
        assert [cell.variant for cell in found] == ["clean", "noisy"]
        assert [cell.data_options().noise for cell in found] == [0.0, 0.1]
        assert found[0].data_options().core == 2
        assert found[0].plan().loss is None
        found = [c for c in grid(tmp_path, baselines=["ease"], variants={"x": {"loss.tau": 1}}) if c.model == "ease"]
        assert [cell.variant for cell in found] == [""]

    def test_numbers_that_yaml_takes_for_text(self, tmp_path: Path) -> None:
        """1e-3 has no dot, and is a text to YAML 1.1."""
        path = tmp_path / "grid.yaml"
        path.write_text(
            "title: t\ndatasets: [x]\nlosses: [sl]\n"
            "settings: [{set: {optimizer.lr: 1e-3, training.batch: none, data.noise: 1e-1, data.protocol: shortlist}}]"
        )
        cell = next(cells(read_spec(path)))
        assert cell.plan().optimizer.lr == 0.001
        assert cell.plan().training.batch is None
        assert (cell.data_options().noise, cell.data_options().protocol) == (0.1, "shortlist")

    def test_invalid_values_are_reported_by_the_configuration(self, tmp_path: Path) -> None:
        cell = grid(tmp_path, settings=[{"set": {"loss.tau": -1}}])[0]
        with pytest.raises(InputError, match=r"SL\.tau: expected a number above 0, received -1"):
            cell.plan()
        cell = grid(tmp_path, settings=[{"set": {"loss.tua": 1}}])[0]
        with pytest.raises(InputError, match=r"unknown parameter 'tua'; did you mean 'tau'\?"):
            cell.plan()

    def test_seeds_come_last(self, tmp_path: Path) -> None:
        found = grid(tmp_path, seeds=[5, 3], datasets=["a", "b"])
        assert [(cell.seed, cell.dataset) for cell in found] == [
            (5, "a"), (5, "a"), (5, "b"), (5, "b"), (3, "a"), (3, "a"), (3, "b"), (3, "b"),
        ]  # fmt: skip
        assert found[0].data_options().seed == 5


class TestFolders:
    def test_one_training_has_one_folder_in_every_grid(self) -> None:
        """Tables 2 and 3 word seven losses differently: a pilot where the temperature is set, ndcg@20 at K = 20."""
        folders = [
            {cell.folder("data") for cell in cells(read_spec(name)) if (cell.model, cell.seed) == ("mf", 0)}
            for name in ("slatk-table2", "slatk-table3")
        ]
        shared = {re.sub(r"^amazon2014-|-seed0-.*$", "", name) for name in folders[0] & folders[1]}
        losses = ("bpr", "guidedrec", "llpauc", "sl", "advinfonce", "bsl", "psl")
        assert shared >= {f"{name}-mf-{loss}" for name in ("health", "electronic") for loss in losses}

    @pytest.mark.parametrize(
        "change",
        [
            "training.epochs: 3",
            "training.metric: recall",
            "training.temperature_epochs: 2",
            "loss.positive_weight: 0.9",
        ],
    )
    def test_what_changes_the_result_changes_the_folder(self, tmp_path: Path, change: str) -> None:
        name, value = change.split(": ")
        plain, changed = (
            grid(tmp_path, losses=["sl"], settings=settings)[0].folder("data")
            for settings in ([], [{"set": {name: yaml.safe_load(value)}}])
        )
        assert plain != changed


class TestOnly:
    @pytest.fixture
    def found(self, tmp_path: Path) -> list[Cell]:
        return grid(
            tmp_path,
            datasets=["a", "b"],
            baselines=["ease", "popularity"],
            variants={"k5": {"when": {"loss": "slatk"}, "set": {"loss.k": 5}},
                      "k9": {"when": {"loss": "slatk"}, "set": {"loss.k": 9}}},
        )  # fmt: skip

    @pytest.mark.parametrize(
        ("names", "left"),
        [
            ([], {"a mf sl", "a mf slatk/k5", "a mf slatk/k9", "a ease", "a popularity",
                  "b mf sl", "b mf slatk/k5", "b mf slatk/k9", "b ease", "b popularity"}),
            (["a"], {"a mf sl", "a mf slatk/k5", "a mf slatk/k9", "a ease", "a popularity"}),
            (["sl"], {"a mf sl", "b mf sl"}),
            (["mf", "b"], {"b mf sl", "b mf slatk/k5", "b mf slatk/k9"}),
            (["k5"], {"a mf slatk/k5", "b mf slatk/k5"}),
            (["ease"], {"a ease", "b ease"}),
            (["ease", "sl", "a"], {"a ease", "a mf sl"}),
            (["ease", "mf", "a", "k9"], {"a mf slatk/k9"}),
            (["sl", "k5"], set()),
        ],
    )  # fmt: skip
    def test_names_of_all_axes(self, found: list[Cell], names: list[str], left: set[str]) -> None:
        assert {str(cell).removesuffix(" seed 0") for cell in select(found, names)} == left

    def test_an_unknown_name(self, found: list[Cell]) -> None:
        with pytest.raises(InputError, match=r"--only: unknown name 'slatkk'; did you mean 'slatk'\?"):
            select(found, ["slatkk"])

    def test_the_names_of_papers(self) -> None:
        spec = read_spec("slatk-table4")
        grid = list(cells(spec))

        def labels(*names: str) -> set[tuple[str, str]]:
            return {(cell.dataset, cell.label) for cell in select(grid, names, spec)}

        health = "amazon2014-health"
        assert labels("SL@20", "Health") == {(health, "slatk/k20")}
        assert labels("sl@20", "SL", "health") == {(health, "slatk/k20"), (health, "sl")}
        assert labels("SL@20", "SL@5", "MF", health) == {(health, "slatk/k20"), (health, "slatk/k5")}
        assert labels("SL@K") == labels("slatk")
        with pytest.raises(InputError, match=r"--only: unknown name 'SL@21'; did you mean 'SL@20'\?"):
            select(grid, ["SL@21"], spec)

    def test_the_shipped_grids_keep_the_protocol_of_their_papers(self) -> None:
        for name in SHIPPED:
            protocols = {(cell.dataset, cell.data_options().protocol) for cell in cells(read_spec(name))}
            assert {p for dataset, p in protocols if dataset != "debian"} <= {"irbenchmark"}
