"""The command ``shortlist train``."""
