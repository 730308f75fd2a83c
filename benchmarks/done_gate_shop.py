"""A task with tests that really fail or pass: the steps of one scenario, by the tools of the agent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from real_agents.task import Asked, Offered, Task

__all__ = ["Edit", "Shop"]

#: A file and its new text.
Edit = tuple[str, str]
#: Editing tools -> the names of their parameters: path, old text, new text.
_EDITORS = {
    "file_path": ("file_path", "old_string", "new_string"),  # Claude Code, Qwen Code
    "filePath": ("filePath", "oldString", "newString"),  # opencode
}


class Shop(Task):
    """Edits and commands in a fixed order, then an answer without calls, each time it is asked again."""

    def __init__(self, folder: str, files: Mapping[str, str], script: Sequence[Edit | str]) -> None:
        super().__init__(folder)
        self._files = dict(files)
        self.script: list[Edit | str | Path] = []
        for step in script:
            # Agents refuse to edit what was not read before.
            self.script += [Path(step[0]), step] if isinstance(step, tuple) else [step]
        self.steps = len(self.script)

    @property
    def files(self) -> dict[str, str]:
        """The project before the agent starts."""
        return self._files

    def _check(self, step: int, turn: Asked) -> None:
        del step, turn

    def _planned(self, step: int, turn: Asked) -> list[tuple[Offered, dict[str, Any] | str]]:
        offered = {tool.own_name: tool for tool in turn.tools}
        match self.script[step - 1]:
            case Path() as path:
                return [self._read(offered, str(path))]
            case str() as command:
                return [self._shell(offered, command)]
            case (name, text):
                return [self._edit(offered, name, text)]

    def _read(self, offered: Mapping[str, Offered], name: str) -> tuple[Offered, dict[str, Any] | str]:
        for reader in ("Read", "read", "read_file"):
            if reader in offered:
                return offered[reader], {offered[reader].field: f"{self.folder}/{name}"}
        return self._shell(offered, f"cat {name}")

    def _edit(
        self, offered: Mapping[str, Offered], name: str, text: str
    ) -> tuple[Offered, dict[str, Any] | str]:
        before = Path(self.folder, name).read_text(encoding="utf-8")
        for editor in ("Edit", "edit"):
            if editor in offered:
                values = (f"{self.folder}/{name}", before, text)
                return offered[editor], dict(zip(_EDITORS[offered[editor].field], values, strict=True))
        if "apply_patch" in offered:
            changed = [f"-{line}\n" for line in before.splitlines()]
            changed += [f"+{line}\n" for line in text.splitlines()]
            patch = f"*** Begin Patch\n*** Update File: {name}\n@@\n{''.join(changed)}*** End Patch\n"
            return offered["apply_patch"], patch
        return self._shell(offered, f"cat > {name} <<'END'\n{text}END")
