"""Shortlist trains recommenders and rankers for the list that people are actually shown: the Top-K."""

__version__ = "0.1.0"
