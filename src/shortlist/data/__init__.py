"""Tables, interactions and splits."""

from shortlist.data.columns import Columns
from shortlist.data.events import EventLog, Events
from shortlist.data.frames import from_polars, to_polars
from shortlist.data.interactions import BoolArray, FloatArray, IntArray, Interactions
from shortlist.data.load import LoadOptions, load
from shortlist.data.noise import flip_negatives
from shortlist.data.prepare import k_core, to_interactions
from shortlist.data.splits import (
    Split,
    at_time,
    hold_out_irbenchmark,
    hold_out_share,
    last_share,
    leave_last,
    training_part,
)
from shortlist.data.tables import read

__all__ = [
    "BoolArray",
    "Columns",
    "EventLog",
    "Events",
    "FloatArray",
    "IntArray",
    "Interactions",
    "LoadOptions",
    "Split",
    "at_time",
    "flip_negatives",
    "from_polars",
    "hold_out_irbenchmark",
    "hold_out_share",
    "k_core",
    "last_share",
    "leave_last",
    "load",
    "read",
    "to_interactions",
    "to_polars",
    "training_part",
]
