"""The chat completions format."""
