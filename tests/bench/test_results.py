"""Tables of results: means, tests, marks, and the forms in which they are written."""

import io
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from scipy import stats

from shortlist.bench import (
    Cell,
    Failure,
    Result,
    Row,
    Spec,
    cells,
    published_figures,
    read_spec,
    summarise,
    to_csv,
    to_latex,
    to_markdown,
)
from shortlist.bench.results import HEAD
from shortlist.bench.tables import why_failed
from shortlist.runs import Run

USERS = 60


def spec_of(**changes: Any) -> Spec:
    plain = {"title": "t", "datasets": ["d"], "losses": ["sl", "slatk", "bpr"], "metrics": ["ndcg@5"], "seeds": [0, 1]}
    return Spec.model_validate({**plain, **changes})


def run_of(values: np.ndarray[Any, Any], seconds: float = 2.0) -> Run:
    """A run as it would be read, with these values per user, and twice their mean on validation."""
    mean = float(values.mean())
    metrics = {"test": {"ndcg@5": mean}, "valid": {"ndcg@5": 2 * mean}, "seconds": {"train": seconds}}
    run = Run(Path("nowhere"), {}, metrics)
    run.__dict__["per_user"] = pl.DataFrame({"user_id": range(len(values)), "ndcg@5": values})
    return run


def results_of(spec: Spec, values: Mapping[str, tuple[np.ndarray[Any, Any] | str, ...]]) -> dict[Cell, Result]:
    """Results by label, a value a seed; a text is a failure."""
    found: dict[Cell, Result] = {}
    for cell in cells(spec):
        for seed, value in zip(spec.seeds, values.get(cell.label or cell.model, ()), strict=False):
            if cell.seed == seed:
                found[cell] = Failure(cell, value) if isinstance(value, str) else run_of(value)
    return found


@pytest.fixture
def drawn() -> dict[str, tuple[np.ndarray[Any, Any], ...]]:
    """Two seeds of three losses on the same users: the first a little, the last far below the second."""
    rng = np.random.default_rng(0)
    base = rng.random(USERS)

    def around(shift: float) -> tuple[np.ndarray[Any, Any], ...]:
        noise = 0.1 * rng.standard_normal((2, USERS))
        return tuple(base + shift + noise - noise.mean(1, keepdims=True))

    return {"sl": around(-0.01), "slatk": around(0.0), "bpr": around(-0.3)}


