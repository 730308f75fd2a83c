"""Floor 7: HTTP in, HTTP out."""
