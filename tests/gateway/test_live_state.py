"""A reload builds another state beside the one in force; what it carries over is what did not change."""

from typing import Any

import msgspec

from pointsman.config import Config, ShadowSpec
from pointsman.gateway._live_state import LiveState, build_live_state
from pointsman.gateway.app import Gateway
from pointsman.upstreams.port import DEMO_URL, Call, Exchange, UpstreamSpec
from pointsman.vocabulary import ModelSpec
from support.deciders import ScriptedDecider

DECIDER = ScriptedDecider("one")
MODELS = {name: ModelSpec(name, f"up-{name}", name) for name in ("one", "two")}
UPSTREAMS = {spec.name: spec for spec in (UpstreamSpec("up-one", DEMO_URL), UpstreamSpec("up-two", DEMO_URL))}
CHANGED = UPSTREAMS | {"up-two": msgspec.structs.replace(UPSTREAMS["up-two"], retries=0)}
SHADOW = ShadowSpec(model="two", share=1.0)


class Client:
    """A client that remembers whether it was closed."""

    def __init__(self, spec: UpstreamSpec) -> None:
        self.spec = spec
        self.closed = False

    async def send(self, call: Call) -> Exchange:
        raise NotImplementedError

    def close(self) -> None:
        self.closed = True


def built(
    monkeypatch: Any,
    upstreams: dict[str, UpstreamSpec],
    shadow: ShadowSpec | None = None,
    previous: LiveState | None = None,
) -> LiveState:
    monkeypatch.setattr("pointsman.upstreams.connections._client", Client)
    monkeypatch.setattr("pointsman.upstreams.connections.DEMO_URL", "none")
    config = Config(models=MODELS, upstreams=upstreams, shadow=shadow or ShadowSpec())
    return build_live_state(DECIDER, config, previous=previous)


def clients(state: LiveState) -> dict[str, Any]:
    return {name: target.upstream.client for name, target in state.targets.items()}


def test_unchanged_upstreams_keep_connections_and_circuit_breaker(monkeypatch: Any) -> None:
    first = built(monkeypatch, UPSTREAMS)
    for target in first.targets.values():
        for _ in range(10):
            target.upstream.breaker.record_failure(0.0)
    second = built(monkeypatch, CHANGED, previous=first)
    assert {name: target.upstream.breaker.is_open for name, target in second.targets.items()} == {
        "one": True,
        "two": False,
    }
    before, after = clients(first), clients(second)
    assert before["one"] is after["one"]
    assert before["two"] is not after["two"]
    assert not any(client.closed for client in (*before.values(), *after.values()))


def test_what_the_successor_has_not_taken_over_is_closed(monkeypatch: Any) -> None:
    gateway = Gateway(first := built(monkeypatch, UPSTREAMS))
    before = clients(first)
    gateway.replace(second := built(monkeypatch, CHANGED, previous=first))
    assert gateway.state is second
    assert {name: client.closed for name, client in before.items()} == {"one": False, "two": True}
    assert not any(client.closed for client in clients(second).values())
    second.close()
    assert all(client.closed for client in clients(second).values())


def test_a_state_that_is_never_put_in_force_touches_nothing(monkeypatch: Any) -> None:
    first = built(monkeypatch, UPSTREAMS, shadow=SHADOW)
    kept = clients(first), first.candidates(("one",))
    built(monkeypatch, CHANGED, previous=first)
    assert (clients(first), first.candidates(("one",))) == kept
    assert first.shadow_model is not None
    assert not first.shadow_model.usage.stopped


def test_the_shadow_model_goes_on_with_what_it_has_spent(monkeypatch: Any) -> None:
    first = built(monkeypatch, UPSTREAMS, shadow=SHADOW)
    assert first.shadow_model is not None
    first.shadow_model.usage.spent = 3.0
    second = built(monkeypatch, CHANGED, shadow=SHADOW, previous=first)
    assert second.shadow_model is not None
    assert second.shadow_model.usage is first.shadow_model.usage
    first.retire(second)
    assert not first.shadow_model.usage.stopped
    second.retire(built(monkeypatch, CHANGED, previous=second))
    assert second.shadow_model.usage.stopped


def test_an_upstream_without_a_model_keeps_its_connections_too() -> None:
    """It may serve other paths."""
    spec = UpstreamSpec("up", "http://127.0.0.1:1/v1")
    config = Config(upstreams={"up": spec})
    first = build_live_state(ScriptedDecider(), config)
    second = build_live_state(ScriptedDecider(), config, previous=first)
    assert second.upstreams["up"] is first.upstreams["up"]
    second.close()
