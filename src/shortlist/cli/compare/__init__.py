"""The command ``shortlist compare``."""