class TestSummary:
    def test_means_and_deviations(self, drawn: dict[str, tuple[np.ndarray[Any, Any], ...]]) -> None:
        rows = {row.loss: row for row in summarise(spec_of(), results_of(spec_of(), drawn))}
        for name, values in drawn.items():
            means = [value.mean() for value in values]
            assert rows[name].measured == pytest.approx(np.mean(means))
            assert rows[name].deviation == pytest.approx(np.std(means, ddof=1))
            assert rows[name].values == pytest.approx(dict(enumerate(means)))

    def test_one_seed_has_no_deviation_and_a_failed_one_is_counted(
        self, drawn: dict[str, tuple[np.ndarray[Any, Any], ...]]
    ) -> None:
        found = results_of(spec_of(), {**drawn, "bpr": (drawn["bpr"][0], "it fell")})
        row = summarise(spec_of(), found)[2]
        assert (row.deviation, row.failed, row.failures, len(row.values)) == (None, 1, {1: "it fell"}, 1)
        assert row.texts()[HEAD.index("seeds")] == "1 (1 failed)"

    def test_validation_is_included(self, drawn: dict[str, tuple[np.ndarray[Any, Any], ...]]) -> None:
        found = results_of(spec_of(), {**drawn, "bpr": ("it fell", "it fell")})
        for cell, run in found.items():
            if isinstance(run, Run) and cell.loss == "sl":
                run.metrics["valid"].update({"ndcg@5": None} if cell.seed else {})
            elif isinstance(run, Run) and cell.seed == 1:
                run.metrics["valid"].clear()  # nothing was held out
        rows = {row.loss: row for row in summarise(spec_of(), found)}
        assert rows["sl"].valid == pytest.approx(2 * drawn["sl"][0].mean())
        assert rows["slatk"].valid == pytest.approx(2 * drawn["slatk"][0].mean())
        assert rows["bpr"].valid is None
        whole = {row.loss: row for row in summarise(spec_of(), results_of(spec_of(), drawn))}
        assert whole["bpr"].valid == pytest.approx(2 * (whole["bpr"].measured or 0))
        assert whole["bpr"].as_json()["valid"] == whole["bpr"].valid
        assert whole["bpr"].texts()[HEAD.index("valid")] == f"{whole['bpr'].valid:.4f}"
        assert pl.read_csv(io.StringIO(to_csv(list(whole.values()))))["valid"].to_list() == [
            row.valid for row in whole.values()
        ]

    def test_every_reason_is_kept_with_its_seeds(self) -> None:
        spec = spec_of(losses=["sl"], baselines=["ease"], seeds=[0, 1, 2], metrics=["ndcg@5", "recall@5"])
        failed = {"sl": ("it fell", "no\nnumber", "it fell"), "ease": ("no room",)}
        rows = summarise(spec, results_of(spec, failed))
        said = ["d mf sl seed 0, 2: it fell", "d mf sl seed 1: no number", "d ease seed 0: no room"]
        assert why_failed(rows) == said
        assert to_markdown(rows).splitlines()[-3:] == [f"- {text}" for text in said]
        assert to_latex(rows).splitlines()[-3:] == [f"% Failed: {text}" for text in said]
        assert rows[0].as_json()["failures"] == {0: "it fell", 1: "no\nnumber", 2: "it fell"}
        assert pl.read_csv(io.StringIO(to_csv(rows)))["failures"][0] == "seed 0, 2: it fell; seed 1: no number"

    def test_published_values_are_included(self, drawn: dict[str, tuple[np.ndarray[Any, Any], ...]]) -> None:
        names = {"d": "Health", "mf": "MF", "sl": "SL", "slatk": {"loss": "SL@K", "train_k": "5"}, "bpr": "BPR"}
        spec = spec_of(published={"table": "slatk_table03_ndcg_varying_k", "names": names})
        rows = {row.loss: row for row in summarise(spec, results_of(spec, drawn))}
        assert (rows["slatk"].published, rows["bpr"].published) == (0.1080, 0.0940)
        assert rows["slatk"].ratio == pytest.approx((rows["slatk"].measured or 0) / 0.1080)
        spec = spec_of(published={"table": "slatk_table03_ndcg_varying_k", "names": {**names, "slatk": "nothing"}})
        assert summarise(spec, results_of(spec, drawn))[1].published is None

    def test_a_variant_that_is_not_named_has_no_published_figure(self) -> None:
        """That of the plain loss is of other settings."""
        variants = {name: {"when": {"loss": "sl"}, "set": {"loss.tau": tau}} for name, tau in (("a", 0.1), ("b", 0.3))}
        names = {"d": "Health", "mf": "MF", "sl": "SL", "sl/b": "SL", "bpr": "BPR"}
        spec = spec_of(variants=variants, published={"table": "slatk_table03_ndcg_varying_k", "names": names})
        figure = published_figures(spec)
        found = {cell.label: figure(cell, "ndcg@5") for cell in cells(spec)}
        plain = spec_of(published={"table": "slatk_table03_ndcg_varying_k", "names": names})
        sl = published_figures(plain)(next(cells(plain)), "ndcg@5")
        assert sl is not None
        assert found == {"sl/a": None, "sl/b": sl, "slatk": None, "bpr": 0.0940}

    def test_published_rows_are_identified_by_any_column(self) -> None:
        """Clean and noisy data are one dataset in the paper, with a column of its own that tells which."""
        spec = read_spec("llpauc-table5")
        figure = published_figures(spec)
        found = {(cell.dataset, cell.loss): figure(cell, "ndcg@20") for cell in cells(spec) if cell.loss}
        assert len(found) == 10
        assert None not in found.values()
        assert found["llpauc-adressa-clean", "llpauc"] == 0.1214
        assert found["llpauc-adressa-noise", "llpauc"] == 0.1189
        assert found["llpauc-adressa-noise", "ndcg_loss2"] == 0.0955
        assert [figure(cell, "ndcg@20") for cell in cells(spec) if not cell.loss] == [None] * 6

    def test_missing_metrics_are_left_out(self, drawn: dict[str, tuple[np.ndarray[Any, Any], ...]]) -> None:
        del drawn["sl"]
        assert [row.loss for row in summarise(spec_of(), results_of(spec_of(), drawn))] == ["slatk", "bpr"]


