"""Models on disk."""
