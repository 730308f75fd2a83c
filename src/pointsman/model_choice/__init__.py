"""Floor 3: the fallback chain of a tier, and model stickiness."""
