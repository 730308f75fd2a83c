"""Floor 2: what an agent did, step by step."""
