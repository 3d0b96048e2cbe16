"""Published figures: what is looked up is what the tables say."""

import csv
import re
from importlib.resources import files
from pathlib import Path

import pytest

from shortlist.bench import TABLES, Published
from shortlist.errors import InputError

FIGURES = {
    "slatk_table02_top20": {},
    "slatk_table03_ndcg_varying_k": {},
    "slatk_table04_train_k_vs_metric_k": {},
    "slatk_table06_seqrec": {},
    "slatk_table18_lambda_losses": {},
    "llpauc_table01_clean": {"training": "clean"},
    "llpauc_table02_noise": {"training": "noise"},
    "llpauc_table05_ltr_methods": {},
    "croloss_table02_comparison": {},
    "croloss_table03_kernels_alpha": {},
    "croloss_table04_lambda_kernels": {},
}
TELLING = ("dataset", "training", "backbone", "loss", "train_k", "kernel", "lambda_kernel_phi1", "alpha")
OURS = {"NDCG": "ndcg", "Recall": "recall", "Hit": "hit_rate"}


def content(table: str) -> list[dict[str, str]]:
    text = (files("shortlist.bench") / "published" / f"{table}.csv").read_text(encoding="utf-8")
    return list(csv.DictReader(text.splitlines()))


@pytest.mark.parametrize("table", FIGURES)
def test_every_published_value_is_found(table: str) -> None:
    rows = content(table)
    published = Published(table, FIGURES[table])
    for row in rows:
        where = {name: row[name] for name in TELLING if row.get(name)}
        share = float(row["value"]) / (100 if row.get("unit") == "%" else 1)
        assert published.value(where, f"{OURS[row['metric']]}@{row['k']}") == share <= 1
    assert len(rows) > 10


def test_what_papers_say_in_their_text() -> None:
    """Three figures that the papers' own text names."""
    table = Published("slatk_table02_top20")
    place = {"dataset": "Health", "backbone": "MF"}
    assert table.value({**place, "loss": "SL@20"}, "ndcg@20") == 0.1390
    assert table.value({**place, "loss": "SL"}, "recall@20") == 0.1719
    assert table.value({**place, "loss": "SL"}, "recall@10") is None
    assert table.value({**place, "loss": "EASE"}, "ndcg@20") is None


def test_percentages_are_returned_as_fractions() -> None:
    """CROLoss prints recall in percent; Table 17 of SL@K has shares beside seconds."""
    table = Published("croloss_table02_comparison")
    assert table.value({"dataset": "Amazon", "loss": "cross-entropy loss"}, "recall@50") == pytest.approx(0.0968)
    table = Published("slatk_table17_lambdaloss_time")
    place = {"dataset": "MovieLens", "backbone": "MF", "loss": "LambdaLoss@20"}
    assert table.value(place, "recall@20") == 0.3418


def test_other_units_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "slatk_table02_top20.csv").write_text("loss,metric,k,value,unit\nSL,NDCG,20,9,‰\n")
    monkeypatch.setattr("shortlist.bench.published._FOLDER", tmp_path)
    said = "published: slatk_table02_top20: expected values in %, s or no unit, received '‰'"
    with pytest.raises(InputError, match=re.escape(said)):
        Published("slatk_table02_top20")
    assert not Published("slatk_table02_top20", {"loss": "BPR"}).knows({})  # of which no row is asked for


def test_a_published_value_must_be_unique() -> None:
    table = Published("slatk_table03_ndcg_varying_k")
    with pytest.raises(InputError, match=r"expected one value of slatk_table03_ndcg_varying_k .*, received "):
        table.value({"dataset": "Health"}, "ndcg@20")


def test_tables_and_columns_by_name() -> None:
    assert "slatk_table02_top20" in TABLES
    with pytest.raises(InputError, match="published: unknown table 'slatk_table02'"):
        Published("slatk_table02")
    with pytest.raises(InputError, match=r"unknown column 'loses'; did you mean 'loss'\?"):
        Published("slatk_table02_top20").value({"loses": "SL"}, "ndcg@20")
