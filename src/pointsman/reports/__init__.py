"""Floor 7: what the ledger says afterwards: savings, drift, shadows, replay, the effect of guidance."""
