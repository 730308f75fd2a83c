"""``pointsman explain``: signals, weights, confidence, and what would have changed the decision."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from pointsman.cli.output import JsonOption, check_profile, echo, print_json, standard_input
from pointsman.config import AnyKey, Config, find, load
from pointsman.decision.memory import Memory
from pointsman.decision.policy import DomainPolicy, Policy
from pointsman.diagnostics.explained import (
    STAGES,
    Explained,
    describe_selection,
    describe_served,
    explain_request,
    headline,
)
from pointsman.domains import default_domains
from pointsman.errors import PointsmanError
from pointsman.factory import build_engine, build_policy, open_sessions, read_profile
from pointsman.printable import printable
from pointsman.runtime import decode_memory
from pointsman.tiers import Explanation
from pointsman.wire.request import request_from_text

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text


#: Characters of a prompt that are printed; the decision is made on all of it.
_SHOWN = 2_000


def explain_text(
    text: Annotated[str, typer.Argument(help="The prompt; - reads standard input.")],
    *,
    config: Annotated[
        Path | None,
        typer.Option(
            help="Decide as the gateway does with this configuration; default: pointsman.toml here, "
            "then the user's."
        ),
    ] = None,
    model: Annotated[str, typer.Option(help="Model that the request asks for.")] = "auto",
    session: Annotated[
        str, typer.Option(help="Start from the memory of this session; needs a persistent store.")
    ] = "",
    profile: Annotated[
        str | None,
        typer.Option(help="seed, default, or a profile file; no configuration is then read."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Explain the decision for a prompt: signals, weights, and what would have changed it.

    With a configuration, the decision is that of the gateway, except that no model is asked; tier,
    model, upstream and price come last.
    """
    prompt = _said() if text == "-" else text
    loaded = _configuration(profile, config)
    engine = build_engine(build_policy(loaded) if loaded else _policy(profile))
    request = msgspec.structs.replace(request_from_text(prompt, session=session), model=model)
    memory = _memory(loaded, session) if session else Memory()
    explained = explain_request(engine, request, memory, loaded)
    if as_json:
        print_json(explained.to_json())
        return
    if explained.served:
        echo(headline(explained.served) + "\n")
    _show(explained)
    if explained.served:
        echo("\n" + "\n".join(describe_served(explained.served)))


def _configuration(profile: str | None, file: Path | None) -> Config | None:
    check_profile(profile, file)
    file = file or (find() if profile is None else None)
    return load(file, AnyKey()) if file else None


def _policy(profile: str | None) -> Policy:
    return Policy(profile=read_profile(profile or "default"), domains=DomainPolicy(domains=default_domains()))


def _memory(config: Config | None, session: str) -> Memory:
    """Return the memory of a session, from the store of the gateway.

    Raises:
        PointsmanError: the memory is in the gateway's process alone.
    """
    if config is None or config.sessions.store == "memory":
        raise PointsmanError(
            "the memory of sessions is in the gateway alone",
            hint='store = "sqlite" in [sessions] writes it to a file',
        )
    with closing(open_sessions(config.sessions)) as store:
        return decode_memory(store.get(session))


def _said() -> str:
    try:
        return standard_input().read().decode("utf-8-sig")
    except UnicodeDecodeError:
        raise PointsmanError("standard input is not UTF-8") from None


def _show(explained: Explained) -> None:
    from rich.console import Console

    explanation, words = explained.tier, explained.words
    decision = explanation.decision
    console = Console(highlight=False)
    sure = f"score {decision.score:.3f}, confidence {decision.confidence:.2f}"
    by_rules = "" if explained.served is None else "by the rules: "
    console.print(f"{by_rules}[bold]{decision.tier}[/]  {sure}")
    unsure = "; confidence is low" if decision.needs_verification else ""
    _say(console, f"{STAGES[decision.stage]}, profile {explanation.profile}{unsure}")
    for reason in decision.reasons:
        _say(console, f"  {reason.detail}")
    if words.text:
        console.print()
        console.print(_highlighted(words.text, explanation))
    if words.rules:
        _say(console, f"removed before classification: {', '.join(words.rules)}")
    console.print()
    console.print(_table(explanation))
    _show_boundaries(console, explanation)
    _show_changes(console, explanation)
    if domains := explained.decision.domains:
        _say(console, f"\nDomains: {domains.effective.signature} (rule {domains.rule})")
    if capabilities := explained.decision.capabilities:
        _say(console, "\n" + "\n".join(describe_selection(capabilities)))


def _say(console: Console, text: str) -> None:
    """Print what may quote the prompt."""
    console.print(printable(text, keep="\n"), markup=False)


def _highlighted(text: str, explanation: Explanation) -> Text:
    from rich.text import Text

    cut = text[:_SHOWN] + ("…" if len(text) > _SHOWN else "")
    shown = Text(printable(cut, keep="\n\t"), style="dim")
    words = [word for part in explanation.contributions for word in part.keywords]
    shown.highlight_words(words, "bold not dim", case_sensitive=False)
    return shown


def _table(explanation: Explanation) -> Table:
    from rich.table import Table
    from rich.text import Text

    table = Table("dimension", "measure", "found", box=None, pad_edge=False, header_style="bold")
    for name in ("score", "weight", "adds"):
        table.add_column(name, justify="right")
    fired = [part for part in explanation.contributions if part.contribution or part.keywords]
    for part in sorted(fired, key=lambda part: -abs(part.contribution)):
        table.add_row(
            part.dimension,
            str(part.measure),
            Text(printable(", ".join([*part.keywords, *["(pattern)"] * part.has_pattern]))),
            f"{part.score:.3f}",
            f"{part.weight:.2f}",
            f"{part.contribution:+.3f}",
        )
    table.add_row("total", "", "", "", "", f"{explanation.decision.score:+.3f}", style="bold")
    return table


def _show_boundaries(console: Console, explanation: Explanation) -> None:
    low, middle, high = explanation.boundaries
    console.print(f"\nSIMPLE < {low:g} ≤ MEDIUM < {middle:g} ≤ COMPLEX < {high:g} ≤ REASONING", markup=False)


def _show_changes(console: Console, explanation: Explanation) -> None:
    if not explanation.changes:
        console.print("\nNo small change of the text gives another tier.")
        return
    console.print("\nWhat would have changed it:")
    for change in explanation.changes:
        _say(console, f"  {change}")
