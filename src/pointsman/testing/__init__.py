"""Public test doubles and contract checks."""
