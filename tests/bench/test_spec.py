"""Specifications: what is read, and what is said of what cannot be."""

import csv
import json
import re
from collections.abc import Mapping
from importlib.resources import files
from itertools import product
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
import yaml

from shortlist.bench import SHIPPED, TABLES, Cell, cells, read_spec, select
from shortlist.bench.published import Published
from shortlist.bench.runner import ORIGINS
from shortlist.data.builtin import DEBIAN_NAME
from shortlist.errors import InputError
from shortlist.runs import PRESETS

PLAIN: dict[str, Any] = {"title": "t", "datasets": ["clicks.csv"], "losses": ["sl", "slatk"], "seeds": [0]}


def write(folder: Path, others: Mapping[Any, Any] = MappingProxyType({}), **changes: Any) -> Path:
    path = folder / "grid.yaml"
    path.write_text(yaml.safe_dump({**PLAIN, **others, **changes}, sort_keys=False))
    return path


def grid(folder: Path, **changes: Any) -> list[Cell]:
    return list(cells(read_spec(write(folder, **changes))))


class TestReading:
    def test_what_is_not_said(self, tmp_path: Path) -> None:
        spec = read_spec(write(tmp_path, seeds=[4, 2]))
        assert (spec.k, spec.models, spec.metrics, spec.seeds) == (20, ["mf"], ["ndcg@20", "recall@20"], [4, 2])

    @pytest.mark.parametrize(
        ("changes", "said"),
        [
            ({"loses": ["sl"]}, "grid.yaml: unknown key 'loses'; did you mean 'losses'?"),
            ({5: "sl"}, "grid.yaml: unknown key '5' (known: about, "),
            ({"losses": ["slatkk"]}, "grid.yaml: unknown loss 'slatkk'; did you mean 'slatk'?"),
            ({"models": ["mff"]}, "grid.yaml: unknown model 'mff'; did you mean 'mf'?"),
            ({"models": ["ease"]}, "expected ease among the baselines, received it among the models"),
            ({"baselines": ["mf"]}, "expected mf among the models, received it among the baselines"),
            ({"baselines": ["easy"]}, "unknown model 'easy'; did you mean 'ease'?"),
            ({"ours": ["bpr"]}, "unknown loss of ours 'bpr'"),
            ({"metrics": ["ndgc@20"]}, "unknown metric 'ndgc'; did you mean 'ndcg'?"),
            ({"metrics": ["ndcg"]}, "metrics: expected a length of list, as in ndcg@20, received 'ndcg'"),
            ({"metrics": ["ndcg@0"]}, "received 'ndcg@0'"),
            ({"metrics": []}, "grid.yaml: metrics: "),
            ({"losses": []}, "expected models with losses, or baselines, received neither"),
            ({"models": []}, "expected models with losses, or baselines, received neither"),
            ({"datasets": "clicks.csv"}, "grid.yaml: datasets: expected a valid list, received 'clicks.csv'"),
            ({"datasets": []}, "grid.yaml: datasets: "),
            ({"k": 0}, "grid.yaml: k: expected greater than or equal to 1, received 0"),
            ({"k": "many"}, "grid.yaml: k: expected a valid integer"),
            ({"seeds": [-1]}, "grid.yaml: seeds.0: expected greater than or equal to 0, received -1"),
            ({"seeds": [1, 1]}, "seeds: expected each once, received 1, 1"),
            ({"losses": ["sl", "sl"]}, "losses: expected each once"),
            ({"settings": [{"set": {"los.tau": 1}}]}, "unknown key 'los.tau'; did you mean 'loss.…'?"),
            ({"settings": [{"set": {"loss": 1}}]}, "unknown key 'loss'"),
            ({"settings": [{"set": {"data.nois": 1}}]}, "unknown key 'data.nois'; did you mean 'data.noise'?"),
            ({"settings": [{"sets": {}}]}, "grid.yaml: expected a value of settings.0.set, received none"),
            ({"settings": [{"set": {}, "wen": {}}]}, "grid.yaml: settings.0: unknown key 'wen'; did you mean 'when'?"),
            ({"settings": [{"set": {}, "when": {"lss": "sl"}}]}, "unknown key of when 'lss'; did you mean 'loss'?"),
            ({"settings": [{"set": {}, "when": {"loss": "slk"}}]}, "unknown loss 'slk'; did you mean 'sl'?"),
            ({"settings": [{"set": {}, "when": {"dataset": "click.csv"}}]}, "did you mean 'clicks.csv'?"),
            ({"settings": [{"set": {}, "when": {"variant": "x"}}]}, "unknown variant 'x'"),
            ({"variants": {"a": {"loss.tau": 1, "lss.tau": 1}}}, "unknown key 'lss.tau'"),
            ({"variants": {"a": {"set": {}, "wen": {}}}}, "grid.yaml: variants.a: unknown key 'wen'"),
            ({"variants": ["a"]}, "grid.yaml: variants: expected a valid dictionary"),
            (
                {"variants": {5: {"loss.tau": 1}}},
                "grid.yaml: variants: expected a name in quotes, as in '5', received 5",
            ),
            (
                {"settings": [{"set": {}, "when": {True: "sl"}}]},
                "grid.yaml: settings.0.when: expected a name in quotes, as in 'True', received True",
            ),
            (
                {"published": {"table": "slatk_table2"}},
                "unknown table 'slatk_table2'; did you mean 'slatk_table02_top20'?",
            ),
            ({"published": {"tabel": "x"}}, "grid.yaml: "),
            ({"published": {"table": "slatk_table01_datasets"}}, "expected a table of measured figures"),
            (
                {"published": {"table": "slatk_table02_top20", "where": {"data": "x"}}},
                "unknown column 'data'; did you mean 'dataset'?",
            ),
            (
                {"published": {"table": "slatk_table02_top20", "names": {"slk": "SL"}}},
                "unknown name of published 'slk'; did you mean 'sl'?",
            ),
            (
                {"published": {"table": "slatk_table02_top20", "names": {"sl": "SLL"}}},
                "sl: expected a name of slatk_table02_top20, received 'SLL'",
            ),
            (
                {
                    "published": {
                        "table": "llpauc_table05_ltr_methods",
                        "names": {"clicks.csv": {"dataset": "Adressa", "train": "clean"}},
                    }
                },
                "unknown column 'train'; did you mean 'training'?",
            ),
            (
                {
                    "published": {
                        "table": "llpauc_table05_ltr_methods",
                        "names": {"clicks.csv": {"dataset": "Adressa", "training": "none"}},
                    }
                },
                "clicks.csv: expected a name of llpauc_table05_ltr_methods, received {'dataset': 'Adressa'",
            ),
        ],
    )
    def test_what_is_wrong_is_said_in_one_line(self, tmp_path: Path, changes: dict[Any, Any], said: str) -> None:
        with pytest.raises(InputError) as caught:
            read_spec(write(tmp_path, changes))
        assert said in str(caught.value)
        assert "\n" not in str(caught.value)

    @pytest.mark.parametrize(
        ("content", "said"),
        [
            (b"title: [", "bad.yaml: expected YAML, received a text that is none: "),
            (b"- a\n- b\n", "bad.yaml: expected keys with values, received list"),
            (b"", "bad.yaml: expected keys with values, received NoneType"),
            (b"just words", "bad.yaml: expected keys with values, received str"),
            (b"title: \xff\xfe", "bad.yaml: expected YAML, received a text that is none: "),
            (b"title: !!python/object/apply:os.system [ls]", "bad.yaml: expected YAML, received a text that is none"),
            (b"losses: [sl]", "bad.yaml: expected a value of title, received none"),
        ],
    )
    def test_what_is_no_specification(self, tmp_path: Path, content: bytes, said: str) -> None:
        (tmp_path / "bad.yaml").write_bytes(content)
        with pytest.raises(InputError) as caught:
            read_spec(tmp_path / "bad.yaml")
        assert str(caught.value).startswith(said)
        assert "\n" not in str(caught.value)

    def test_neither_a_file_nor_a_name(self, tmp_path: Path) -> None:
        with pytest.raises(InputError, match=r"unknown specification 'slatk-tabel18'; did you mean 'slatk-table18'\?"):
            read_spec("slatk-tabel18")
        with pytest.raises(InputError, match="expected a file of YAML, received Is a directory"):
            read_spec(tmp_path)

    @pytest.mark.parametrize("name", SHIPPED)
    def test_what_is_shipped(self, name: str) -> None:
        spec = read_spec(name)
        assert spec.title
        for cell in cells(spec):
            cell.plan()
            cell.data_options()
        if spec.published is not None:
            assert spec.published.table in TABLES

    def test_the_one_in_the_documents(self, tmp_path: Path) -> None:
        text = (Path(__file__).parents[2] / "docs" / "bench.md").read_text(encoding="utf-8")
        (tmp_path / "grid.yaml").write_text(text.split("```yaml\n")[1].split("```")[0], encoding="utf-8")
        spec = read_spec(tmp_path / "grid.yaml")
        assert len(list(cells(spec))) == 2 * (4 + 2) * 3
        for cell in cells(spec):
            cell.plan()
        for name in SHIPPED:
            assert f"| `{name}` |" in text

    @pytest.mark.parametrize("name", SHIPPED)
    def test_who_has_the_sets_is_said(self, name: str) -> None:
        """In one line where they are missing, and in the documents."""
        text = (Path(__file__).parents[2] / "docs" / "bench.md").read_text(encoding="utf-8")
        sets = [dataset for dataset in read_spec(name).datasets if dataset != DEBIAN_NAME]
        assert [dataset for dataset in sets if dataset not in ORIGINS or f"`{dataset}`" not in text] == []

    def test_variants_of_shipped_ones_are_what_their_names_say(self) -> None:
        for cell in cells(read_spec("slatk-why")):
            loss = cell.plan().loss
            assert loss is not None
            numbers = dict(re.findall(r"(τ_w|c) ([\d.]+)", cell.variant))
            settings = loss.settings()
            assert settings["tau"] == 0.2
            assert settings["pull"] == float(numbers.get("c", 1.0))
            if cell.loss == "slatk":
                assert settings["tau_w"] == float(numbers["τ_w"])
                assert settings["weight"] == ("published" if "published" in cell.variant else "detached")
        for name in ("slatk-table3", "slatk-table4"):
            for cell in cells(read_spec(name)):
                if cell.variant:
                    plan, k = cell.plan(), int(cell.variant.removeprefix("k"))
                    assert plan.loss is not None
                    assert (plan.loss.settings()["k"], plan.decides()) == (k, ("ndcg", k))
        for cell in cells(read_spec("slatk-temperature")):
            loss = cell.plan().loss
            assert loss is not None
            if cell.variant:
                assert loss.settings()["tau_w"] == float(cell.variant.removeprefix("τ_w "))
        for cell in cells(read_spec("slatk-noise")):
            assert f"{100 * cell.data_options().noise:.0f} %" == cell.variant

    @pytest.mark.parametrize("name", ["slatk-table3", "slatk-table4"])
    def test_published_settings_of_slatk(self, name: str) -> None:
        """Temperatures and intervals as in Tables 11 and 12."""
        folder = files("shortlist.bench") / "published"
        sets = {"amazon2014-health": "slatk_table11_hyperparameters_health.csv",
                "amazon2014-electronic": "slatk_table12_hyperparameters_electronic.csv"}  # fmt: skip
        checked = 0
        for cell in cells(read_spec(name)):
            if cell.loss == "slatk" and cell.seed == 0:
                rows = csv.DictReader((folder / sets[cell.dataset]).read_text(encoding="utf-8").splitlines())
                wanted = ("MF", f"SL@{cell.variant.removeprefix('k')}")
                (row,) = [row for row in rows if (row["backbone"], row["loss"]) == wanted]
                loss = cell.plan().loss
                assert loss is not None
                settings = loss.settings()
                theirs = float(row["tau_d"]), float(row["tau_w"]), int(row["T_beta"])
                assert (settings["tau"], settings["tau_w"], settings["refresh"]) == theirs
                checked += 1
        assert checked == 12


