"""A layer of propagation over Gowalla's graph, forwards and backwards, against the sparse products of torch and scipy.

    python benchmarks/propagation.py [--json] [--turns N] [--dim D] [--threads N]

The floor is the fastest of the others, on buffers that are kept where they take them; all take turns. Bytes are those
of the rows that are gathered, of indices and weights, and of the rows that are written; a plain copy reads and writes
as many. The way back is the same products once more: both ways together stand beside twice the floor. Wanted: at most
the floor.
"""

from __future__ import annotations

import statistics
import warnings
from collections.abc import Callable

import numpy as np
import torch
from scipy import sparse

from _common import gowalla, memory_mb, parser, seconds, show
from shortlist.models.graph import Adjacency, InteractionGraph, Sparse, layer_sums
from shortlist.training.malloc import tune_malloc


def scipy_matrix(matrix: Sparse, columns: int) -> sparse.csr_matrix:
    """The same matrix for scipy."""
    parts = (matrix.weight_E.numpy(), matrix.column_E.numpy(), matrix.start_N.numpy())
    return sparse.csr_matrix(parts, shape=(len(matrix.start_N) - 1, columns))


def torch_matrix(matrix: Sparse, columns: int) -> torch.Tensor:
    """The same matrix for torch."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # that sparse CSR tensors are in beta
        shape = (len(matrix.start_N) - 1, columns)
        return torch.sparse_csr_tensor(matrix.start_N, matrix.column_E, matrix.weight_E, shape)


def ways(adjacency: Adjacency, user_UD: torch.Tensor, item_ID: torch.Tensor) -> dict[str, Callable[[], object]]:
    """One layer, both halves, by each way there is."""
    halves = ((adjacency.matrix, item_ID), (adjacency.transposed, user_UD))
    given = [
        (torch_matrix(matrix, len(x)), x, torch.empty(len(matrix.start_N) - 1, x.shape[1])) for matrix, x in halves
    ]
    arrays = [(scipy_matrix(matrix, len(x)), x.numpy()) for matrix, x in halves]
    return {
        "ours": lambda: [matrix.times(x) for matrix, x in halves],
        "torch_csr_kept": lambda: [torch.addmm(out, m, x, beta=0, out=out) for m, x, out in given],
        "torch_csr": lambda: [m @ x for m, x, _ in given],
        "scipy": lambda: [m @ x for m, x in arrays],
    }


def measure(turns: int, dim: int) -> dict[str, object]:
    """Turns of every way; ours also as one layer of a model, forwards and backwards."""
    tune_malloc()
    name, split = gowalla()
    train = split.train
    adjacency = InteractionGraph.of(train).adjacency(0.5, 0.5)
    user_UD, item_ID = torch.randn(train.n_users, dim), torch.randn(train.n_items, dim)
    grads = torch.randn(train.n_users, dim), torch.randn(train.n_items, dim)
    parameters = user_UD.clone().requires_grad_(), item_ID.clone().requires_grad_()

    def both_ways() -> tuple[torch.Tensor, ...]:
        return torch.autograd.grad(layer_sums(*parameters, adjacency, [[0.0, 1.0]])[0], parameters, grads)

    one_layer = layer_sums(*parameters, adjacency, [[0.0, 1.0]])[0]
    moved = 4 * (2 * train.n_pairs * (dim + 2) + (train.n_users + train.n_items) * dim)
    source, target = torch.zeros(moved // 8), torch.empty(moved // 8)
    measured: dict[str, Callable[[], object]] = {
        **ways(adjacency, user_UD, item_ID),
        "both_ways": both_ways,
        "copy": lambda: target.copy_(source),
    }
    spent: dict[str, list[float]] = {way: [] for way in measured}
    for run in measured.values():  # warm up all
        run()
    for _ in range(turns):
        for way, run in measured.items():
            spent[way].append(seconds(run))
    median = {way: statistics.median(each) for way, each in spent.items()}
    floor = min(median[way] for way in ("torch_csr_kept", "torch_csr", "scipy"))
    return {
        "data": name,
        "pairs": train.n_pairs,
        "dim": dim,
        "threads": torch.get_num_threads(),
        "floor_seconds": round(floor, 5),
        "measured_seconds": round(median["ours"], 5),
        "ratio": round(median["ours"] / floor, 3),
        "both_ways_floor_seconds": round(2 * floor, 5),
        "both_ways_seconds": round(median["both_ways"], 5),
        "both_ways_ratio": round(median["both_ways"] / (2 * floor), 3),
        **{f"{way}_seconds": round(median[way], 5) for way in ("torch_csr_kept", "torch_csr", "scipy")},
        "gigabytes_per_second": round(moved / median["ours"] / 1e9, 1),
        "copy_gigabytes_per_second": round(moved / median["copy"] / 1e9, 1),
        "largest_difference": _difference(adjacency, (user_UD, item_ID), one_layer),
        "largest_difference_backwards": _difference(adjacency, grads, both_ways()),
        "peak_memory_mb": round(memory_mb(), 1),
    }


def _difference(adjacency: Adjacency, given: tuple[torch.Tensor, ...], found: tuple[torch.Tensor, ...]) -> float:
    """How far one layer over the given vectors, or gradients, is from scipy's at most."""
    user_UD, item_ID = (part.numpy() for part in given)
    expected = (
        scipy_matrix(adjacency.matrix, len(item_ID)) @ item_ID,
        scipy_matrix(adjacency.transposed, len(user_UD)) @ user_UD,
    )
    return max(float(np.abs(part.detach().numpy() - right).max()) for part, right in zip(found, expected, strict=True))


def main() -> None:
    arguments = parser("A layer of propagation over Gowalla's graph, and the sparse products of torch and scipy.")
    arguments.add_argument("--turns", type=int, default=15, help="how often each way is measured")
    arguments.add_argument("--dim", type=int, default=64, help="length of the vectors")
    chosen = arguments.parse_args()
    torch.set_num_threads(chosen.threads)
    show(measure(chosen.turns, chosen.dim), chosen.json)


if __name__ == "__main__":
    main()