class TestMarks:
    def test_p_values_are_scipys_with_holms_correction(
        self, drawn: dict[str, tuple[np.ndarray[Any, Any], ...]]
    ) -> None:
        rows = {row.loss: row for row in summarise(spec_of(), results_of(spec_of(), drawn))}
        means = {name: np.mean(values, axis=0) for name, values in drawn.items()}  # of each user, over the seeds
        raw = {name: stats.ttest_rel(means["slatk"], means[name]).pvalue for name in ("sl", "bpr")}
        low, high = sorted(raw, key=raw.__getitem__)
        assert rows[low].p == pytest.approx(min(1, 2 * raw[low]))
        assert rows[high].p == pytest.approx(max(2 * raw[low], raw[high]))
        assert rows["slatk"].p is None

    def test_the_best_and_the_best_of_the_others(self, drawn: dict[str, tuple[np.ndarray[Any, Any], ...]]) -> None:
        rows = {row.loss: row for row in summarise(spec_of(), results_of(spec_of(), drawn))}
        assert [name for name, row in rows.items() if row.is_best] == ["slatk"]
        assert [name for name, row in rows.items() if row.is_best_baseline] == ["sl"]
        spec = spec_of(ours=["sl", "slatk"])
        rows = {row.loss: row for row in summarise(spec, results_of(spec, drawn))}
        assert [name for name, row in rows.items() if row.is_best_baseline] == ["bpr"]
        spec = spec_of(ours=["bpr"])  # which is none of the best
        rows = {row.loss: row for row in summarise(spec, results_of(spec, drawn))}
        assert rows["slatk"].is_best
        assert rows["slatk"].is_best_baseline

    def test_significant_is_better_than_every_other(self, drawn: dict[str, tuple[np.ndarray[Any, Any], ...]]) -> None:
        assert not any(row.is_sure for row in summarise(spec_of(), results_of(spec_of(), drawn)))
        far = {**drawn, "sl": tuple(values - 0.2 for values in drawn["sl"])}
        assert [row.loss for row in summarise(spec_of(), results_of(spec_of(), far)) if row.is_sure] == ["slatk"]

    def test_only_the_same_data_is_compared(self, drawn: dict[str, tuple[np.ndarray[Any, Any], ...]]) -> None:
        spec = spec_of(losses=["sl", "slatk"], variants={"clean": {}, "noisy": {"data.noise": 0.1}})
        values = {f"{loss}/{variant}": drawn[loss] for loss in ("sl", "slatk") for variant in ("clean", "noisy")}
        values = {label: tuple(v - 0.3 * ("noisy" in label) for v in each) for label, each in values.items()}
        rows = {row.label: row for row in summarise(spec, results_of(spec, values))}
        assert {label for label, row in rows.items() if row.is_best} == {"slatk/clean", "slatk/noisy"}
        assert rows["sl/noisy"].p == pytest.approx(rows["sl/clean"].p)

    def test_baselines_are_compared_with_one_another(self, drawn: dict[str, tuple[np.ndarray[Any, Any], ...]]) -> None:
        spec = spec_of(losses=["sl"], baselines=["ease", "popularity"], ours=["sl"])
        values = {"sl": drawn["slatk"], "ease": drawn["sl"], "popularity": drawn["bpr"]}
        rows = {row.label or row.model: row for row in summarise(spec, results_of(spec, values))}
        assert {name for name, row in rows.items() if row.is_best} == {"ease"}  # sl has nobody to be better than
        assert {name for name, row in rows.items() if row.is_best_baseline} == {"popularity"}
        assert rows["popularity"].p is not None
        assert rows["popularity"].p < 1e-6

    def test_rows_with_failed_seeds_are_not_compared(self, drawn: dict[str, tuple[np.ndarray[Any, Any], ...]]) -> None:
        """The best loss of all, had it not failed on a seed: the next one is marked, and the test leaves it out."""
        whole = {row.loss: row for row in summarise(spec_of(), results_of(spec_of(), drawn))}
        assert whole["slatk"].is_best
        found = {**drawn, "slatk": (drawn["slatk"][0] + 1, "it fell")}
        rows = {row.loss: row for row in summarise(spec_of(), results_of(spec_of(), found))}
        assert (rows["slatk"].measured or 0) > (rows["sl"].measured or 0)
        assert {name for name, row in rows.items() if row.is_best} == {"sl"}
        assert {name for name, row in rows.items() if row.is_best_baseline} == {"bpr"}
        assert {name for name, row in rows.items() if row.is_sure} == {"sl"}
        assert [name for name, row in rows.items() if row.p is not None] == ["bpr"]
        assert "Rows with failed or missing seeds are not compared" in to_markdown(list(rows.values()))

    def test_ours_that_failed_leave_the_best_of_the_others_where_it_is(
        self, drawn: dict[str, tuple[np.ndarray[Any, Any], ...]]
    ) -> None:
        spec, found = spec_of(ours=["slatk"]), {**drawn, "slatk": (drawn["slatk"][0], "it fell")}
        rows = {row.loss: row for row in summarise(spec, results_of(spec, found))}
        assert [name for name, row in rows.items() if row.is_best] == ["sl"]
        assert [name for name, row in rows.items() if row.is_best_baseline] == ["sl"]

    def test_failed_cells_have_no_seconds(self, drawn: dict[str, tuple[np.ndarray[Any, Any], ...]]) -> None:
        found = {**drawn, "bpr": ("it fell", "it fell")}
        rows = {row.loss: row for row in summarise(spec_of(), results_of(spec_of(), found))}
        assert rows["bpr"].seconds is None
        assert rows["bpr"].texts()[-1] == ""
        assert rows["sl"].texts()[-1] == "2.0"

    def test_fewer_seeds_than_the_others_are_not_compared(
        self, drawn: dict[str, tuple[np.ndarray[Any, Any], ...]]
    ) -> None:
        found = {**drawn, "slatk": (drawn["slatk"][0] + 1,)}
        rows = {row.loss: row for row in summarise(spec_of(), results_of(spec_of(), found))}
        assert {name for name, row in rows.items() if row.is_best} == {"sl"}
        assert rows["slatk"].p is None
        spec = spec_of(losses=["sl", "slatk"])  # one is left, which has nobody to be better than
        assert not any(row.is_best or row.is_best_baseline for row in summarise(spec, results_of(spec, found)))

    def test_too_few_users_for_a_test(self) -> None:
        one = {"sl": (np.array([0.5]), np.array([0.4])), "slatk": (np.array([0.6]), np.array([0.6]))}
        rows = {row.loss: row for row in summarise(spec_of(), results_of(spec_of(), one))}
        assert (rows["slatk"].is_best, rows["slatk"].is_sure, rows["sl"].p) == (True, False, None)


