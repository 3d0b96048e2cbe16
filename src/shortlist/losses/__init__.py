"""Ranking losses: functions of a score table."""
