"""Floor 6: where session memory is kept."""
