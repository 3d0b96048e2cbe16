"""Shortlist trains recommenders and rankers for the list that people are actually shown: the Top-K.

    import shortlist as sl

    split = sl.load(df, user="customer", item="sku", time="ts", split="last", seed=0)
    rec = sl.fit(split, model="mf", loss=sl.SLAtK(k=20))
    rec.recommend(["ann"], k=10)

A name is imported when it is first used, so that ``import shortlist`` is quick.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from shortlist.api import ComparisonTable, Metrics, Recommender, compare, evaluate, fit
    from shortlist.api import open_recommender as open
    from shortlist.data import Interactions, LoadOptions, Split, load
    from shortlist.errors import InputError, ShortlistError
    from shortlist.losses import (
        AUC,
        BCE,
        BPR,
        BSL,
        CCL,
        DNS,
        GBCE,
        LLPAUC,
        MSE,
        OPAUC,
        PSL,
        RCE,
        SL,
        SONG,
        TCE,
        WARP,
        AdvInfoNCE,
        ApproxNDCG,
        ARPLoss1,
        ARPLoss2,
        CROLoss,
        CROLossLambda,
        GuidedRec,
        Hinge,
        LambdaLossAtK,
        LambdaRank,
        ListMLE,
        ListNet,
        Loss,
        NDCGLoss1,
        NDCGLoss2,
        NDCGLoss2pp,
        NeuralNDCG,
        RankNet,
        SLAtK,
        SLAtKDetached,
        SmoothNDCG,
        SoftmaxV,
        SogCLR,
        SogSLAtK,
        SONGAtK,
        Talos,
        TopKThreshold,
    )
    from shortlist.models import (
        EASE,
        IALS,
        MF,
        NCF,
        ItemKNN,
        LightGCN,
        LightGCNpp,
        Model,
        Pooled,
        Popularity,
        SimGCL,
        SimpleX,
        XSimGCL,
    )
    from shortlist.training import OptimizerSettings, Training, TrainingSettings

__version__ = "0.1.0"

__all__ = [
    "AUC",
    "BCE",
    "BPR",
    "BSL",
    "CCL",
    "DNS",
    "EASE",
    "GBCE",
    "IALS",
    "LLPAUC",
    "MF",
    "MSE",
    "NCF",
    "OPAUC",
    "PSL",
    "RCE",
    "SL",
    "SONG",
    "TCE",
    "WARP",
    "ARPLoss1",
    "ARPLoss2",
    "AdvInfoNCE",
    "ApproxNDCG",
    "CROLoss",
    "CROLossLambda",
    "ComparisonTable",
    "GuidedRec",
    "Hinge",
    "InputError",
    "Interactions",
    "ItemKNN",
    "LambdaLossAtK",
    "LambdaRank",
    "LightGCN",
    "LightGCNpp",
    "ListMLE",
    "ListNet",
    "LoadOptions",
    "Loss",
    "Metrics",
    "Model",
    "NDCGLoss1",
    "NDCGLoss2",
    "NDCGLoss2pp",
    "NeuralNDCG",
    "OptimizerSettings",
    "Pooled",
    "Popularity",
    "RankNet",
    "Recommender",
    "SLAtK",
    "SLAtKDetached",
    "SONGAtK",
    "ShortlistError",
    "SimGCL",
    "SimpleX",
    "SmoothNDCG",
    "SoftmaxV",
    "SogCLR",
    "SogSLAtK",
    "Split",
    "Talos",
    "TopKThreshold",
    "Training",
    "TrainingSettings",
    "XSimGCL",
    "__version__",
    "compare",
    "evaluate",
    "fit",
    "load",
    "open",
]

_HOMES = {
    "shortlist.api": """
        ComparisonTable Metrics Recommender compare evaluate fit
    """,
    "shortlist.data": """
        Interactions LoadOptions Split load
    """,
    "shortlist.errors": """
        InputError ShortlistError
    """,
    "shortlist.losses": """
        AUC BCE BPR BSL CCL DNS GBCE LLPAUC MSE OPAUC PSL RCE SL SONG TCE WARP ARPLoss1
        ARPLoss2 AdvInfoNCE ApproxNDCG CROLoss CROLossLambda GuidedRec Hinge LambdaLossAtK LambdaRank
        ListMLE ListNet Loss NDCGLoss1 NDCGLoss2 NDCGLoss2pp NeuralNDCG RankNet SLAtK SLAtKDetached
        SONGAtK SmoothNDCG SoftmaxV SogCLR SogSLAtK Talos TopKThreshold
    """,
    "shortlist.models": """
        EASE IALS MF NCF ItemKNN LightGCN LightGCNpp Model Pooled Popularity SimGCL SimpleX
        XSimGCL
    """,
    "shortlist.training": """
        OptimizerSettings Training TrainingSettings
    """,
}
"""The names of each module."""

_MODULES = {name: module for module, names in _HOMES.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    if name == "open":
        return import_module("shortlist.api").open_recommender
    if name not in _MODULES:
        raise AttributeError(f"module 'shortlist' has no attribute {name!r}")
    return getattr(import_module(_MODULES[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
