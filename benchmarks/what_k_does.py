"""What K does in each form of SL@K: metrics at several list lengths, and the overlap of the lists of different K.

Trains MF on a set with K = 5, 20 and 100 in each form, all else equal (the settings of SL@K's Table 2), and reports
test NDCG@5, @20 and @100 and the share of top-20 items that the lists of two K have in common::

    python benchmarks/what_k_does.py --write docs/results
"""

from __future__ import annotations

import json
import tempfile
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import torch

from _common import DATA, parser, show
from shortlist.data import LoadOptions, load
from shortlist.experiment import fit, plan
from shortlist.ranking import top_k
from shortlist.report.theme import PALETTE
from shortlist.runs import evaluate_split

KS = (5, 20, 100)
FORMS: dict[str, tuple[str, dict[str, Any]]] = {
    "published, τ_w = 10 τ": ("slatk", {}),
    "detached, τ_w = 12.5 τ": ("slatk_detached", {}),
    "detached, τ_w = 2.5 τ": ("slatk_detached", {"tau_w": 0.5}),
    "detached, τ_w = τ": ("slatk_detached", {"tau_w": 0.2}),
    "detached, τ_w = τ/2": ("slatk_detached", {"tau_w": 0.1}),
}
TAU = 0.2


def measured(data: str, epochs: int, form: str, seed: int) -> dict[str, float]:
    """NDCG at each length by each K, and overlaps of the top 20."""
    name, settings = FORMS[form]
    split = load(DATA / data, LoadOptions(protocol="irbenchmark", seed=seed))
    found: dict[str, float] = {}
    lists = {}
    for k in KS:
        values: dict[str, dict[str, object]] = {
            "loss": {"tau": TAU, **settings},
            "training": {"epochs": epochs, "temperature_epochs": 0, "metric": "ndcg@20"},
        }
        with tempfile.TemporaryDirectory() as folder:
            config = {"seed": seed, "protocol": "irbenchmark", "data": {}}
            model = fit(plan("mf", name, k=k, values=values), split, Path(folder) / "run", config=config).run.model
        test = evaluate_split(model, split, ks=KS).test_means()
        found |= {f"K={k} ndcg@{at}": test[f"ndcg@{at}"] for at in KS}
        everyone = np.arange(split.train.n_users)
        lists[k] = top_k(model, everyone, k=20, exclude=split.train).items_RK
    for one, other in combinations(KS, 2):
        same = [len(np.intersect1d(a, b)) for a, b in zip(lists[one], lists[other], strict=True)]
        found[f"overlap {one}, {other}"] = float(np.mean(same)) / 20
    return found


def mean(rows: list[dict[str, float]]) -> dict[str, float]:
    """Of several seeds."""
    return {name: round(float(np.mean([row[name] for row in rows])), 4) for name in rows[0]}


def draw(table: dict[str, dict[str, float]], path: Path) -> None:
    """The overlap of lists by form, one bar for each two K."""
    import altair as alt

    pairs = [f"K = {one} and {other}" for one, other in combinations(KS, 2)]
    rows = [
        {"form": form, "lists": label, "share": 100 * row[f"overlap {one}, {other}"]}
        for form, row in table.items()
        for label, (one, other) in zip(pairs, combinations(KS, 2), strict=True)
    ]
    chart = alt.Chart(alt.InlineData(values=rows), width=560, height=220).mark_bar()
    chart.encode(
        x=alt.X("form:N", title=None, sort=list(table)).axis(labelAngle=0),
        xOffset=alt.XOffset("lists:N", sort=pairs),
        y=alt.Y("share:Q", title="items in common, % of top 20").scale(domain=[0, 100]),
        color=alt.Color("lists:N", title=None, sort=pairs).scale(domain=pairs, range=list(PALETTE[:3])),
    ).save(path)


def main() -> None:
    arguments = parser("What K does in each form of SL@K.")
    arguments.add_argument("--data", default="amazon2014-health", help="name of the set")
    arguments.add_argument("--seeds", type=int, nargs="+", default=[0, 1])
    arguments.add_argument("--epochs", type=int, default=100, help="epochs at most; patience decides")
    arguments.add_argument("--write", type=Path, help="folder for what-k-does.json and what-k-does.svg")
    chosen = arguments.parse_args()
    torch.set_num_threads(chosen.threads)
    table = {}
    for form in FORMS:
        table[form] = mean([measured(chosen.data, chosen.epochs, form, seed) for seed in chosen.seeds])
    show({"data": chosen.data, "seeds": chosen.seeds, "tau": TAU, "forms": table}, chosen.json)
    if chosen.write is not None:
        facts = {"data": chosen.data, "seeds": chosen.seeds, "tau": TAU, "forms": table}
        (chosen.write / "what-k-does.json").write_text(json.dumps(facts, indent=1, ensure_ascii=False) + "\n")
        draw(table, chosen.write / "what-k-does.svg")


if __name__ == "__main__":
    main()
