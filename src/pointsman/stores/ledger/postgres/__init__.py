"""The ledger in PostgreSQL, over psycopg (extra ``postgres``): shared by any number of gateways."""

from __future__ import annotations

from pointsman.stores.ledger.postgres._connection import Connection, Database
from pointsman.stores.ledger.postgres._ledger import PostgresLedger

__all__ = ["Connection", "Database", "PostgresLedger"]
