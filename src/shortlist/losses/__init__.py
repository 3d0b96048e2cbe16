"""Ranking losses: functions of a score table, or of positive and negative scores in your own training loop.

>>> import torch
>>> from shortlist.losses import SLAtK
>>> loss = SLAtK(k=20, tau=0.1)
>>> pos, neg, beta = torch.rand(8), torch.rand(8, 100), torch.zeros(8)
>>> loss(pos, neg, threshold=beta).shape
torch.Size([])
"""

from shortlist.losses.auc import AUC, LLPAUC, OPAUC
from shortlist.losses.base import Loss, registry
from shortlist.losses.contrastive import AdvInfoNCE, SogCLR
from shortlist.losses.guided import GuidedRec
from shortlist.losses.hard import DNS, SoftmaxV
from shortlist.losses.lambdas import ARPLoss1, ARPLoss2, LambdaLossAtK, LambdaRank, NDCGLoss1, NDCGLoss2, NDCGLoss2pp
from shortlist.losses.listwise import ListMLE, ListNet
from shortlist.losses.pairwise import BPR, WARP, Hinge, RankNet
from shortlist.losses.pointwise import BCE, CCL, GBCE, MSE, RCE, TCE
from shortlist.losses.recall import CROLoss, CROLossLambda
from shortlist.losses.relaxed_sorts import NeuralNDCG, SmoothNDCG
from shortlist.losses.softmax import BSL, PSL, SL
from shortlist.losses.surrogates import SONG, ApproxNDCG, SONGAtK
from shortlist.losses.topk import SLAtK, SLAtKDetached, SogSLAtK, Talos
from shortlist.thresholds import TopKThreshold

__all__ = [
    "AUC",
    "BCE",
    "BPR",
    "BSL",
    "CCL",
    "DNS",
    "GBCE",
    "LLPAUC",
    "MSE",
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
    "GuidedRec",
    "Hinge",
    "LambdaLossAtK",
    "LambdaRank",
    "ListMLE",
    "ListNet",
    "Loss",
    "NDCGLoss1",
    "NDCGLoss2",
    "NDCGLoss2pp",
    "NeuralNDCG",
    "RankNet",
    "SLAtK",
    "SLAtKDetached",
    "SONGAtK",
    "SmoothNDCG",
    "SoftmaxV",
    "SogCLR",
    "SogSLAtK",
    "Talos",
    "TopKThreshold",
    "registry",
]
