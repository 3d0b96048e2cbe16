"""The command ``shortlist tune``."""
