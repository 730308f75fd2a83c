"""Floor 3: whether an agent is stuck and what to tell it."""
