"""A stand-in for Agent Zero's main loop with the same order: prompt built, then the last hook called.

It does what Agent Zero's ``agent.py`` does (0.9 and 1.x), as far as an extension can see: which hooks are
called when, the use of both kinds of extras, and the model's prompt.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any

__all__ = ["AgentZeroDouble", "ExtensionDouble"]


class ExtensionDouble:
    """Stand-in for Agent Zero's ``Extension``."""

    def __init__(self, agent: Any, **kwargs: Any) -> None:
        self.agent = agent
        self.kwargs = kwargs

    async def execute(self, **kwargs: Any) -> None:
        """Overridden by extensions."""


class AgentZeroDouble:
    """One agent. ``prompts`` collects the model's prompts, one text per call of the model."""

    def __init__(
        self,
        extensions: Mapping[str, Sequence[type[ExtensionDouble]]],
        *,
        model: str = "",
        message_ids: bool = True,
    ) -> None:
        """Prepare an agent.

        Args:
            extensions: hook name -> extension classes, in the order they are called.
            model: name of the chat model.
            message_ids: whether history messages have ids; those of older versions have none.
        """
        self.config = SimpleNamespace(chat_model=SimpleNamespace(name=model))
        self.data: dict[str, Any] = {}
        self.prompts: list[str] = []
        self.loop_data = SimpleNamespace()
        self._extensions = extensions
        self._message_ids = message_ids
        self._messages = 0

    def get_data(self, field: str) -> Any:
        """A value of the agent's free data."""
        return self.data.get(field)

    def set_data(self, field: str, value: Any) -> None:
        """Set a value of the agent's free data."""
        self.data[field] = value

    async def monologue(self, text: str, *, iterations: int = 1) -> None:
        """Answer one user message; every iteration but the last calls a tool."""
        self._messages += 1
        message = SimpleNamespace(ai=False, content={"user_message": text})
        if self._message_ids:
            message.id = f"message-{self._messages}"
        self.loop_data = SimpleNamespace(
            user_message=message,
            system=[],
            history_output=[],
            extras_temporary=OrderedDict(),
            extras_persistent=OrderedDict(),
        )
        for _ in range(iterations):
            prompt = await self._prepare_prompt()
            await self._call("before_main_llm_call")
            self.prompts.append(prompt)

    async def _prepare_prompt(self) -> str:
        await self._call("message_loop_prompts_before")
        self.loop_data.system = ["You are an agent."]
        self.loop_data.history_output = [self.loop_data.user_message.content]
        await self._call("message_loop_prompts_after")
        extras = {**self.loop_data.extras_persistent, **self.loop_data.extras_temporary}
        self.loop_data.extras_temporary.clear()
        return "\n\n".join([*self.loop_data.system, str(self.loop_data.history_output), str(extras)])

    async def _call(self, hook: str) -> None:
        for extension in self._extensions.get(hook, ()):
            await extension(agent=self).execute(loop_data=self.loop_data)
