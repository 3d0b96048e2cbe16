"""Pages with pictures that open from disk."""
