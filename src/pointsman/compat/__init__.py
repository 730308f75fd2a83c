"""Floor 7: the founding documents' own names over the real thing. Nothing of ours imports it."""
