"""Floor 3: which capabilities a task needs."""
