"""The page of a run: its values against loops over floats, what it says where it has none, and a real browser."""

import html
import json
import math
import re
import shutil
import statistics
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import torch

from browser import browse, ink_in_colour, needs_browser
from command import Command
from shortlist.cli import run as command
from shortlist.data import Interactions, Split
from shortlist.losses import SmoothNDCG
from shortlist.models import Popularity, TrainableModel
from shortlist.recommend import recommend
from shortlist.report import Figure, Page, Section, lines, render
from shortlist.report.page import Table
from shortlist.report.run import run_page, score_analysis
from shortlist.report.run.context import Subject
from shortlist.report.run.run_charts import epochs
from shortlist.report.run.scores import gradient_section
from shortlist.runs import Fitted, Run, evaluate_split, open_run, write_run
from shortlist.tasks import Collaborative
from shortlist.training import TrainingSettings

K = 5
TITLES = {
    "Training",
    f"Metrics at K = {K}",
    "Metrics against K",
    "Learning",
    "By user activity and item popularity",
    f"The Top-{K} threshold",
    "Weights of positives",
    "Concentration of the gradient",
    "Example lists",
    "Every metric at every K",
    "Settings",
}


NAMES = {str(1000 + item): f"thing <{item}>" for item in range(40)}


def trained(clicks: Path, folder: Path, *more: str) -> Run:
    settings = {"model.dim": 8, "training.epochs": 4, "training.validate_every": 2, "training.batch": 16,
                "training.beat_popularity": "false", "training.temperature_epochs": 0,
                "optimizer.lr": 0.05}  # fmt: skip
    flags = [f"--set={key}={value}" for key, value in settings.items()]
    assert command(["train", str(clicks), "--k", str(K), *flags, *more, "--out", str(folder), "--json"]) == 0
    return open_run(folder)


