"""Similarities, and the score table that losses read."""
