"""From a configuration to what the gateway serves, at the start and again after a change."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from pathlib import Path

from pointsman.config import Config, GuidanceSpec, TiersSpec
from pointsman.config.shapes import LedgerSpec, state_file
from pointsman.decision.engine import Engine
from pointsman.diagnostics.router import answer_in_band
from pointsman.errors import ConfigError
from pointsman.factory import build_engine, build_policy, build_questions, build_runtime, build_shadow
from pointsman.gateway.live_state import Setup
from pointsman.gateway.upstream import Connections
from pointsman.model_calls import Ask, ask_models, ask_nobody
from pointsman.runtime import Runtime
from pointsman.shadow_policy import ShadowPolicy
from pointsman.upstreams.chat_model import chat_models
from pointsman.upstreams.port import DEMO_URL, UpstreamSpec
from pointsman.vocabulary import Mode, ModelSpec

__all__ = ["Builder", "build_ask", "demo_config"]

log = logging.getLogger(__name__)


class Builder:
    """Builds setups around one runtime: sessions and ledger stay open while policies come and go."""

    def __init__(self, load: Callable[[], Config], file: Path | None = None) -> None:
        """Take the way to read the configuration, and the file it is in, which commands may change."""
        self._load = load
        self._file = file
        self._runtime: Runtime | None = None
        self._shadow: ShadowPolicy | None = None
        self._opened: dict[str, object] = {}  # see _opened_once
        self._connections = Connections()

    def __call__(self) -> Setup:
        """Read the configuration and return what to serve; what is served already is untouched.

        Raises:
            ConfigError: the configuration is wrong.
        """
        config = self._load()
        if not config.models:
            raise ConfigError(
                "no model is configured, so there is nothing to serve",
                hint="[models] and [tiers] name them; pointsman config init writes both",
            )
        on_trial = build_shadow(config)
        ask = build_ask(config, self._connections)
        runtime = self._runtime
        if runtime is None:
            runtime = self._runtime = build_runtime(config)
            self._opened = _opened_once(config)
            engine, questions = runtime.engine, runtime.questions
        else:
            policy = build_policy(config)
            engine, questions = build_engine(policy), build_questions(policy)
        shadow = (self._shadow or ShadowPolicy(on_trial, runtime.ledger)) if on_trial else None

        def begin() -> None:
            self._tell_what_waits(config)
            runtime.replace(engine, questions, ask)
            self._try_beside(runtime, shadow, on_trial)

        command = partial(_answer_command, config, self._file) if config.server.router_command else None
        return Setup(
            runtime,
            config.models,
            config.upstreams,
            config.server,
            self._connections,
            shadow,
            config.shadow,
            command,
            begin,
        )

    def close(self) -> None:
        """Write what waits and close the stores."""
        if self._shadow is not None:
            self._shadow.close()
        if self._runtime is not None:
            self._runtime.close()

    def _tell_what_waits(self, config: Config) -> None:
        """Say which changes of the configuration have no effect yet."""
        changed = [key for key, value in _opened_once(config).items() if value != self._opened[key]]
        if changed:
            log.warning("changed, and in effect from the next start on: %s", ", ".join(changed))

    def _try_beside(self, runtime: Runtime, shadow: ShadowPolicy | None, engine: Engine | None) -> None:
        """Decide turns under another policy too, in place of the one tried before."""
        before, self._shadow = self._shadow, shadow
        runtime.observe = shadow
        if shadow is not None and engine is not None:
            shadow.engine = engine
        elif before is not None:
            before.close()


def _opened_once(config: Config) -> dict[str, object]:
    """Settings of what is opened at the start and kept open, by their place in the file.

    A ledger or a session store that changed its file in between would leave answers under way without a
    record, and sessions without a memory; a restart drains first.
    """
    tables = {"ledger": config.ledger, "sessions": config.sessions}
    found = {
        f"[{name}] {field}": getattr(table, field)
        for name, table in tables.items()
        for field in table.__struct_fields__
    }
    found |= {f"[server] {field}": getattr(config.server, field) for field in ("host", "port", "drain")}
    return found | {"[server.limits] header_bytes": config.server.limits.header_bytes}


def build_ask(config: Config, connections: Connections) -> Ask:
    """Return what answers the needs of decisions: the model named for verification, or nobody."""
    verify = config.tiers.verify
    if verify is None:
        return ask_nobody
    return ask_models(chat_models(config.models, config.upstreams, connections), default=verify.model)


def _answer_command(config: Config, file: Path | None, text: str) -> str:
    """Answer ``/router`` in words, also when what it asks for is wrong."""
    try:
        return answer_in_band(text, config, file)
    except ConfigError as error:
        return f"{error.message}; {error.hint}" if error.hint else error.message


def demo_config() -> Config:
    """Two models of the built-in demo upstream; guidance on; a ledger of its own."""
    models = {
        name: ModelSpec(
            name, "demo", name, input_per_million=price, output_per_million=5 * price, context_window=128_000
        )
        for name, price in (("demo-small", 0.1), ("demo-large", 3.0))
    }
    return Config(
        upstreams={"demo": UpstreamSpec("demo", DEMO_URL)},
        models=models,
        tiers=TiersSpec(
            simple="demo-small", medium="demo-small", complex="demo-large", reasoning="demo-large"
        ),
        guidance=GuidanceSpec(mode=Mode.ON),
        ledger=LedgerSpec(path=state_file("demo.sqlite")),
    )
