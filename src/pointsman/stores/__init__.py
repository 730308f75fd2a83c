"""Floor 5: what is kept: the ledger, sessions, compiled patterns; and how a SQLite file is written."""
