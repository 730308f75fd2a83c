"""Floor 7: the HTTP proxy between agents and providers."""
