"""Floor 1: the person's words inside what an agent sends."""
