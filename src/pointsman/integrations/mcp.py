"""Decisions as tools of a Model Context Protocol server (extra ``mcp``): decide, explain, decisions, label.

Everything but ``label`` is read-only: ``decide`` is a dry run. Tried with mcp 2.3.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from itertools import islice
from typing import Annotated, Any, Final, Literal, ParamSpec, TypeVar

import msgspec

from pointsman import __version__
from pointsman.api import Pointsman
from pointsman.decision.decision import Decision
from pointsman.errors import MissingExtra, PointsmanError

try:
    from mcp.server.mcpserver import MCPServer
    from mcp.server.mcpserver.exceptions import ToolError
    from mcp_types import ToolAnnotations
    from pydantic import Field
except ImportError as error:
    raise MissingExtra("mcp", needed_for="the MCP server") from error

__all__ = ["build_server"]

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")

_INSTRUCTIONS: Final = (
    "Pointsman decides which model tier a prompt needs, and records the decisions of a gateway. "
    "decide and explain record nothing; decisions reads the ledger; label writes an outcome."
)
#: Characters of a text: a context of a million tokens has four times as many.
_LONGEST: Final = 4_000_000
#: Decisions listed at once.
_MOST: Final = 100
_READS: Final = ToolAnnotations(read_only_hint=True, open_world_hint=False)
_WRITES: Final = ToolAnnotations(read_only_hint=False, destructive_hint=False, open_world_hint=False)

Text = Annotated[str, Field(max_length=_LONGEST, description="What a person says; empty with a body.")]
Body = Annotated[
    dict[str, Any] | None, Field(description="A request body of the format, as an agent sends it.")
]
Format = Annotated[Literal["chat", "responses", "messages"], Field(description="Of the body.")]
Session = Annotated[
    str, Field(max_length=200, description="Start from the memory of this session, without changing it.")
]


def build_server(points: Pointsman) -> MCPServer:
    """Return the server; the caller runs it, and closes what decides."""
    server: MCPServer = MCPServer(
        "pointsman", instructions=_INSTRUCTIONS, version=__version__, log_level="WARNING"
    )
    tools = _Tools(points)
    for read in (tools.decide, tools.explain, tools.decisions):
        server.tool(annotations=_READS, structured_output=False)(_told(read))
    server.tool(annotations=_WRITES, structured_output=False)(_told(tools.label))
    return server


def _told(tool: Callable[Arguments, Result]) -> Callable[Arguments, str]:
    """A tool that answers with JSON, with errors that name the problem and the way out."""

    @wraps(tool)
    def told(*arguments: Arguments.args, **named: Arguments.kwargs) -> str:
        try:
            return msgspec.json.encode(tool(*arguments, **named)).decode()
        except (PointsmanError, ValueError) as error:
            raise ToolError(str(error)) from None

    told.__annotations__ = {**tool.__annotations__, "return": "str"}
    return told


class _Tools:
    """The tools: their names, arguments and first paragraphs are read by a model."""

    def __init__(self, points: Pointsman) -> None:
        self._points = points

    def decide(
        self,
        text: Text = "",
        body: Body = None,
        format: Format = "chat",  # noqa: A002
        session: Session = "",
    ) -> Decision:
        """Decide which model tier a prompt or a request needs, and everything else a gateway decides.

        No model is asked and nothing is recorded.
        """
        given = _given(text, body)
        return self._points.decide(given, format=format, session=session, dry_run=True)

    def explain(
        self,
        text: Text = "",
        body: Body = None,
        format: Format = "chat",  # noqa: A002
        session: Session = "",
    ) -> dict[str, object]:
        """Explain a decision: signals, weights, confidence, and what would have changed the tier.

        No model is asked and nothing is recorded.
        """
        given = _given(text, body)
        return self._points.explain(given, format=format, session=session).to_json()

    def decisions(
        self,
        id: Annotated[str, Field(max_length=200, description="One decision, with what became of it.")] = "",  # noqa: A002
        session: Annotated[str, Field(max_length=200, description="Those of one session.")] = "",
        limit: Annotated[int, Field(ge=1, le=_MOST, description="So many at most, the latest first.")] = 20,
    ) -> object:
        """List recorded decisions, or show one with its attempts and outcomes."""
        ledger = self._points.runtime.ledger
        ledger.flush()
        if not id:
            return [_line(each) for each in islice(ledger.decisions(limit=limit, session=session), limit)]
        found = ledger.get(id)
        if found is None:
            raise PointsmanError(f'there is no decision "{id}"', hint="decisions without an id lists them")
        return {"decision": found, "attempts": ledger.attempts(id), "outcomes": ledger.outcomes(id)}

    def label(
        self,
        decision: Annotated[str, Field(max_length=200, description="Id of the decision.")],
        score: Annotated[float | None, Field(ge=0, le=1, description="From 0, bad, to 1, good.")] = None,
        label: Annotated[str, Field(max_length=200, description="A word for it.")] = "",
        comment: Annotated[str, Field(max_length=4_000)] = "",
    ) -> dict[str, str]:
        """Record how a decision turned out: a score, a label, or both. Tiers are fitted on such outcomes."""
        self._points.record_outcome(decision, score, label=label, comment=comment)
        self._points.runtime.ledger.flush()
        return {"recorded": decision}


def _given(text: str, body: dict[str, Any] | None) -> str | dict[str, Any]:
    if bool(text) == (body is not None):
        raise ValueError('give either "text" or "body"')
    return text if body is None else body


def _line(decision: Decision) -> dict[str, object]:
    given, tier = decision.input, decision.tier
    return {
        "id": decision.id,
        "at": given.arrived_at,
        "session": given.session,
        "asked": given.model_asked,
        "tier": str(tier.tier) if tier else None,
        "stage": str(tier.stage) if tier else None,
        "confidence": round(tier.confidence, 3) if tier else None,
        "chain": decision.chain,
        "role": given.role,
        "guidance": [each.classifier for each in decision.guidance.firings] if decision.guidance else [],
    }
