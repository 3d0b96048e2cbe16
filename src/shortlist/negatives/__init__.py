"""Who stands against the positives."""
