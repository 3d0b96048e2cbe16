"""Experiment tracking: TensorBoard and MLflow."""

from shortlist.tracking.base import Tracker
from shortlist.tracking.trackers import MLflow, TensorBoard, tracker

__all__ = ["MLflow", "TensorBoard", "Tracker", "tracker"]
