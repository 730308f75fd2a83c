"""Floor 6: the ChatModel port; its implementations over HTTP are in ``pointsman.models.http``.

They load asyncio and are therefore not imported here: ``import pointsman`` stays light.
"""

from __future__ import annotations

from pointsman.models.port import ChatModel, Prompt

__all__ = ["ChatModel", "Prompt"]
