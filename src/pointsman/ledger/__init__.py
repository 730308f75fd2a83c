"""Floor 6: where decisions, attempts and outcomes are appended."""
