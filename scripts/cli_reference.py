"""Print docs/reference/cli.md: the help of every command, as the program gives it. A test compares."""

from __future__ import annotations

from typing import Any

import typer

from pointsman.cli import app

HEAD = """# Command line

Printed by `python scripts/cli_reference.py`. Exit codes: 0 done; 1 done, but some lines or checks
failed, or nobody read the output to its end; 2 wrong usage or configuration; 130 interrupted. Errors go to
standard error, a line and a hint; standard output holds nothing but results. Wherever a file of JSON lines is
read, `-` or nothing is standard input, and a name that ends in `.gz` is unpacked.
"""


def page() -> str:
    """The whole page."""
    return HEAD + "".join(_sections(typer.main.get_command(app), "pointsman"))


def _sections(command: Any, name: str) -> list[str]:
    commands = getattr(command, "commands", None)
    if not commands:
        return [_section(command, name)]
    shown = ((each, inner) for each, inner in commands.items() if not inner.hidden)
    return [section for each, inner in shown for section in _sections(inner, f"{name} {each}")]


def _section(command: Any, name: str) -> str:
    arguments = [each for each in command.params if each.param_type_name == "argument"]
    options = [each for each in command.params if each.param_type_name == "option"]
    labels = [_label(each) for each in arguments]
    usage = " ".join([name, *(["[OPTIONS]"] if options else []), *labels])
    lines = [f"\n## `{name}`\n", f"\n{_words(command.help)}\n\n", f"    {usage}\n"]
    rows = [(label, each.help) for label, each in zip(labels, arguments, strict=True)]
    rows += [(", ".join((*each.opts, *each.secondary_opts)), each.help) for each in options]
    if rows:
        lines.append("\n| | |\n|---|---|\n")
        lines += [f"| `{label}` | {_words(text)} |\n" for label, text in rows]
    return "".join(lines)


def _label(argument: Any) -> str:
    label = argument.metavar or argument.name.upper()
    return label if argument.required else f"[{label}]"


def _words(text: str | None) -> str:
    return " ".join((text or "").split()).replace("|", "\\|")


if __name__ == "__main__":
    print(page(), end="")
