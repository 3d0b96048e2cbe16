"""The score at which a user's Top-K list ends."""
