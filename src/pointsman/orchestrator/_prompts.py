"""Prompt templates of the nodes. Templates are data and can be replaced."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Final

from pointsman.errors import ConfigError

__all__ = ["NodePrompts"]

#: The fields each template may use.
_FIELDS: Final = {
    "task_extraction": (),
    "orchestrator": ("capabilities", "results", "failure"),
    "respond": ("task", "results", "note"),
    "clarify": ("task", "objective"),
}


@dataclass(frozen=True, slots=True)
class NodePrompts:
    """Instructions of the nodes that ask a model. The user's words are always sent apart, as data."""

    task_extraction: str = """\
State what the person wants now, as one task that can be understood without the conversation. Resolve "it",
"there" and the like. Add nothing they did not ask for. Answer with the task alone."""

    orchestrator: str = """\
Plan how to carry out the task with these capabilities and no others:
{capabilities}
- respond: answer the person with the results (always available)
- clarify: ask the person for what is missing (always available)

Results at hand: {results}
{failure}
Answer with JSON only:
{{"steps": [{{"capability": "…", "context_key": "a new name for its result", "task_objective": "…", \
"inputs": ["context keys it reads"]}}]}}
A step may read results at hand and results of earlier steps. The last step is respond or clarify."""

    respond: str = """\
Answer the person. The task was: {task}
Results: {results}
{note}
Say only what the results and the conversation support."""

    clarify: str = """\
Ask the person one short question that lets you go on with the task: {task}
What is missing: {objective}"""

    def __post_init__(self) -> None:
        """Try every template once.

        Raises:
            ConfigError: one names a field that does not exist.
        """
        for field in fields(self):
            known = _FIELDS[field.name]
            try:
                getattr(self, field.name).format(**dict.fromkeys(known, ""))
            except (KeyError, IndexError, ValueError) as error:
                names = ", ".join(known) or "none"
                raise ConfigError(
                    f"the prompt {field.name} cannot be filled: {error}",
                    hint=f"its fields: {names}; other braces are doubled",
                ) from None
