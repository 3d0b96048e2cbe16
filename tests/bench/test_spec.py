"""Specifications: what is read, and what is said of what cannot be."""

import csv
import json
import re
import warnings
from importlib.resources import files
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from bench.grids import grid, write
from shortlist.bench import SHIPPED, TABLES, cells, read_spec
from shortlist.bench.published import Published
from shortlist.bench.runner import ORIGINS
from shortlist.bench.spec import name_of
from shortlist.data.builtin import DEBIAN_NAME
from shortlist.errors import InputError
from shortlist.experiment import PRESETS
from shortlist.losses import registry as losses
from shortlist.parameters import RenamedParameter, current_names


class TestReading:
    def test_missing_values(self, tmp_path: Path) -> None:
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
            ({"metrics": ["ndcg@020"]}, "metrics: expected a length of list, as in ndcg@20, received 'ndcg@020'"),
            ({"metrics": ["ndcg@٢٠"]}, "metrics: expected a length of list, as in ndcg@20, received 'ndcg@٢٠'"),
            ({"metrics": [f"ndcg@{'9' * 5000}"]}, "metrics: expected a length of list, as in ndcg@20, received"),
            ({"metrics": []}, "grid.yaml: metrics: "),
            ({"losses": []}, "expected models with losses, or baselines, received neither"),
            ({"models": []}, "expected models with losses, or baselines, received neither"),
            ({"datasets": "clicks.csv"}, "grid.yaml: datasets: expected a valid list, received 'clicks.csv'"),
            ({"datasets": []}, "grid.yaml: datasets: "),
            ({"k": 0}, "grid.yaml: k: expected greater than or equal to 1, received 0"),
            ({"k": "many"}, "grid.yaml: k: expected a valid integer"),
            ({"k": True}, "grid.yaml: k: expected a valid integer, received True"),
            ({"k": "20"}, "grid.yaml: k: expected a valid integer, received '20'"),
            ({"seeds": ["1"]}, "grid.yaml: seeds.0: expected a valid integer, received '1'"),
            ({"variants": {"": {"loss.tau": 0.3}}}, "grid.yaml: variants: expected a name for each that sets"),
            ({"seeds": [-1]}, "grid.yaml: seeds.0: expected greater than or equal to 0, received -1"),
            (
                {"seeds": [0, 2**63]},
                "grid.yaml: seeds.1: expected less than or equal to 9223372036854775807, received 9223372036854775808",
            ),
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
            (
                {"variants": {"a": {}, "b": {"when": {"variant": "a"}, "set": {"loss.tau": 1}}}},
                "grid.yaml: variants.b.when: expected dataset, model or loss, received variant",
            ),
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
            ({"published": {"table": "slatk_table01_datasets"}}, "expected a table of measured values"),
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
    def test_errors_are_one_line(self, tmp_path: Path, changes: dict[Any, Any], said: str) -> None:
        with pytest.raises(InputError) as caught:
            read_spec(write(tmp_path, changes))
        assert said in str(caught.value)
        assert "\n" not in str(caught.value)

    @pytest.mark.parametrize(
        ("content", "said"),
        [
            (b"title: [", "bad.yaml: expected YAML, received invalid YAML: "),
            (b"- a\n- b\n", "bad.yaml: expected keys with values, received list"),
            (b"", "bad.yaml: expected keys with values, received NoneType"),
            (b"just words", "bad.yaml: expected keys with values, received str"),
            (b"title: \xff\xfe", "bad.yaml: expected YAML, received invalid YAML: "),
            (b"title: !!python/object/apply:os.system [ls]", "bad.yaml: expected YAML, received invalid YAML"),
            (b"losses: [sl]", "bad.yaml: expected a value of title, received none"),
            (b"a: &a [*a]", "bad.yaml: expected "),
            (
                b"title: t\ndatasets: [d]\nlosses: [sl]\n'title': u\n",
                "bad.yaml: expected each key once, received 'title' in line 1 and in line 4",
            ),
            (
                b"title: t\nsettings:\n  - set: {loss.tau: 1,\n          loss.tau: 2}\n",
                "bad.yaml: expected each key once, received 'loss.tau' in line 3 and in line 4",
            ),
        ],
    )
    def test_invalid_specifications(self, tmp_path: Path, content: bytes, said: str) -> None:
        (tmp_path / "bad.yaml").write_bytes(content)
        with pytest.raises(InputError) as caught:
            read_spec(tmp_path / "bad.yaml")
        assert str(caught.value).startswith(said)
        assert "\n" not in str(caught.value)

    def test_what_is_meant_for_several_places_may_be_merged(self, tmp_path: Path) -> None:
        (tmp_path / "grid.yaml").write_text(
            "title: t\ndatasets: [d]\nlosses: [sl]\nvariants:\n"
            "  a: &a {loss.tau: 1.0, training.epochs: 3}\n  b: {<<: *a, loss.tau: 2.0}\n"
        )
        found = {cell.variant: cell.settings for cell in cells(read_spec(tmp_path / "grid.yaml"))}
        assert {name: each["loss"]["tau"] for name, each in found.items()} == {"a": 1.0, "b": 2.0}
        assert [each["training"]["epochs"] for each in found.values()] == [3, 3]

    def test_neither_a_file_nor_a_name(self, tmp_path: Path) -> None:
        with pytest.raises(InputError, match=r"unknown specification 'slatk-tabel18'; did you mean 'slatk-table18'\?"):
            read_spec("slatk-tabel18")
        with pytest.raises(InputError, match="expected a file of YAML, received Is a directory"):
            read_spec(tmp_path)

    def test_a_file_takes_precedence_over_a_shipped_name(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(tmp_path)
        place = Path("slatk-table18")
        place.mkdir()
        assert read_spec("slatk-table18").losses[-1] == "slatk"
        assert name_of("slatk-table18") == "slatk-table18"
        place.rmdir()
        write(tmp_path).rename(place)
        assert read_spec("slatk-table18").title == "t"

    @pytest.mark.parametrize("name", SHIPPED)
    def test_what_is_shipped(self, name: str) -> None:
        spec = read_spec(name)
        assert spec.title
        for cell in cells(spec):
            cell.plan()
            cell.data_options()
        if spec.published is not None:
            assert spec.published.table in TABLES
            assert spec.ours  # a paper's own loss is not among those that it is compared with

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
    def test_sources_of_datasets_are_named(self, name: str) -> None:
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
            assert settings["positive_weight"] == float(numbers.get("c", 1.0))
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
    def test_errors_name_the_key(self, tmp_path: Path, values: dict[str, Any], said: str) -> None:
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


YELP = {"slatk-yelp2018-lightgcn", "slatk-yelp2018-xsimgcl", "sl-yelp2018-lightgcn"}


def measured() -> dict[str, Any]:
    """The settings of the presets that docs/results/published.md has measured, by their parameters' current names."""
    page = (Path(__file__).parents[2] / "docs" / "results" / "published.md").read_text(encoding="utf-8")
    lines = page.split("\n## Settings\n")[1].split("\n## ")[0]
    found = {}
    for name, text in re.findall(r"^- `(.+)`: `(.+)`$", lines, re.MULTILINE):
        settings = json.loads(text)
        with warnings.catch_warnings(action="ignore", category=RenamedParameter):
            settings["loss"] = current_names(losses[name.split("-")[0]], settings["loss"])
        found[name] = settings
    return found


def test_there_is_a_preset_for_each_row_that_is_asked_for() -> None:
    asked = product(["slatk", "sl", "bpr"], ["health", "electronic", "gowalla"], ["mf", "lightgcn", "xsimgcl"])
    assert set(PRESETS) == {"-".join(words) for words in asked} | YELP
    table = {name for name in PRESETS if name.endswith("-mf") and not name.startswith("bpr-")}
    assert set(measured()) == table | YELP


@pytest.mark.parametrize("name", sorted(PRESETS))
def test_presets_match_the_results_page(name: str) -> None:
    """Its settings are those of docs/results/published.md, or of the grid of Table 2; its figures are Table 2's."""
    if name in YELP:
        assert PRESETS[name].settings == measured()[name]
        return
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
    grids = {"temperature_epochs", "beat_popularity"}  # what is right for a grid need not be for somebody's own table
    answer_json = {section: dict(values) for section, values in cell.settings.items()}
    assert answer_json.pop("data") == {"protocol": "irbenchmark"}
    answer_json["training"] = {key: value for key, value in answer_json["training"].items() if key not in grids}
    assert preset.settings == answer_json
