"""What a gateway is made of; replaced as a whole when the configuration changes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

import msgspec

from pointsman.config import ShadowSpec
from pointsman.decision.decision import Decision
from pointsman.gateway.upstream import Connections
from pointsman.shadow_policy import ShadowPolicy
from pointsman.stores.ledger.port import Ledger
from pointsman.upstreams.port import ServerSpec, UpstreamSpec
from pointsman.vocabulary import AgentRequest, ModelSpec

__all__ = ["Decider", "RouterCommand", "Setup"]

#: Answers the text after "/router" without calling a model.
RouterCommand = Callable[[str], str]


class Decider(Protocol):
    """What the gateway needs of ``pointsman.runtime.Runtime``."""

    @property
    def ledger(self) -> Ledger:
        """Where decisions and attempts are kept."""
        ...

    @property
    def failures(self) -> int:
        """Times the memory of a session could not be read, kept or written down."""
        ...

    @property
    def faults(self) -> Mapping[str, str]:
        """Why a store fails just now, by the name of each that does."""
        ...

    async def decide(self, request: AgentRequest) -> Decision:
        """Decide one turn and write it down.

        Raises:
            CallerError: the request cannot be served as it is; anything else fails open.
        """
        ...


class Setup(msgspec.Struct, frozen=True):
    """One configuration, ready to serve."""

    runtime: Decider
    models: Mapping[str, ModelSpec]
    upstreams: Mapping[str, UpstreamSpec]
    server: ServerSpec = ServerSpec()
    connections: Connections = msgspec.field(default_factory=Connections)
    shadow: ShadowPolicy | None = None  # another policy, decided beside the runtime's
    second: ShadowSpec = ShadowSpec()  # whether a model gets a share of the requests too, and which
    command: RouterCommand | None = None  # None: "/router" is a message like any other
    begin: Callable[[], None] = lambda: None  # called when it begins to serve: nothing of it decides before
