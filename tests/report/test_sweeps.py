"""Pictures along what a grid varies: what each shows is what the runs say, whatever the grid is called."""

import json
import re
import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from shortlist.bench import Cell, Failure, Result, Spec, cells, published_figures, read_spec, summarise
from shortlist.report import Figure, Section
from shortlist.report.bench import bench_page
from shortlist.report.sweeps import swept
from shortlist.runs import Run

KS = (5, 10, 20, 50, 75, 100)


def spec_of(**changes: Any) -> Spec:
    plain = {"title": "t", "datasets": ["d"], "losses": ["sl", "slatk"], "metrics": ["ndcg@20"], "seeds": [0, 1]}
    return Spec.model_validate({**plain, **changes})


def results_of(spec: Spec, value: Callable[[Cell, int], float]) -> dict[Cell, Result]:
    """Runs as they would be read; a value that is negative is a failure."""
    found: dict[Cell, Result] = {}
    for cell in cells(spec):
        if value(cell, 20) < 0:
            found[cell] = Failure(cell, "it fell")
            continue
        test = {f"{name}@{k}": value(cell, k) for name in ("ndcg", "recall") for k in KS}
        run = Run(Path("nowhere"), {}, {"test": test, "seconds": {"train": 1.0}})
        run.__dict__["per_user"] = pl.DataFrame(
            {"user_id": [0, 1], **{name: [each, each / 2] for name, each in test.items()}}
        )
        found[cell] = run
    return found


def sections(spec: Spec, results: dict[Cell, Result], folder: Path = Path("nowhere")) -> dict[str, Section]:
    folders = {cell: folder / f"{number}" for number, cell in enumerate(results)}
    page = bench_page(spec, summarise(spec, results), results, folders)
    return {section.title: section for section in page.sections}


def marks(figure: Figure, *columns: str) -> list[dict[str, str]]:
    """The points that a picture has, by what it says of them to those who cannot see it."""
    labels = [dict(part.partition(": ")[::2] for part in label.split("; "))
              for label in re.findall(r'aria-label="([^"]*)" role="graphics-symbol" aria-roledescription="point"',
                                      figure.svg)]  # fmt: skip
    return [{column: label[column] for column in columns} for label in labels]


def named(by_cell: dict[Cell, Result]) -> dict[str, list[Cell]]:
    found: dict[str, list[Cell]] = {}
    for cell in by_cell:
        found.setdefault(cell.label, []).append(cell)
    return found


