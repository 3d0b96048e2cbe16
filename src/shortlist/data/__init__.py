"""Tables in, interactions out."""

from shortlist.data.interactions import BoolArray, FloatArray, IntArray, Interactions

__all__ = ["BoolArray", "FloatArray", "IntArray", "Interactions"]
