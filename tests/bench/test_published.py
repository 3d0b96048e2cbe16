"""Published figures: what is looked up is what the tables say."""

import csv
from importlib.resources import files

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
}
OURS = {"NDCG": "ndcg", "Recall": "recall", "Hit": "hit_rate"}


@pytest.mark.parametrize("table", FIGURES)
def test_every_figure_is_found(table: str) -> None:
    text = (files("shortlist.bench") / "published" / f"{table}.csv").read_text(encoding="utf-8")
    rows = list(csv.DictReader(text.splitlines()))
    published = Published(table, FIGURES[table])
    for row in rows:
        where = {name: row[name] for name in ("dataset", "training", "backbone", "loss", "train_k") if row.get(name)}
        assert published.value(where, f"{OURS[row['metric']]}@{row['k']}") == float(row["value"])
    assert len(rows) > 10


def test_what_papers_say_in_their_text() -> None:
    """Three figures that the papers' own text names."""
    table = Published("slatk_table02_top20")
    place = {"dataset": "Health", "backbone": "MF"}
    assert table.value({**place, "loss": "SL@20"}, "ndcg@20") == 0.1390
    assert table.value({**place, "loss": "SL"}, "recall@20") == 0.1719
    assert table.value({**place, "loss": "SL"}, "recall@10") is None
    assert table.value({**place, "loss": "EASE"}, "ndcg@20") is None


def test_a_figure_must_be_one() -> None:
    table = Published("slatk_table03_ndcg_varying_k")
    with pytest.raises(InputError, match=r"expected one figure of slatk_table03_ndcg_varying_k .*, received "):
        table.value({"dataset": "Health"}, "ndcg@20")


def test_tables_and_columns_by_name() -> None:
    assert "slatk_table02_top20" in TABLES
    with pytest.raises(InputError, match="published: unknown table 'slatk_table02'"):
        Published("slatk_table02")
    with pytest.raises(InputError, match=r"unknown column 'loses'; did you mean 'loss'\?"):
        Published("slatk_table02_top20").value({"loses": "SL"}, "ndcg@20")
