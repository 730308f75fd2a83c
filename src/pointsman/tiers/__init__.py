"""Floor 3: which model tier should serve a prompt."""
