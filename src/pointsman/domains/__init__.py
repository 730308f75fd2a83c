"""Floor 3: which task domains a conversation is in."""
