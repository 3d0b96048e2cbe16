"""The command ``shortlist bench``."""
