"""Tiers in LiteLLM's Router and proxy (extra ``litellm``): an object for its slot ``classifier_plugin``.

In the file of a proxy, next to ``classifier_type: custom``::

    complexity_router_config:
      classifier_plugin: pointsman.integrations.litellm.classifier

LiteLLM's tiers have the same names. Without a decision it classifies by itself
(``classifier_fallback``). Its slot takes a tier and nothing else: the reasons go into ``metadata``, where a
callback of the proxy makes room for them (``callbacks: pointsman.integrations.litellm.reasons`` below
``litellm_settings``).
Tried with LiteLLM 1.106.2.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any, Final, Protocol, Self

from pointsman.api import Pointsman
from pointsman.decision.decision import Decision
from pointsman.errors import MissingExtra
from pointsman.integrations.host import TIMEOUT, Host, session_name

if TYPE_CHECKING:
    reasons: Any  # a callback for LiteLLM's proxy, made when it is first asked for

__all__ = ["METADATA", "Classifier", "classifier", "reasons"]

#: Member of a request's metadata that is filled in, where it holds a mapping.
METADATA: Final = "pointsman"
#: Where LiteLLM keeps what clients send: the older endpoints have the first.
_PLACES: Final = ("litellm_metadata", "metadata")
#: Headers that name a session, in order of trust (docs/explanation/gateway.md).
_SESSION_HEADERS: Final = (
    "x-session-id",
    "x-claude-code-session-id",
    "session-id",
    "session_id",
    "thread-id",
    "x-session-affinity",
)
#: Characters of LiteLLM's hash of a key: as many tell the keys of one proxy apart.
_KEY: Final = 16
_MOST_REASONS: Final = 20
_PATIENT: Final = 60.0  # seconds


class RoutingContext(Protocol):
    """What LiteLLM hands to a classifier: ``litellm.types.router.RoutingContext``."""

    structured_messages: list[dict[str, object]]  # as chat completions have them, from whichever API
    metadata: dict[str, object]


class Classifier:
    """LiteLLM's ``ClassifierPlugin``."""

    def __init__(
        self, points: Pointsman | Callable[[], Pointsman] | None = None, *, timeout: float = TIMEOUT
    ) -> None:
        """Make ready; nothing is read before the first request.

        Args:
            points: What decides, or what makes it; by default ``Pointsman.from_config()``.
            timeout: Seconds after which LiteLLM decides. Its own ``classifier_plugin_timeout_ms`` holds too.
        """
        self.host = Host("LiteLLM", points, timeout=timeout)

    def __deepcopy__(self, _: object) -> Self:
        """LiteLLM copies its configuration: what decides stays one."""
        return self

    async def classify(self, context: RoutingContext) -> str | None:
        """Return the tier of a request; None if LiteLLM must classify it.

        A mapping in ``metadata["pointsman"]`` gets the decision's ``id``, ``tier``, ``confidence`` and
        ``reasons``.
        """
        metadata = context.metadata
        decision = await self.host.decide(
            {"model": "auto", "messages": context.structured_messages},
            session=_session(metadata),
            caller=_caller(metadata),
        )
        if decision is None or decision.tier is None:
            return None
        room = metadata.get(METADATA)
        if isinstance(room, dict):
            room.update(_told(decision))
        return str(decision.tier.tier)


def _session(metadata: Mapping[str, object]) -> str | None:
    """The session as the client names it: to LiteLLM, or to a gateway, in a header."""
    if isinstance(name := metadata.get("session_id"), str):
        return session_name(name)
    headers = metadata.get("headers")
    sent = headers if isinstance(headers, Mapping) else {}
    named = (sent.get(name) for name in _SESSION_HEADERS)
    return session_name(next((name for name in named if isinstance(name, str)), ""))


def _caller(metadata: Mapping[str, object]) -> str:
    """A name for the proxy's key: LiteLLM knows it as a hash."""
    key = metadata.get("user_api_key_hash")
    return key[:_KEY].replace("/", "-") if isinstance(key, str) else ""


def _told(decision: Decision) -> dict[str, object]:
    tier = decision.tier
    because = [*(tier.reasons if tier else ()), *decision.reasons]
    return {
        "id": decision.id,
        "tier": str(tier.tier) if tier else "",
        "stage": str(tier.stage) if tier else "",
        "confidence": round(tier.confidence, 4) if tier else 0.0,
        "signals": list(tier.signals[:_MOST_REASONS]) if tier else [],
        "reasons": [each.detail or each.code for each in because[:_MOST_REASONS]],
    }


#: For a proxy's file: decides by the configuration that the command line finds. The limit that counts is
#: LiteLLM's own, ``classifier_plugin_timeout_ms``, beyond which it logs and classifies by itself.
classifier: Final = Classifier(timeout=_PATIENT)


@cache
def _reasons() -> Any:
    """Make the callback that makes room for reasons, and sends them as ``x-pointsman-*`` headers.

    Raises:
        MissingExtra: LiteLLM is not installed.
    """
    try:
        from litellm.integrations.custom_logger import CustomLogger
    except ImportError as error:
        raise MissingExtra("litellm", needed_for="the callback of LiteLLM's proxy") from error

    class Reasons(CustomLogger):  # type: ignore[misc]  # LiteLLM is not installed where types are checked
        async def async_pre_call_hook(
            self, user_api_key_dict: object, cache: object, data: dict[str, Any], call_type: str
        ) -> dict[str, Any]:
            del user_api_key_dict, cache, call_type
            name = next((name for name in _PLACES if isinstance(data.get(name), dict)), None)
            if name is not None:
                data[name][METADATA] = {}
            return data

        async def async_post_call_response_headers_hook(
            self, data: dict[str, Any], user_api_key_dict: object, response: object, **more: object
        ) -> dict[str, str]:
            del user_api_key_dict, response, more
            found = [data[name].get(METADATA) for name in _PLACES if isinstance(data.get(name), dict)]
            told: dict[str, object] = next((each for each in found if each), {})
            sent = {"x-pointsman-decision-id": "id", "x-pointsman-tier": "tier", "x-pointsman-stage": "stage"}
            return {header: str(told[name]) for header, name in sent.items() if told.get(name)}

    return Reasons()


def __getattr__(name: str) -> Any:
    if name == "reasons":
        return _reasons()
    raise AttributeError(name)