class TestSweeps:
    def test_robustness_to_noise(self) -> None:
        """Figures 3 and 8: a line a loss, along the share of false positives."""
        spec = read_spec("slatk-noise")
        start = {"bpr": 0.1, "sl": 0.12, "slatk": 0.14}
        results = results_of(
            spec, lambda cell, k: start[cell.loss] - 0.1 * cell.data_options().noise + 0.001 * cell.seed
        )
        found = sections(spec, results)
        assert "Variants" not in found
        figures = found["Metric against share of false positives in training"].figures
        assert [figure.title for figure in figures] == [
            f"{data}, mf: {metric}@20"
            for data in ("amazon2014-health", "amazon2014-electronic")
            for metric in ("ndcg", "recall")
        ]
        shown = marks(figures[0], "share of false positives in training", "ndcg@20", "name")
        assert [tuple(point.values()) for point in shown] == [
            (f"{noise}%", f"{start[loss] - noise / 1000 + 0.001:.10g}", loss)
            for loss in start
            for noise in (0, 5, 10, 15, 20)
        ]

    def test_a_temperature_beside_a_loss_that_has_none(self) -> None:
        """Figure 7; what failed has no point."""
        spec = read_spec("slatk-temperature")
        results = results_of(
            spec, lambda cell, k: -1.0 if cell.variant == "τ_w 0.5" else 0.1 + 0.01 * len(cell.variant)
        )
        figure = sections(spec, results)["Metric against loss.tau_w"].figures[0]
        shown = marks(figure, "loss.tau_w", "name")
        assert [float(point["loss.tau_w"]) for point in shown] == [0.75 + 0.25 * step for step in range(10)]
        assert {point["name"] for point in shown} == {"slatk"}
        dashed = re.findall(r'aria-roledescription="line mark"[^>]*stroke-dasharray="5,4"', figure.svg)
        assert len(dashed) == 1  # SL, from end to end

    def test_lines_hold_what_agrees_in_everything_else(self) -> None:
        spec = read_spec("slatk-why")
        by_label = named({cell: Failure(cell, "") for cell in cells(spec) if cell.dataset == "amazon2014-health"})
        along = {line.name: list(line.points) for line in swept(spec, by_label, "loss.tau_w")}
        assert along == {
            f"slatk weight {weight}, positive_weight {pull}": [0.3, 0.5, 1.0, 2.5]
            for weight, pull in (("published", 1), ("detached", 1), ("detached", 0.9), ("detached", 0.8))
        }
        along = {line.name: list(line.points) for line in swept(spec, by_label, "loss.positive_weight")}
        assert along == {
            "sl": [0.7, 0.8, 0.9, 1.0],
            **{f"slatk weight detached, tau_w {tau:g}": [0.8, 0.9, 1.0] for tau in (2.5, 1, 0.5, 0.3)},
        }
        for line in swept(spec, by_label, "loss.positive_weight"):
            for pull, found in line.points.items():
                assert {cell.settings["loss"]["positive_weight"] for cell in found} == {pull}
                assert sorted(cell.seed for cell in found) == spec.seeds

    def test_published_beside_measured(self) -> None:
        variants = {f"k{k}": {"when": {"loss": "slatk"}, "set": {"loss.k": k}} for k in (5, 20)}
        names = {"d": "Health", "mf": "MF", "sl": "SL", "slatk/k5": "SL@5", "slatk/k20": "SL@20"}
        table = {"table": "slatk_table04_train_k_vs_metric_k", "names": names}
        spec = spec_of(variants=variants, published=table, metrics=["ndcg@20"])
        found = sections(spec, results_of(spec, lambda cell, k: 0.1))
        measured, content = found["Metric against K of training"].figures
        assert content.title == "d, mf: ndcg@20, as published"
        assert [point["ndcg@20"] for point in marks(measured, "ndcg@20")] == ["0.1", "0.1"]
        assert [point["ndcg@20"] for point in marks(content, "ndcg@20")] == ["0.1379", "0.139"]

    def test_baselines_are_drawn_too(self) -> None:
        variants = {"clean": {}, "noisy": {"data.noise": 0.5}}
        spec = spec_of(losses=[], baselines=["popularity", "ease"], variants=variants)
        figure, = sections(spec, results_of(spec, lambda cell, k: 0.1))[
            "Metric against share of false positives in training"
        ].figures  # fmt: skip
        assert figure.title == "d, baselines: ndcg@20"
        shown = marks(figure, "name", "share of false positives in training")
        assert [tuple(point.values()) for point in shown] == [
            ("popularity", "0%"), ("popularity", "50%"), ("ease", "0%"), ("ease", "50%"),
        ]  # fmt: skip

    def test_variants_without_numbers_have_a_chart(self) -> None:
        variants = {"as published": {"loss.weight": "published"}, "detached": {"loss.weight": "detached"}}
        spec = spec_of(losses=["slatk"], variants=variants)
        found = sections(spec, results_of(spec, lambda cell, k: 0.1))
        assert "Variants" in found
        assert not [title for title in found if title.startswith("Metric against loss")]
        mixed = {**variants, "τ_w 2": {"loss.tau_w": 2.0}, "τ_w 3": {"loss.tau_w": 3.0}}
        spec = spec_of(losses=["slatk"], variants=mixed)
        found = sections(spec, results_of(spec, lambda cell, k: 0.1))
        assert {"Variants", "Metric against loss.tau_w"} <= found.keys()


@pytest.fixture(scope="module")
def table3() -> dict[str, Section]:
    """Of one dataset; what was trained for a K is twice as good there."""
    spec = read_spec("slatk-table3").model_copy(update={"datasets": ["amazon2014-health"], "seeds": [0]})
    return sections(spec, results_of(spec, lambda cell, k: 0.2 if cell.variant == f"k{k}" else 0.1))


