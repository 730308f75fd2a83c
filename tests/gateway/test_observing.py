"""What ``config init`` writes changes no request: a stuck agent's body arrives as it was sent."""

import json
from pathlib import Path
from typing import Any

from pointsman.config import load
from pointsman.config.draft import Found, ModelDraft, draft
from pointsman.gateway.build import Builder
from pointsman.stores.ledger import SqliteLedger
from support.requests_by_format import answer, format_of, post
from support.servers import Asked, ScriptedUpstream, gateway, reply

FAILED = "Error: command not found: pytset"
TOOLS = [
    {"type": "function", "function": {"name": name, "description": name, "parameters": {"type": "object"}}}
    for name in ("bash", "search_web")
]


def stuck() -> list[dict[str, Any]]:
    """A person who asks for a fix, and an agent whose call fails four times."""
    said: list[dict[str, Any]] = [{"role": "user", "content": "fix this bug in the login function"}]
    for number in range(4):
        function = {"name": "bash", "arguments": '{"c": "pytset"}'}
        call = {"id": f"c{number}", "type": "function", "function": function}
        said += [
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": f"c{number}", "content": FAILED},
        ]
    return said


def test_a_drafted_configuration_records_and_changes_no_request(tmp_path: Path) -> None:
    seen: list[dict[str, Any]] = []

    async def serve(asked: Asked, send: Any) -> None:
        seen.append(json.loads(asked.body))
        await reply(send, 200, answer(format_of(asked.path)))

    body = {"model": "auto", "messages": stuck(), "tools": TOOLS}
    with ScriptedUpstream(serve).running() as url:
        found = Found("main", f"{url}/v1", ("chat",), (ModelDraft("small", "small-1", (0.1, 0.4)),))
        file, ledger = tmp_path / "pointsman.toml", tmp_path / "ledger.sqlite"
        text = draft([found]).replace("port = 4747", "port = 0")
        file.write_text(text.replace("[ledger]\n", f'[ledger]\npath = "{ledger}"\n'))
        builder = Builder(lambda: load(file))
        with gateway(builder()) as running:
            assert post(f"{running.url}/v1/chat/completions", json=body).status_code == 200
        builder.close()
    assert seen == [{**body, "model": "small-1"}]
    recorded = SqliteLedger(ledger)
    try:
        (decision,) = recorded.decisions()
    finally:
        recorded.close()
    assert decision.guidance is not None
    assert decision.guidance.firing is not None
    assert decision.domains is not None
    assert decision.domains.signature == "bugfix"
    assert decision.capabilities is not None
    assert [tool.name for tool in decision.capabilities.offered] == ["bash", "search_web"]
    assert decision.injections == ()
