"""The page Try: a prompt or a whole request, decided as it is typed. Nothing is stored, no model is asked."""

from __future__ import annotations

import json
from typing import Final

from pointsman.console._marks import marked
from pointsman.console._svg import score_bar
from pointsman.console._view import Page, Unusable, Visit
from pointsman.decision.memory import Memory
from pointsman.decoding import why_unreadable
from pointsman.diagnostics.explained import STAGES, Explained, describe_selection, explain_request
from pointsman.errors import PointsmanError
from pointsman.printable import TextTable
from pointsman.vocabulary import AgentRequest, WireFormat
from pointsman.wire.request import read_request, request_from_text

#: Columns of the table of dimensions.
_COLUMNS: Final = ("dimension", "found", "score", "weight", "adds")
#: Characters of what is entered up to which an address of the same view is shown; longer ones are posted.
_LONGEST_ADDRESS: Final = 2_000

_FORMATS: Final = {wire.value: wire for wire in WireFormat}


def try_it(visit: Visit) -> Page:
    """Decide the input."""
    text = visit.form.get("request", visit.asked("request"))
    chosen = _FORMATS.get(visit.form.get("format", visit.asked("format")), WireFormat.CHAT)
    here = {"request": text, "format": chosen.value}
    context: dict[str, object] = {
        "entered": text,
        "format": chosen,
        "formats": list(WireFormat),
        "explained": None,
        "error": None,
        "stages": STAGES,
        "here": here if len(text) <= _LONGEST_ADDRESS else None,
    }
    if not text.strip():
        return Page("try.html", context, {"decision": None}, TextTable.of(_COLUMNS, []))
    try:
        explained = explain_request(visit.view.engine, _request(text, chosen), Memory(), visit.view.config)
    except PointsmanError as error:
        return Page("try.html", context | {"error": error}, {"error": error.message}, status=400)
    rows = [
        (part.dimension, " ".join(part.keywords), part.score, part.weight, part.contribution)
        for part in explained.tier.contributions
    ]
    shown = context | _shown(explained, text, chosen)
    decision = explained.decision
    data = explained.to_json() | {"guidance": decision.guidance, "refused": decision.refused}
    return Page("try.html", shown, data, TextTable.of(_COLUMNS, rows))


def _request(text: str, wire: WireFormat) -> AgentRequest:
    """Read a whole request where the text is a JSON object, else take it for a prompt."""
    if not text.lstrip().startswith("{"):
        return request_from_text(text)
    try:
        body = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise Unusable(
            f"not JSON: {why_unreadable(error)}", hint="a text that begins with { is read as a whole request"
        ) from None
    if not isinstance(body, dict) or not body.keys() & {"messages", "input"}:
        raise Unusable('a whole request has "messages" or "input"')
    return read_request(wire, text.encode("utf-8", "replace"))


def _shown(explained: Explained, text: str, wire: WireFormat) -> dict[str, object]:
    decision, tier = explained.decision, explained.tier
    return {
        "explained": explained,
        "decision": decision,
        "pieces": marked(explained.words.text, tier.contributions),
        "bar": score_bar(decision.tier.score, tier.boundaries, "Score") if decision.tier else None,
        "selection": list(describe_selection(decision.capabilities)) if decision.capabilities else [],
        "test_case": _test_case(explained, text, wire),
    }


def _test_case(explained: Explained, text: str, wire: WireFormat) -> str:
    """Return a test that holds this decision, for pytest."""
    decided = explained.decision.tier
    is_body = text.lstrip().startswith("{")
    asked = f"json.loads({text!r})" if is_body else repr(text)
    more = f', format="{wire.value}"' if is_body else ""
    config = explained.served.configuration if explained.served else ""
    made = f"Pointsman.from_config({config!r})" if config else "Pointsman()"
    expected = f'"{decided.tier}"' if decided else "None"
    found = "explained.decision.tier.tier" if decided else "explained.decision.tier"
    lines = [
        *(["import json", ""] if is_body else []),
        "from pointsman import Pointsman",
        "",
        "",
        "def test_tier() -> None:",
        f"    with {made} as pointsman:",
        f"        explained = pointsman.explain({asked}{more})",
        f"    assert {found} {'is' if not decided else '=='} {expected}",
    ]
    return "\n".join(lines) + "\n"
