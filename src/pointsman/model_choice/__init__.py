"""Floor 3: which models may serve a tier, in order, and when a conversation changes its model."""
