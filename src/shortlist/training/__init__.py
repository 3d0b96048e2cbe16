"""The loop that joins a loss to a model."""