class TestAgainstK:
    @pytest.fixture
    def table4(self) -> tuple[Spec, dict[Cell, Result]]:
        spec = read_spec("slatk-table4").model_copy(update={"datasets": ["amazon2014-health"]})
        figure = published_figures(spec)
        return spec, results_of(spec, lambda cell, k: (figure(cell, f"ndcg@{k}") or 0.0) * (1 + 0.1 * (cell.seed - 1)))

    def test_ratios_to_the_diagonal(self, table4: tuple[Spec, dict[Cell, Result]]) -> None:
        """Table 4: the runs are made to say what was published, so that both pictures say the same."""
        spec, results = table4
        figures = sections(spec, results)["K of training against K of the metric"].figures
        assert [figure.title for figure in figures[:2]] == [
            "amazon2014-health, mf, slatk: ndcg@K",
            "amazon2014-health, mf, slatk: ndcg@K, as published",
        ]
        means: dict[tuple[str, int], float] = {}
        for label, found in named(results).items():
            for k in KS:
                means[label, k] = statistics.mean(results[cell].metrics["test"][f"ndcg@{k}"] for cell in found)  # type: ignore[union-attr]
        labels = [*(f"slatk/k{k}" for k in KS), "sl"]
        expected = [f"{means[label, k] / means[f'slatk/k{k}', k]:.3f}" for label in labels for k in KS]
        for figure in figures[:2]:
            assert re.findall(r">(\d\.\d{3})<", figure.svg) == expected
        assert expected[:3] == ["1.000", "0.992", "0.992"]  # 0.1180/0.1190 and 0.1379/0.1390 in print
        for text in ("K = 5", "K = 100", "sl", "trained for"):
            assert f">{text}<" in figures[0].svg

    def test_a_loss_trained_for_each_k_is_one_line(self, table3: dict[str, Section]) -> None:
        """Table 3: at each K the one that was trained for it."""
        measured, content = table3["Metric against K"].figures
        lines: dict[str, list[tuple[str, str]]] = {}
        for point in marks(measured, "name", "K, length of the list", "ndcg@K"):
            lines.setdefault(point["name"], []).append((point["K, length of the list"], point["ndcg@K"]))
        assert len(lines) == 10
        for name, points in lines.items():
            assert points == [(f"{k}", "0.2" if "trained for each K" in name else "0.1") for k in KS]
        shown = [(point["name"], point["ndcg@K"]) for point in marks(content, "name", "ndcg@K")]
        assert ("slatk, trained for each K", "0.108") in shown  # SL@5 at 5, Health
        assert content.title.endswith("as published")
        heat = [figure.title for figure in table3["K of training against K of the metric"].figures]
        assert heat == [f"amazon2014-health, mf, {loss}: ndcg@K" for loss in ("song_at_k", "slatk")]
        assert not [title for title in heat if "published" in title]  # it prints the diagonal alone

    def test_shapes_do_not_meet_a_colour_twice(self, table3: dict[str, Section]) -> None:
        figure = table3["Metric against K"].figures[0]
        points = re.findall(
            r'name: ([^";]*)[^>]*aria-roledescription="point"[^>]* d="([^"]*)"[^>]* fill="([^"]*)"', figure.svg
        )
        looks = {(shape, colour): name for name, shape, colour in points}
        assert sorted(looks.values()) == sorted({name for name, _, _ in points})
        assert len(looks) == 10


class TestDuringTraining:
    def logged(self, folder: Path, spec: Spec, line: Callable[[Cell, int], dict[str, float]], ends: int) -> None:
        for number, cell in enumerate(cells(spec)):
            (folder / f"{number}").mkdir()
            epochs = range(1, ends + 2 * cell.seed + 1)
            text = "".join(json.dumps({"epoch": epoch, **line(cell, epoch)}) + "\n" for epoch in epochs)
            (folder / f"{number}" / "log.jsonl").write_text(text)

    def test_learning_curves_are_means_over_seeds(self, tmp_path: Path) -> None:
        spec = spec_of(losses=["sl"])
        self.logged(
            tmp_path, spec, lambda cell, epoch: {"seconds": epoch, "valid ndcg": 0.1 * epoch + 0.02 * cell.seed}, 3
        )
        (figure,) = sections(spec, results_of(spec, lambda cell, k: 0.1), tmp_path)["Learning curves"].figures
        (label,) = re.findall(
            r'aria-label="([^"]*)" role="graphics-symbol" aria-roledescription="line mark"', figure.svg
        )
        assert label.startswith("epoch: 1; ndcg@20 on validation: 0.11;")  # (0.1 + 0.12) / 2
        (path,) = re.findall(r'aria-roledescription="line mark"[^>]* d="([^"]*)"', figure.svg)
        assert path.count("L") == 2  # three epochs: the second seed went on alone

    def test_time_is_relative_to_the_fastest(self, tmp_path: Path) -> None:
        spec = spec_of(losses=["bpr", "sl", "slatk"])
        second = {"bpr": 0.5, "sl": 2.0, "slatk": 3.0}
        self.logged(tmp_path, spec, lambda cell, epoch: {"seconds": epoch * second[cell.loss]}, 3)
        found = sections(spec, results_of(spec, lambda cell, k: 0.1), tmp_path)["Time"].figures[0]
        shown = {point["name"]: float(point["mean"]) for point in marks(found, "name", "mean")}
        assert "time of an epoch (sl = 1)" in found.svg
        assert shown == {"bpr (0.5 s)": 0.25, "sl (2 s)": 1.0, "slatk (3 s)": 1.5}
        spec = spec_of(losses=["bpr", "slatk"])
        results = results_of(spec, lambda cell, k: 0.1)
        other = tmp_path / "other"
        other.mkdir()
        self.logged(other, spec, lambda cell, epoch: {"seconds": epoch * second[cell.loss]}, 3)
        assert "time of an epoch (bpr = 1)" in sections(spec, results, other)["Time"].figures[0].svg
