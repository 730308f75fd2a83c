"""Several processes that serve one address: their supervisor, and their requests to one another.

The ledger is shared through its file (``stores``). The memory of a session is fetched from the worker that
served it last; other state of one process is reached by passing a request on to it (docs/decisions/0176).
"""

from __future__ import annotations

from pointsman.gateway.workers._app import WorkerApp
from pointsman.gateway.workers._peers import WorkerPeers
from pointsman.gateway.workers._supervisor import Supervisor, WorkerLink

__all__ = ["Supervisor", "WorkerApp", "WorkerLink", "WorkerPeers"]
