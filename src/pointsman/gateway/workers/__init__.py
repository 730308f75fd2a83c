"""Several processes that serve one address: their supervisor, and their requests to one another.

Sessions and the ledger are shared through files (``stores``); the state of a single process is reached by
passing a request on to it (docs/decisions/0176, 0177).
"""

from __future__ import annotations

from pointsman.gateway.workers._app import WorkerApp
from pointsman.gateway.workers._peers import Peers
from pointsman.gateway.workers._supervisor import Supervisor, WorkerLink

__all__ = ["Peers", "Supervisor", "WorkerApp", "WorkerLink"]