class TestSettings:
    @pytest.mark.parametrize(
        ("values", "said"),
        [
            ({"training.epoch": 3}, "grid.yaml: training.epoch: unknown parameter 'epoch'; did you mean 'epochs'?"),
            ({"optimizer.xyz": 3}, "grid.yaml: optimizer.xyz: unknown parameter 'xyz' (known: "),
            ({"loss.taw": 1}, "grid.yaml: loss.taw: unknown parameter of sl 'taw'; did you mean 'tau'?"),
            ({"model.dims": 1}, "grid.yaml: model.dims: unknown parameter of mf 'dims'; did you mean 'dim'?"),
            ({"training.epochs": 0}, "grid.yaml: training.epochs: expected a whole number at least 1, received 0"),
            ({"loss.tau": "hot"}, "grid.yaml: loss.tau: expected a number above 0, received 'hot'"),
            ({"data.noise": -1}, "grid.yaml: data.noise: expected a number at least 0, received -1.0"),
            ({"training.metric": "ndgc"}, "grid.yaml: training.metric: expected one of "),
        ],
    )
    def test_what_is_wrong_is_said_by_its_key(self, tmp_path: Path, values: dict[str, Any], said: str) -> None:
        cell = grid(tmp_path, settings=[{"set": values}])[0]
        with pytest.raises(InputError) as caught:
            cell.check("grid.yaml")
        assert str(caught.value).startswith(said)
        assert "\n" not in str(caught.value)

    def test_baselines_have_no_loss_to_check(self, tmp_path: Path) -> None:
        (cell,) = grid(tmp_path, losses=[], baselines=["ease"], settings=[{"set": {"training.epoch": 3}}])
        cell.check("grid.yaml")
        (cell,) = grid(tmp_path, losses=[], baselines=["ease"], settings=[{"set": {"model.dim": 3}}])
        with pytest.raises(InputError, match=r"grid.yaml: model.dim: unknown parameter of ease 'dim'"):
            cell.check("grid.yaml")


