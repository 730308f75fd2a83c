"""The worked example under LangGraph, with approval kept in SQLite: ask in one process, answer in another.

python examples/langgraph_app.py start state.sqlite "Email Ida that I am late"
python examples/langgraph_app.py resume state.sqlite yes
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.types import Command

from pointsman.orchestrator import load_application
from pointsman.orchestrator.langgraph import build_graph, new_turn

APPLICATION = Path(__file__).parent / "assistant.py"


async def main(action: str, database: str, words: str) -> None:
    """Start a turn, or answer the question it stopped at."""
    async with AsyncSqliteSaver.from_conn_string(database) as saver:
        graph = build_graph(load_application(APPLICATION), checkpointer=saver)
        config: Any = {"configurable": {"thread_id": "example"}}
        given: Any = new_turn(words) if action == "start" else Command(resume=words == "yes")
        # "sync" writes each checkpoint before going on, so that a killed process loses nothing it has shown.
        events = graph.astream(given, config, stream_mode=["custom", "updates"], durability="sync")
        event: Any  # what a mode streams is its own
        async for mode, event in events:
            if mode == "custom":
                print(f"{event['next']}: {event['reason']}")
            elif "__interrupt__" in event:
                print(f"waiting for approval: {event['__interrupt__'][0].value}")
        state = await graph.aget_state(config)
        print(state.values.get("response") or "(not finished)")


if __name__ == "__main__":
    if len(sys.argv) != 4:
        raise SystemExit(__doc__)
    asyncio.run(main(*sys.argv[1:4]))
