"""Ranked lists over the whole catalogue."""