class TestRules:
    def test_later_ones_win_and_variants_last(self, tmp_path: Path) -> None:
        rules = [
            {"set": {"loss.tau": 0.3, "training.epochs": 7}},
            {"when": {"loss": ["slatk"]}, "set": {"loss.tau": 0.2, "loss.tau_w": 2}},
            {"when": {"dataset": "clicks.csv", "variant": "b"}, "set": {"loss.pull": 0.8}},
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
        pulls = {key: plan.loss.settings()["pull"] for key, plan in found.items() if plan.loss}
        assert (pulls["sl", "a"], pulls["sl", "b"], pulls["slatk", "b"]) == (1.0, 0.8, 0.8)

    def test_a_variant_of_one_loss_leaves_the_others_plain(self, tmp_path: Path) -> None:
        variants = {f"k{k}": {"when": {"loss": "slatk"}, "set": {"loss.k": k}} for k in (5, 10)}
        found = grid(tmp_path, variants=variants, baselines=["ease"])
        assert [(cell.model, cell.label) for cell in found] == [
            ("mf", "sl"), ("mf", "slatk/k5"), ("mf", "slatk/k10"), ("ease", ""),
        ]  # fmt: skip

    def test_a_baseline_takes_what_concerns_it(self, tmp_path: Path) -> None:
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

    def test_wrong_values_are_said_by_the_plan(self, tmp_path: Path) -> None:
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
        "change", ["training.epochs: 3", "training.metric: recall", "training.pilot: 2", "loss.pull: 0.9"]
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

    def test_a_name_that_is_none(self, found: list[Cell]) -> None:
        with pytest.raises(InputError, match=r"--only: unknown name 'slatkk'; did you mean 'slatk'\?"):
            select(found, ["slatkk"])


def measured() -> dict[str, Any]:
    """The settings of the presets that docs/results/published.md has measured, as it prints them."""
    page = (Path(__file__).parents[2] / "docs" / "results" / "published.md").read_text(encoding="utf-8")
    lines = page.split("\n## Settings\n")[1].split("\n## ")[0]
    return {name: json.loads(text) for name, text in re.findall(r"^- `(.+)`: `(.+)`$", lines, re.MULTILINE)}


def test_there_is_a_preset_for_each_row_that_is_asked_for() -> None:
    asked = product(["slatk", "sl", "bpr"], ["health", "electronic", "gowalla"], ["mf", "lightgcn", "xsimgcl"])
    assert set(PRESETS) == {"-".join(words) for words in asked}
    assert set(measured()) == {name for name in PRESETS if name.endswith("-mf") and not name.startswith("bpr-")}


@pytest.mark.parametrize("name", sorted(PRESETS))
def test_a_preset_is_as_the_results_have_it(name: str) -> None:
    """Its settings are those of docs/results/published.md, or of the grid of Table 2; its figures are Table 2's."""
    preset, spec = PRESETS[name], read_spec("slatk-table2")
    assert spec.published is not None
    row = spec.published.columns(preset.data, preset.model, preset.loss, "")
    table = Published(spec.published.table)
    assert preset.published == {metric: table.value(row, metric) for metric in spec.metrics}
    if name in measured():
        assert preset.settings == measured()[name]
        return
    asked = (preset.data, preset.model, preset.loss)
    cell = next(each for each in cells(spec) if (each.dataset, each.model, each.loss) == asked)
    grids = {"pilot", "beat_popularity"}  # what is right for a grid need not be for somebody's own table
    told = {section: dict(values) for section, values in cell.settings.items()}
    told["training"] = {key: value for key, value in told["training"].items() if key not in grids}
    assert preset.settings == told
