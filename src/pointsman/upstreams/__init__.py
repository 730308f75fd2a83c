"""Floor 5: providers: the port, the HTTP client, the built-in demo, and asking a model a question."""