@pytest.fixture(scope="module")
def slatk(clicks: Path, tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder = tmp_path_factory.mktemp("slatk") / "slatk"
    return trained(clicks, folder, "--loss", "slatk_detached", "--set=loss.tau_w=0.3", "--set=loss.refresh=2")


@pytest.fixture(scope="module")
def page(slatk: Run) -> Page:
    return run_page(slatk, NAMES)


@pytest.fixture(scope="module")
def file(page: Page, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("page") / "run.html"
    path.write_text(render(page), encoding="utf-8")
    return path


def section(page: Page, title: str) -> Section:
    return next(each for each in page.sections if each.title == title)


def figure(page: Page, title: str) -> Figure:
    return next(each for section in page.sections for each in section.figures if each.title == title)


def rows(table: Table | None) -> list[list[str]]:
    assert table is not None
    return [[cell.text for cell in row] for row in table.cells()]


def marks(svg: str) -> list[dict[str, str]]:
    """What the marks of a picture say they stand for: a browser reads the same to those who do not see it."""
    labels = re.findall(r'aria-label="([^"]*)" role="graphics-symbol" aria-roledescription="[^"]*"', svg)
    found = [dict(part.split(": ", 1) for part in html.unescape(label).split("; ")) for label in labels]
    assert found
    return found


def scores_of(run: Run, user: int) -> list[float]:
    found: list[float] = run.model.score(np.array([user]))[0].tolist()
    return found


def known_to(run: Run, user: int) -> set[int]:
    return {item for part in run.measured_exclusions for item in part.row(user).tolist()}


def listed(run: Run, user: int, k: int) -> list[int]:
    """The K best items, by sorting in Python."""
    score, known = scores_of(run, user), known_to(run, user)
    return sorted((item for item in range(len(score)) if item not in known), key=lambda i: (-score[i], i))[:k]


# --------------------------------------------------------------------------------------------------------------- values


def test_figures_are_those_of_loops(slatk: Run, page: Page) -> None:
    test = slatk.split.test
    assert test is not None
    ndcgs, recalls = [], []
    for user in range(test.n_users):
        wanted = set(test.row(user).tolist())
        if wanted:
            places = [place for place, item in enumerate(listed(slatk, user, K), start=1) if item in wanted]
            ideal = sum(1 / math.log2(1 + place) for place in range(1, min(K, len(wanted)) + 1))
            ndcgs.append(sum(1 / math.log2(1 + place) for place in places) / ideal)
            recalls.append(len(places) / len(wanted))
    (table,) = section(page, f"Metrics at K = {K}").tables
    content = {row[0]: row for row in rows(table)}
    for label, values in ((f"NDCG@{K}", ndcgs), (f"Recall@{K}", recalls)):
        mean = statistics.mean(values)
        assert float(content[label][1]) == pytest.approx(mean, abs=6e-5)
        low, high = (float(text) for text in content[label][2].split(" – "))
        error = statistics.stdev(values) / math.sqrt(len(values))
        assert low == pytest.approx(mean - 1.96 * error, abs=error / 2)  # the bootstrap's are near the normal ones
        assert high == pytest.approx(mean + 1.96 * error, abs=error / 2)
        axis = f"{label[:-2]}@K"
        curve = [mark for mark in marks(figure(page, f"{axis} against K").svg) if "high" not in mark]  # not the band
        drawn = next(mark for mark in curve if mark["K, length of the list"] == str(K) and mark["name"] == "test")
        assert float(drawn[axis]) == pytest.approx(mean, abs=1e-6)
    valid = {row[0]: row for row in rows(table)}[f"NDCG@{K}"]
    assert float(valid[3]) == pytest.approx(slatk.metrics["valid"][f"ndcg@{K}"], abs=6e-5)
    low, high = (float(text) for text in valid[4].split(" – "))
    assert low < float(valid[3]) < high


def test_every_metric_at_every_k(slatk: Run, page: Page) -> None:
    (table,) = section(page, "Every metric at every K").tables
    assert table.live
    content = {f"{row[0]}@{row[1]}": row[2] for row in rows(table)}
    assert content == {name: f"{value:.4f}" for name, value in slatk.metrics["test"].items()}


def test_learning_is_what_the_log_holds(slatk: Run, page: Page) -> None:
    log = [json.loads(line) for line in (slatk.folder / "log.jsonl").read_text().splitlines()]
    epochs = [line for line in log if "epoch" in line]
    for title, column, expected in (
        ("Loss", "loss on training", {line["epoch"]: line["loss"] for line in epochs}),
        ("Validation", f"ndcg@{K} on validation", {e["epoch"]: e["valid ndcg"] for e in epochs if "valid ndcg" in e}),
    ):
        drawn = [mark for mark in marks(figure(page, title).svg) if column in mark]
        points = {int(mark["epoch"]): float(mark[column]) for mark in drawn}
        assert points == pytest.approx(expected, rel=1e-6)
    assert {"at": str(slatk.metrics["epochs"])} in marks(figure(page, "Validation").svg)
    took = {int(m["epoch"]): float(m["seconds of an epoch"]) for m in marks(figure(page, "Seconds").svg)}
    assert sum(took.values()) == pytest.approx(epochs[-1]["seconds"], abs=2e-3)


def axis(svg: str, side: str) -> tuple[float, float]:
    """From where to where an axis of a picture reaches."""
    found = re.search(rf"{side}-axis titled [^\"]* with values from ([\d.]+) to ([\d.]+)", svg)
    assert found is not None
    return float(found[1]), float(found[2])


def test_pictures_of_epochs_have_one_axis(page: Page) -> None:
    assert {axis(figure(page, title).svg, "X") for title in ("Loss", "Validation", "Seconds")} == {(1, 4)}


def test_the_scale_of_a_single_value_starts_at_0() -> None:
    svg = epochs(pl.DataFrame({"epoch": [4], "value": [0.37]}), title="ndcg on validation", last=4, kept=4)
    low, high = axis(svg, "Y")
    assert low == 0 < 0.37 <= high
    assert axis(svg, "X") == (1, 4)


def named_epochs(svg: str) -> list[str]:
    """The numbers below a picture of epochs."""
    marks = svg.split("X-axis titled")[1].split("role-axis-title")[0]
    return re.findall(r">(\d+)</text>", marks)


@pytest.mark.parametrize("last", [1, 2, 3, 4, 7, 10])
def test_few_epochs_are_named_once_each(last: int) -> None:
    values = pl.DataFrame({"epoch": range(1, last + 1), "value": [0.1 * n for n in range(last)]})
    whole = [str(epoch) for epoch in range(1, last + 1)]
    assert named_epochs(epochs(values, title="loss", last=last, kept=last)) == whole
    several = values.select(name=pl.lit("sl"), at="epoch", value="value")
    assert named_epochs(lines(several, title="ndcg", axis="epoch")) == whole


def test_many_epochs_are_not_all_named() -> None:
    named = named_epochs(epochs(pl.DataFrame({"epoch": [1, 60], "value": [0.1, 0.2]}), title="loss", last=60))
    assert len(named) == len(set(named)) < 20
    assert "60" in named


def test_gradients_are_those_of_the_epoch_that_was_kept(slatk: Run) -> None:
    """A width that halves twice until the third epoch is a quarter."""
    assert isinstance(slatk.model, TrainableModel)
    settings, train = TrainingSettings(candidates="pairs", negatives=5, batch=50), slatk.split.train
    sizes = [
        score_analysis.gradients(slatk.model, loss, train, settings, None, 3, 0)
        for loss in (SmoothNDCG(sigma=0.4, anneal=0.5), SmoothNDCG(sigma=0.1), SmoothNDCG(sigma=0.4))
    ]
    assert torch.equal(sizes[0], sizes[1])
    assert not torch.allclose(sizes[0], sizes[2])


def test_a_gradient_that_is_no_number(slatk: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    for size, said in ((math.nan, "not finite everywhere"), (0.0, "none receives a gradient")):
        found = torch.full((3,), size)
        monkeypatch.setattr("shortlist.report.run.scores.gradients", lambda *_, found=found: found)
        (text,) = gradient_section(Subject(slatk, {}, 0)).texts
        assert said in text


def test_groups_of_users(slatk: Run, page: Page) -> None:
    activity = {str(user): int(count) for user, count in enumerate(slatk.split.train.user_counts())}
    ids = slatk.users.values.to_list()
    values = dict(zip(slatk.per_user["user_id"].to_list(), slatk.per_user[f"ndcg@{K}"].to_list(), strict=True))
    table = rows(figure(page, "By the user's activity").table)
    assert sum(int(row[1].replace(",", "")) for row in table) == slatk.metrics["users"]
    for group, users, ndcg, _ in table:
        low, _, high = group.partition("–")
        inside = [values[ids[int(u)]] for u, n in activity.items() if int(low) <= n <= int(high or low)]
        assert len(inside) == int(users)
        assert float(ndcg) == pytest.approx(statistics.mean(inside), abs=6e-5)


def test_groups_of_items(slatk: Run, page: Page) -> None:
    test, counts = slatk.split.test, slatk.split.train.item_counts().tolist()
    assert test is not None
    lists = {user: listed(slatk, user, K) for user in range(test.n_users) if len(test.row(user))}
    places = sum(len(items) for items in lists.values())
    for group, items, pairs, recall, share in rows(figure(page, "By the item's popularity").table):
        low, _, high = group.partition("–")
        band = {item for item, count in enumerate(counts) if int(low) <= count <= int(high or low)}
        wanted = [(user, item) for user in lists for item in test.row(user).tolist() if item in band]
        found = sum(item in lists[user] for user, item in wanted)
        assert (int(items), int(pairs)) == (len(band), len(wanted))
        assert float(recall) == pytest.approx(found / len(wanted), abs=6e-5)
        taken = sum(item in band for chosen in lists.values() for item in chosen)
        assert float(share.rstrip("%")) == pytest.approx(100 * taken / places, abs=0.06)


def test_scores_thresholds_and_weights(slatk: Run, page: Page) -> None:
    """β, ranks and weights of every user and positive, by sorting and counting."""
    found = Subject(slatk, {}, 0).scores
    train, test, place = slatk.split.train, slatk.split.test, 0
    assert test is not None
    assert sorted(found.users_R.tolist()) == list(range(train.n_users))
    held: list[float] = []
    for row, user in enumerate(found.users_R.tolist()):
        score = scores_of(slatk, user)
        beta = sorted(score, reverse=True)[K - 1]
        assert float(found.threshold_R[row]) == pytest.approx(beta, abs=1e-6)
        for item in train.row(user).tolist():
            assert float(found.pos_P[place]) == pytest.approx(score[item], abs=1e-6)
            assert int(found.rank_P[place]) == sum(other >= score[item] for other in score)
            assert found.weight_P is not None
            assert float(found.weight_P[place]) == pytest.approx(
                1 / (1 + math.exp((beta - score[item]) / 0.3)), abs=1e-6
            )
            assert int(found.row_P[place]) == row
            place += 1
        held += [score[item] for item in test.row(user).tolist()]
    assert place == len(found.pos_P) == train.n_pairs
    assert found.held_H.tolist() == pytest.approx(held, abs=1e-6)
    met = train.n_pairs + test.n_pairs + (slatk.split.valid.n_pairs if slatk.split.valid else 0)
    share = met / (train.n_users * train.n_items)  # of the draws, about so many had been met and are left out
    assert len(found.neg_M) == pytest.approx(train.n_users * score_analysis.NEGATIVES * (1 - share), rel=0.05)

    content = {row[0]: row for row in rows(figure(page, "Distribution of scores and thresholds").table)}
    assert float(content["threshold β"][3]) == pytest.approx(float(np.median(found.threshold_R.numpy())), abs=6e-5)
    assert content["in training"][1] == f"{train.n_pairs:,}"
    assert found.weight_P is not None
    bars = marks(figure(page, "Distribution of weights").svg)
    for bar in bars:
        low_w, high_w = (float(text) for text in bar["weight w"].split(" – "))
        inside = [weight for weight in found.weight_P.tolist() if low_w <= weight < high_w]
        told_share = float(bar["share of positives"].rstrip("%")) / 100
        assert told_share == pytest.approx(len(inside) / train.n_pairs, abs=1e-7)
    assert len(bars) == 40
    for group, count, low, mid, high in rows(figure(page, "Weights by rank").table):
        begin, _, end = group.partition("–")
        pairs = zip(found.rank_P.tolist(), found.weight_P.tolist(), strict=True)
        here = sorted(w for rank, w in pairs if int(begin) <= rank <= int(end or begin))
        assert int(count) == len(here)
        assert float(mid) == pytest.approx(statistics.median(here), abs=6e-5)
        assert float(low) <= float(mid) <= float(high)
        if int(end or begin) <= K:
            assert float(low) >= 0.5


def test_outlines_by_counting() -> None:
    kinds = {"a": torch.tensor([0.0, 0.1, 0.1, 0.9, 1.0]), "b": torch.tensor([0.5, -math.inf])}
    drawn = score_analysis.outlines(kinds, bins=4)
    low, high = np.quantile([0.0, 0.1, 0.1, 0.9, 1.0], [0.001, 0.999])
    assert drawn.filter(name="a")["y"].to_list() == pytest.approx([1, 0, 0, 2 / 3])
    assert drawn.filter(name="b")["y"].to_list() == [0, 0, 1, 0] or drawn.filter(name="b")["y"].to_list() == [
        0,
        1,
        0,
        0,
    ]
    assert drawn["x"][0] == pytest.approx(low + (high - low) / 8, abs=1e-6)
    assert score_analysis.outlines({"a": torch.tensor([-math.inf])}).is_empty()
    assert score_analysis.outlines({"a": torch.ones(3)})["y"].sum() == 1


def test_estimates_by_sorting(slatk: Run, page: Page) -> None:
    """Monte Carlo thresholds of every user from the same draws, worked with lists; and the error that is told."""
    users, n_items = np.arange(20), len(slatk.items.values)
    found = score_analysis.estimates(slatk.model, slatk.split.train, users, K, 30, seed=0)
    errors = []
    for draw in range(score_analysis.DRAWS):
        drawn = torch.randint(n_items, (30,), generator=torch.Generator().manual_seed(1000 * draw)).tolist()
        off = []
        for user in users.tolist():
            score = scores_of(slatk, user)
            sampled = sorted((score[item] for item in drawn), reverse=True)
            off.append(abs(sampled[math.ceil(30 * K / n_items) - 1] - sorted(score, reverse=True)[K - 1]))
        errors.append(statistics.mean(off))
    assert found.judged["monte_carlo", 30].error == pytest.approx(statistics.mean(errors), abs=1e-6)
    assert found.judged["positives_kept", 30].bias <= 0
    table = rows(figure(page, "Error of estimated thresholds").table)
    points = marks(figure(page, "Error of estimated thresholds").svg)
    for name, size, error, *_ in table:
        drawn_at = [m for m in points if m["name"] == name and m["N, items sampled"] == size]
        assert float(drawn_at[-1]["mean |β̂ − β|"]) == pytest.approx(float(error), abs=6e-5)
    assert {row[0] for row in table} == set(score_analysis.SAMPLED)


def test_gradients_by_formula(slatk: Run, page: Page) -> None:
    """With the weight detached the pull on a positive is w·c/τ, at exact thresholds: the curve is made of these."""
    config, sizes = slatk.config["loss"], []
    for user in range(slatk.split.train.n_users):
        score = scores_of(slatk, user)
        beta = sorted(score, reverse=True)[K - 1]
        for item in slatk.split.train.row(user).tolist():
            sizes.append(
                config["positive_weight"] / config["tau"] / (1 + math.exp((beta - score[item]) / config["tau_w"]))
            )
    sizes.sort(reverse=True)
    for top, share in rows(figure(page, "Share of the gradient that the top positives carry").table):
        count = max(1, round(float(top.rstrip("%")) / 100 * len(sizes)))
        assert float(share.rstrip("%")) == pytest.approx(100 * sum(sizes[:count]) / sum(sizes), abs=0.06)


def test_lists_are_those_of_recommend(slatk: Run, page: Page) -> None:
    found = section(page, "Example lists")
    test, train = slatk.split.test, slatk.split.train
    assert test is not None
    assert len(found.tables) == 4
    activities = []
    for table in found.tables:
        name = table.caption.split(",")[0]
        user = slatk.users.index(name)
        activities.append(len(train.row(user)))
        assert f"{activities[-1]} items in training" in table.caption
        assert all(str(train.item_ids[int(item)]) in table.note for item in train.row(user))
        lists = recommend(slatk, [name], 10, filter_seen="measured")
        held_out = {str(test.item_ids[int(item)]) for item in test.row(user)}
        for (place, item, score, title), row in zip(rows(table), lists.iter_rows(named=True), strict=True):
            assert (int(place), item.removesuffix(" ✓"), score) == (
                row["rank"],
                str(row["item_id"]),
                f"{row['score']:.4f}",
            )
            assert item.endswith("✓") == (str(row["item_id"]) in held_out)
            assert title == f"thing <{row['item_id'] - 1000}>"
    assert activities == sorted(activities)


def test_settings_that_were_changed_are_marked(page: Page) -> None:
    (table,) = section(page, "Settings").tables
    marked = {row[0].text: row[1].text for row in table.cells() if row[1].mark}
    assert marked["loss.tau_w"] == "0.3"
    assert marked["training.epochs"] == "4"
    assert "loss.positive_weight" not in marked


# ---------------------------------------------------------------------------------------------------- what is not there


def test_all_sections_have_alternative_texts(page: Page) -> None:
    assert {each.title for each in page.sections} == TITLES
    for each in page.sections:
        assert each.tables or each.figures
        for drawn in each.figures:
            assert drawn.alt
            assert len(drawn.caption) > 60


def test_sections_without_content_of_a_baseline(ease: Path) -> None:
    page = run_page(open_run(ease), {})
    assert section(page, "Learning").texts == ["ease is fitted without epochs."]
    for title in ("Weights of positives", "Concentration of the gradient"):
        assert section(page, title).texts[0].startswith("ease is fitted without a loss.")
        assert not section(page, title).figures
    threshold = next(each for each in page.sections if each.title.startswith("The Top-"))
    assert [each.title for each in threshold.figures] == ["Distribution of scores and thresholds"]
    assert "not evaluated" in threshold.texts[1]


def test_a_loss_without_thresholds(clicks: Path, tmp_path: Path) -> None:
    page = run_page(trained(clicks, tmp_path / "sl", "--loss", "sl", "--valid-share", "0"), {})
    assert section(page, "Weights of positives").texts[0].startswith("The loss sl does not use thresholds.")
    table = rows(figure(page, "Share of the gradient that the top positives carry").table)
    assert ["50%", "50.0%"] in table  # all positives are pulled alike
    assert "There is no validation part: the last epoch was kept." in section(page, "Learning").texts
    assert rows(section(page, f"Metrics at K = {K}").tables[0])[0][3:] == ["–", ""]


def test_drawn_negatives_and_losses_that_remember(clicks: Path, tmp_path: Path) -> None:
    page = run_page(trained(clicks, tmp_path / "sog", "--loss", "sogslatk", "--set=training.candidates=pairs"), {})
    assert figure(page, "Share of the gradient that the top positives carry").svg.startswith("<svg")
    assert any("a run does not store" in text for text in section(page, "Concentration of the gradient").texts)
    assert section(page, "Weights of positives").figures


def test_a_run_without_test_and_validation(tmp_path: Path) -> None:
    train = Interactions.from_pairs([0, 0, 1, 1], [0, 1, 1, 2], user_ids=["ann", "bob"], item_ids=["x", "y", "z"])
    split, model = Split(train, None, None), Popularity()
    model.fit(train)
    fitted = Fitted(
        model,
        "popularity",
        Collaborative(split),
        evaluate_split(model, split),
        sections={"protocol": "shortlist"},
        seconds={},
    )
    run = write_run(tmp_path / "bare", fitted)
    page = run_page(run, {})
    content = [text for each in page.sections for text in each.texts if "no test items" in text or "neither" in text]
    assert len(content) == 5
    assert page.title == "popularity on data of a program"
    assert "<svg" in render(page)


def test_a_loss_that_is_not_installed_any_more(slatk: Run, tmp_path: Path) -> None:
    shutil.copytree(slatk.folder, tmp_path / "run")
    config = json.loads((tmp_path / "run" / "config.json").read_text())
    config["loss"]["name"] = "elsewhere"
    (tmp_path / "run" / "config.json").write_text(json.dumps(config))
    (tmp_path / "run" / "manifest.json").unlink()
    page = run_page(open_run(tmp_path / "run"), {})
    assert "is unknown" in section(page, "Concentration of the gradient").texts[0]
    assert section(page, "Learning").figures


def test_large_catalogues_are_sampled_with_a_note(slatk: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(score_analysis, "FEWEST", 10)
    monkeypatch.setattr("shortlist.report.run.context.LOOKED_AT", 400)
    for module in ("metric_sections", "breakdown"):
        monkeypatch.setattr(f"shortlist.report.run.{module}.RANKED", 800)
    monkeypatch.setattr("shortlist.report.run.breakdown.FEWEST", 20)
    page = run_page(slatk, {})
    assert (
        "for 10 of 60 users with items in training (drawn at random)"
        in section(page, f"The Top-{K} threshold").texts[0]
    )
    assert "20 of the 60 users were ranked again" in section(page, "By user activity and item popularity").texts[0]
    assert "no intervals here" in section(page, f"Metrics at K = {K}").texts[1]
    pairs = sum(int(row[2]) for row in rows(figure(page, "By the item's popularity").table))
    assert slatk.split.test is not None
    assert 0 < pairs < slatk.split.test.n_pairs


def test_the_same_seed_gives_the_same_page(slatk: Run, page: Page) -> None:
    again, other = (run_page(open_run(slatk.folder), NAMES, seed=seed) for seed in (0, 4))
    assert render(again) == render(page)
    for title in (f"The Top-{K} threshold", "Example lists"):
        assert section(other, title) != section(page, title)


# ---------------------------------------------------------------------------------------------------------- the command


def test_the_command(shortlist: Command, slatk: Run, clicks: Path, tmp_path: Path) -> None:
    """A run that was carried elsewhere, its data gone, tells the same."""
    shutil.copytree(slatk.folder, tmp_path / "carried")
    config = json.loads((tmp_path / "carried" / "config.json").read_text())
    config["data"]["source"] = "gone/clicks.csv"
    (tmp_path / "carried" / "config.json").write_text(json.dumps(config))
    (tmp_path / "carried" / "manifest.json").unlink()
    names = tmp_path / "names.csv"
    names.write_text("item_id,title\n" + "".join(f"{1000 + item},A thing & {item}\n" for item in range(40)))
    out = tmp_path / "page.html"
    answer = shortlist("report", tmp_path / "carried", "--names", names, "--out", out, "--json")
    assert answer.code == 0, answer.err
    assert {each["title"] for each in answer.json["sections"]} == TITLES
    text = out.read_text(encoding="utf-8")
    assert "A thing &amp; " in text
    assert "mf with slatk_detached on gone/clicks.csv" in text


def test_the_command_prints_sections_without_content(shortlist: Command, ease: Path, tmp_path: Path) -> None:
    answer = shortlist("report", ease, "--out", tmp_path / "page.html")
    assert "Learning: ease is fitted without epochs" in answer.out
    assert f"Page: {tmp_path / 'page.html'}" in answer.out


@pytest.mark.parametrize(
    ("make", "line"),
    [
        (lambda tmp, ease: (tmp / "none", "page.html", []), "expected the folder of a run, received nothing"),
        (lambda tmp, ease: (tmp, "page.html", []), "received one without config.json"),
        (lambda tmp, ease: (ease, "page.pdf", []), "ends in .html"),
        (lambda tmp, ease: (ease, "page.html", ["--names", tmp / "no.csv"]), "no.csv: expected a table of titles"),
        (lambda tmp, ease: (ease, "page.html", ["--names", tmp / "no.txt"]), "received '.txt'"),
        (lambda tmp, ease: (ease, "page.html", ["--names", written(tmp, "a,b\n1,2\n")]), "expected an item column"),
        (lambda tmp, ease: (ease, "page.html", ["--names", written(tmp, "item,b\n1,2\n")]), "a column title or name"),
    ],
)
def test_one_clear_line(
    shortlist: Command, ease: Path, tmp_path: Path, make: Callable[..., tuple[Path, str, list[object]]], line: str
) -> None:
    folder, out, more = make(tmp_path, ease)
    answer = shortlist("report", folder, "--out", tmp_path / out, *more)
    assert (answer.code, answer.out) == (2, "")
    assert answer.err.count("\n") == 1
    assert line in answer.err
    assert not (tmp_path / out).exists()


def written(folder: Path, text: str) -> Path:
    (folder / "names.csv").write_text(text)
    return folder / "names.csv"


def test_titles_of_a_parquet_table(tmp_path: Path) -> None:
    from shortlist.data.titles import item_titles

    pl.DataFrame({"movieId": [1, 2], "Title": ["Heat", None]}).write_parquet(tmp_path / "movies.parquet")
    assert item_titles("anything", tmp_path / "movies.parquet") == {"1": "Heat"}
    assert item_titles("anything") == {}


# ---------------------------------------------------------------------------------------------------------- the browser


def test_the_page_needs_nothing_else(file: Path) -> None:
    text = file.read_text(encoding="utf-8")
    addresses = set(re.findall(r"(?:https?:)?//[\w.]+", re.sub(r"(?s)<script>.*?</script>", "", text)))
    assert addresses <= {"http://www.w3.org"}  # the name of a format
    assert not re.search(r"(?:src|href)=\"(?!#|data:)", text)
    assert "thing &lt;" in text
    assert "thing <" not in text
    assert text.count('role="img" aria-label="') == text.count("<figure>") == 14


def seen(file: Path, folder: Path, script: str, *flags: str) -> object:
    """What a script finds on the page in the browser."""
    copy = folder / "copy.html"
    whole = f"<script>document.title = JSON.stringify({script})</script></body>"
    copy.write_text(file.read_text(encoding="utf-8").replace("</body>", whole), encoding="utf-8")
    match = re.search(r"<title>(.*?)</title>", browse(copy, folder, *flags, "--dump-dom"), re.DOTALL)
    assert match is not None
    return json.loads(html.unescape(match[1]))


@needs_browser
class TestInABrowser:
    @pytest.mark.parametrize(("scheme", "paper"), [(1, (255, 255, 255)), (0, (0x14, 0x18, 0x1F))])
    def test_light_and_dark(self, file: Path, tmp_path: Path, scheme: int, paper: tuple[int, int, int]) -> None:
        assert ink_in_colour(file, tmp_path, scheme, paper, height=3000) > 300

    @pytest.mark.parametrize("width", [1200, 500])
    def test_nothing_is_wider_than_the_page(self, file: Path, tmp_path: Path, width: int) -> None:
        found = seen(file, tmp_path, "document.documentElement.scrollWidth", f"--window-size={width},900")
        assert isinstance(found, int)
        assert found <= width

    def test_every_picture_is_seen_and_its_numbers_unfold(self, file: Path, tmp_path: Path) -> None:
        script = """[...document.querySelectorAll("figure")].map((figure) => {
            const folded = figure.querySelector("details"), height = () => folded ? folded.offsetHeight : 0;
            const before = height();
            if (folded) folded.open = true;
            return [figure.querySelector("svg").getBoundingClientRect().height, before, height()];
        })"""
        found = seen(file, tmp_path, script, "--window-size=1200,900")
        assert isinstance(found, list)
        assert len(found) == 14
        assert all(height > 100 for height, _, _ in found)
        unfolded = [after - before for _, before, after in found if before]
        assert len(unfolded) == 9
        assert min(unfolded) > 40

    def test_the_settings_are_filtered(self, file: Path, tmp_path: Path) -> None:
        script = """(() => {
            const box = [...document.querySelectorAll(".live")].at(-1);
            const input = box.previousElementSibling.querySelector("input");
            input.value = "loss.tau_w";
            input.dispatchEvent(new Event("input"));
            const shown = [...box.querySelectorAll("tbody tr")].filter((row) => !row.hidden);
            return shown.map((row) => row.cells[1].innerText);
        })()"""
        assert seen(file, tmp_path, script) == ["10.0", "0.3"]

    def test_on_paper(self, file: Path, tmp_path: Path) -> None:
        browse(file, tmp_path, f"--print-to-pdf={tmp_path / 'page.pdf'}")
        assert (tmp_path / "page.pdf").read_bytes().startswith(b"%PDF")
        if reader := shutil.which("pdftotext"):
            answer = subprocess.run([reader, tmp_path / "page.pdf", "-"], capture_output=True, text=True, check=True)
            for word in ("Learning", "Concentration of the gradient", "thing <", "In training:"):
                assert word in answer.stdout
            for word in ("Show only rows", "The numbers"):
                assert word not in answer.stdout


def test_example_users_are_of_every_activity() -> None:
    from shortlist.report.run.examples import example_users

    activity = np.array([0, *range(1, 101)])
    for seed in range(5):
        chosen: Sequence[int] = example_users(activity, seed).tolist()
        assert [(user - 1) // 25 for user in chosen] == [0, 1, 2, 3]
    assert example_users(np.zeros(3, np.int64), 0).tolist() == []
