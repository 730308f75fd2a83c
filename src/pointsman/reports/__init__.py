"""Floor 7: reports from the ledger: savings, drift, shadows, replay, the effect of guidance."""
