"""Words of a conversation, which must not be on disk."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

from attacks.base import Attack, Bound, post, running, talk

__all__ = ["ATTACKS"]

_CANARY = "canary-0f3a"


def _on_disk(folder: Path) -> Iterator[Bound]:
    """An agent whose every call fails with the same words."""
    sessions = (
        f'[guidance]\nmode = "on"\ncontrol = 0.0\n[sessions]\nstore = "sqlite"\npath = "{folder}/s.sqlite"'
    )
    history: list[dict[str, object]] = [{"role": "user", "content": f"fix it {_CANARY}"}]
    with running(folder, more=sessions) as gateway, gateway.connect() as connection:
        for number in range(8):
            function = {"name": "bash", "arguments": json.dumps({"n": f"{_CANARY}{number}"})}
            call = {"id": f"c{number}", "type": "function", "function": function}
            history += [
                {"role": "assistant", "tool_calls": [call]},
                {"role": "tool", "tool_call_id": f"c{number}", "content": f"Error: no such file {_CANARY}"},
            ]
            body = json.dumps({"model": "auto", "messages": history}).encode()
            talk(connection, post(body, b"x-session-id: s"), b'"usage"')
        time.sleep(1)  # in which the stores write
    files = [path for path in folder.rglob("*") if path.is_file()]
    yield Bound("files", len(files), 99, 3)
    yield Bound("files with its words", sum(_CANARY.encode() in path.read_bytes() for path in files), 0)


ATTACKS = (Attack("words of a conversation on disk", _on_disk, is_quick=True),)
