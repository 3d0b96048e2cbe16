"""The command `shortlist`."""
