"""Floor 6: the ChatModel port and its implementations."""
