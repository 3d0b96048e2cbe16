"""Experiment tracking: TensorBoard and MLflow."""

from shortlist.tracking.base import Tracker
from shortlist.tracking.trackers import MLflow, TensorBoard, parse_tracker

__all__ = ["MLflow", "TensorBoard", "Tracker", "parse_tracker"]
