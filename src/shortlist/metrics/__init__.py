"""Metrics: functions of a ranking and the truth, with a value for each user."""
