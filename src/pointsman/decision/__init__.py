"""Floor 4: the four answers put together: policy, engine, decision, and two decisions side by side."""