ROWS = [
    Row("d_1", "mf", "sl|x", "50 %", "ndcg@5", 0.5, {0: 0.125, 1: 0.375}, 2.0, p=0.00001, is_best_baseline=True),
    replace(
        Row("d_1", "mf", "slatk", "", "ndcg@5", None, {0: 1 / 3}, 2.0, {1: "it {fell}"}, {0: 0.25}),
        is_best=True,
        is_sure=True,
    ),
    Row("d_1", "mf", "bpr", "", "ndcg@5", None, {}, 0.0, {0: "a & b", 1: "a & b"}),
]


class TestForms:
    def test_markdown(self) -> None:
        lines = to_markdown(ROWS).splitlines()
        cells = [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines[:5]]
        assert {len(row) for row in cells} == {len(HEAD)}
        assert cells[2][2:9] == [r"sl\|x/50 %", "ndcg@5", "0.5000", "<u>0.2500</u>", "0.1768", "0.500", "< 0.0001"]
        assert cells[3][5] == r"**0.3333\***"
        assert cells[4][5] == "failed"
        assert "- d_1 mf bpr seed 0, 1: a & b" in lines

    def test_several_versions_are_noted(self, drawn: dict[str, tuple[np.ndarray[Any, Any], ...]]) -> None:
        spec = spec_of()
        results = results_of(spec, drawn)
        for cell, run in results.items():
            assert isinstance(run, Run)
            version = "0.2.0" if cell.loss == "bpr" and cell.seed else "0.1.0"
            results[cell] = Run(run.folder, {"shortlist": version}, run.metrics)
            results[cell].__dict__["per_user"] = run.per_user
        rows = summarise(spec, results)
        assert {row.loss: row.versions for row in rows} == {
            "sl": ("0.1.0",), "slatk": ("0.1.0",), "bpr": ("0.1.0", "0.2.0"),
        }  # fmt: skip
        said = "Trained by several versions of Shortlist: 0.1.0 (d mf sl, d mf slatk, d mf bpr), 0.2.0 (d mf bpr)."
        assert said in to_markdown(rows).splitlines()
        assert f"% {said}" in to_latex(rows).splitlines()
        assert pl.read_csv(io.StringIO(to_csv(rows)))["versions"].to_list() == ["0.1.0", "0.1.0", "0.1.0 0.2.0"]
        assert rows[2].as_json()["versions"] == ["0.1.0", "0.2.0"]
        assert "several versions" not in to_markdown(rows[:2])
        many = [replace(rows[2], loss=f"l{n}", versions=("0.1.0",)) for n in range(20)] + [rows[2]]
        assert "0.1.0 (21 places), 0.2.0 (d mf bpr)." in to_markdown(many)

    def test_csv_is_read_back_by_polars(self) -> None:
        table = pl.read_csv(io.StringIO(to_csv(ROWS)))
        assert table["measured"].to_list() == [0.25, 1 / 3, None]
        assert table["variant"].to_list() == ["50 %", "", ""] or table["variant"].to_list() == ["50 %", None, None]
        assert table["is_best"].to_list() == [False, True, False]
        assert table["failures"].to_list()[1:] == ["seed 1: it {fell}", "seed 0, 1: a & b"]
        assert table["valid"].to_list() == [None, 0.25, None]
        assert [float(text) for text in table["values"][0].split()] == [0.125, 0.375]
        assert table["seeds"].to_list()[0] == "0 1"

    def test_latex_is_balanced(self) -> None:
        text = to_latex(ROWS)
        body = [line for line in text.splitlines() if not line.startswith("%")]
        assert body[0].startswith(r"\begin{tabular}{")
        assert body[-1] == r"\end{tabular}"
        columns = body[0].split("{")[2].rstrip("}")
        rows = [line for line in body if line.endswith(r"\\")]
        assert len(rows) == 1 + len(ROWS)
        for line in rows:
            assert len(re.findall(r"(?<!\\)&", line)) == len(columns) - 1 == len(HEAD) - 1
            bare = re.sub(r"\\[{}]", "", line)
            depth = np.cumsum([{"{": 1, "}": -1}.get(sign, 0) for sign in bare])
            assert depth.min() >= 0
            assert depth[-1] == 0
            assert len(re.findall(r"(?<!\\)\$", line)) % 2 == 0
            assert not re.search(r"(?<!\\)[_#%]", line)
        assert r"\textbf{0.3333$^{*}$}" in text
        assert r"\underline{0.2500}" in text
        assert r"50 \%" in text

    def test_all_signs_that_latex_reads(self) -> None:
        text = to_latex([replace(ROWS[2], loss="\\a~b^c$#")])
        assert r"\textbackslash{}a\textasciitilde{}b\textasciicircum{}c\$\#" in text

    def test_greek_letters(self) -> None:
        text = to_latex([replace(ROWS[2], variant="τ_w 0.5, Δ"), replace(ROWS[2], variant="αω")])
        assert r"bpr/$\tau$\_w 0.5, $\Delta$ &" in text
        assert r"bpr/$\alpha$$\omega$ &" in text
