"""Floor 4: which step comes next."""
