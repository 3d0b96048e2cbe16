"""Exact top-K selection of every row, in little more than one pass over the scores.

A full selection of each row costs more than the product that computes the scores. Instead the items are distributed
over columns, and the maximum of each column is computed (a vectorised pass along memory). The K-th largest of these
maxima is a lower bound: K different items reach it, so the K-th best score cannot be lower. Few more than K items of a
row reach the bound. Only they are sorted, by a key of the score and then the item, so that ties are broken by item.

Legend: T rows of a tile, each of W scores (padded); C columns of G scores, W = G·C; B bundles of H columns, C = H·B.
"""

from __future__ import annotations

import numpy as np
import torch

from shortlist.data import FloatArray, IntArray
from shortlist.errors import ShortlistError

PER_COLUMN = 8
"""Scores per column. More make the maxima cheaper and the search of the selected columns slower; 8 is fastest."""

BUNDLES_PER_K = 5
"""Bundles per rank of the list: with 5, about 1.1 K items of a row reach the lower bound, with 1 far more."""

CROWD = 4
"""A row with more than CROWD · K columns at the lower bound has many ties and is processed separately."""

_LOWEST = np.finfo(np.float32).min
_EMPTY = np.iinfo(np.int64).max


class Selector:
    """A buffer for the scores of one tile of rows, and the selection of the K best of each.

    >>> selector = Selector(n_rows=2, n_items=4, k=3)
    >>> _ = selector.scores.copy_(torch.tensor([[1.0, 3.0, 3.0, 2.0], [-torch.inf, 5.0, -torch.inf, 7.0]]))
    >>> items_TK, scores_TK = selector.best()
    >>> items_TK.tolist()
    [[1, 2, 3], [3, 1, -1]]
    >>> scores_TK.tolist()
    [[3.0, 3.0, 2.0], [7.0, 5.0, -inf]]
    """

    def __init__(self, n_rows: int, n_items: int, k: int) -> None:
        self.k = k
        bundles = min(BUNDLES_PER_K * k, n_items)
        per_column = PER_COLUMN if n_items >= PER_COLUMN * bundles else 1
        columns_per_bundle = max(1, n_items // (per_column * bundles))
        bundles = -(-n_items // (per_column * columns_per_bundle))
        self.width, self.n_columns = per_column * columns_per_bundle * bundles, columns_per_bundle * bundles
        self.padded_TW = torch.full((n_rows, self.width), -torch.inf)
        self.scores = self.padded_TW[:, :n_items]
        """The scores [T, I] to fill before :meth:`best`; −∞ where an item must not be listed."""
        self._columns_TGC = self.padded_TW.view(n_rows, per_column, self.n_columns)
        self._maxima_TC = torch.empty(n_rows, self.n_columns)
        self._bundles_THB = self._maxima_TC.view(n_rows, columns_per_bundle, bundles)
        self._tops_TB = torch.empty(n_rows, bundles)
        self._reached_TC = np.empty((n_rows, self.n_columns), np.bool_)
        self._offset_G1 = np.arange(per_column)[:, None] * self.n_columns

    def best(self) -> tuple[IntArray, FloatArray]:
        """The K best items of every row and their scores: scores descending, ties by item, padded with −1 and −∞."""
        flat_N = self._reaching(self._lower_bound())
        row_N = flat_N // self.width
        count_T = np.bincount(row_N, minlength=len(self.padded_TW))
        place_N = np.arange(len(row_N)) - (np.cumsum(count_T) - count_T)[row_N]
        keys_TM = np.full((len(count_T), max(self.k, int(count_T.max()))), _EMPTY)
        keys_TM[row_N, place_N] = _to_key(self._flat().take(flat_N), flat_N - row_N * self.width)
        keys_TM.sort(axis=1)
        return _from_key(keys_TM[:, : self.k])

    def _flat(self) -> FloatArray:
        return self.padded_TW.numpy().reshape(-1)

    def _lower_bound(self) -> FloatArray:
        """For each row a score that at least K items reach, or the lowest number if fewer than K are not excluded."""
        torch.amax(self._columns_TGC, 1, out=self._maxima_TC)
        torch.amax(self._bundles_THB, 1, out=self._tops_TB)
        tops_TB = self._tops_TB.numpy()
        if np.isnan(tops_TB).any():  # the maximum propagates NaN
            raise ShortlistError("ranking: expected scores without NaN, received NaN from the model")
        kth = max(0, tops_TB.shape[1] - self.k)
        return np.maximum(np.partition(tops_TB, kth, axis=1)[:, kth], _LOWEST)

    def _reaching(self, bound_T: FloatArray) -> IntArray:
        """Flat positions, ascending, of the scores that reach the lower bound."""
        np.greater_equal(self._maxima_TC.numpy(), bound_T[:, None], out=self._reached_TC)
        row_N, column_N = np.divmod(np.flatnonzero(self._reached_TC), self.n_columns)
        is_crowded_T = np.bincount(row_N, minlength=len(bound_T)) > CROWD * self.k
        if is_crowded_T.any():
            row_N, column_N = row_N[~is_crowded_T[row_N]], column_N[~is_crowded_T[row_N]]
        flat_GN = self._offset_G1 + (row_N * self.width + column_N)
        reaching = np.flatnonzero(self._flat().take(flat_GN) >= bound_T[row_N])
        crowded = np.flatnonzero(is_crowded_T).tolist()
        flat = np.concatenate(
            [flat_GN.reshape(-1).take(reaching), *(self._reaching_in(row, bound_T[row]) for row in crowded)]
        )
        flat.sort()
        return flat

    def _reaching_in(self, row: int, bound: float) -> IntArray:
        """The same for one row with many ties: of the items equal to the bound, the first K are sufficient."""
        scores_W = self.padded_TW[row].numpy()
        return row * self.width + np.concatenate(
            [np.flatnonzero(scores_W > bound), np.flatnonzero(scores_W == bound)[: self.k]]
        )


def _to_key(score_N: FloatArray, item_N: IntArray) -> IntArray:
    """Integers that sort as (score descending, item ascending).

    The bits of a float32 sort like the number after the lower bits of negatives are flipped. Adding 0 turns −0 into 0.
    """
    bits_N = (score_N + np.float32(0)).view(np.int32)
    ascending_N = bits_N ^ ((bits_N >> 31) & 0x7FFFFFFF)
    return (~ascending_N).astype(np.int64) << 32 | item_N


def _from_key(key: IntArray) -> tuple[IntArray, FloatArray]:
    """Item and score of each key; −1 and −∞ of an empty place."""
    ascending = ~(key >> 32).astype(np.int32)
    score = (ascending ^ ((ascending >> 31) & 0x7FFFFFFF)).view(np.float32)
    empty = key == _EMPTY
    return np.where(empty, -1, key & 0xFFFFFFFF).astype(np.int32), np.where(empty, np.float32(-np.inf), score)
