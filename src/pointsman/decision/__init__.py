"""Floor 4: the four decisions combined: policy, engine, decision, and the difference of two decisions."""
