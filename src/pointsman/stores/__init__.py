"""Floor 5: stores: the ledger, sessions, compiled patterns; and writing SQLite files."""
