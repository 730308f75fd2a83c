"""Floor 7: optional frameworks, each an extra."""
