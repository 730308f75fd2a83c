"""Floor 8: one file per command."""
