"""Models: they produce scores and know nothing of losses."""

from shortlist.models.base import Baseline, Model, registry

__all__ = ["Baseline", "Model", "registry"]
