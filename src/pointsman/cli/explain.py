"""``pointsman explain``: signals, weights, confidence, and what would have changed the decision."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from pointsman.cli.options import JsonOption, ProfileOption
from pointsman.cli.output import print_json, standard_input
from pointsman.decision.memory import Memory
from pointsman.decision.policy import DomainPolicy, Policy
from pointsman.domains import default_domains
from pointsman.drivers import drive, no_model
from pointsman.errors import PointsmanError
from pointsman.factory import build_engine, read_profile
from pointsman.tiers import Explanation, explain
from pointsman.vocabulary import Stage
from pointsman.wire.request import request_from_text

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from pointsman.decision.engine import Decided

__all__ = ["register"]

#: Characters of a prompt that are printed; the decision is made on all of it.
_SHOWN = 2_000

_STAGES = {
    Stage.OVERRIDE: "an override",
    Stage.RULES: "the weighted score",
    Stage.LEARNED: "the learned router",
}


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(name="explain")(explain_text)


def explain_text(
    text: Annotated[str, typer.Argument(help="The prompt; - reads standard input.")],
    *,
    profile: ProfileOption = "default",
    as_json: JsonOption = False,
) -> None:
    """Explain the decision for a prompt: signals, weights, and what would have changed it."""
    prompt = _said() if text == "-" else text
    engine = build_engine(
        Policy(profile=read_profile(profile), domains=DomainPolicy(domains=default_domains()))
    )
    decided = drive(engine.decide(request_from_text(prompt), Memory(), ""), no_model)
    explanation = explain(engine.scorer, engine.scanner.scan(decided.words.text))
    if as_json:
        print_json(_plain(explanation, decided))
    else:
        _show(explanation, decided)


def _said() -> str:
    try:
        return standard_input().read().decode("utf-8-sig")
    except UnicodeDecodeError:
        raise PointsmanError("standard input is not UTF-8") from None


def _plain(explanation: Explanation, decided: Decided) -> dict[str, object]:
    domains = decided.decision.domains
    return {
        "text": decided.words.text,
        "extraction": decided.words.rules,
        **msgspec.to_builtins(explanation),
        "domains": domains.to_json() if domains else None,
    }


def _show(explanation: Explanation, decided: Decided) -> None:
    from rich.console import Console

    decision = explanation.decision
    console = Console(highlight=False)
    sure = f"score {decision.score:.3f}, confidence {decision.confidence:.2f}"
    console.print(f"[bold]{decision.tier}[/]  {sure}")
    unsure = "; confidence is low" if decision.needs_verification else ""
    stage = _STAGES.get(decision.stage, decision.stage)
    console.print(f"decided by {stage}, profile {explanation.profile}{unsure}", markup=False)
    for reason in decision.reasons:
        console.print(f"  {reason.detail}", markup=False)
    if decided.words.text:
        console.print()
        console.print(_highlighted(decided.words.text, explanation))
    if decided.words.rules:
        console.print(f"removed before classification: {', '.join(decided.words.rules)}", markup=False)
    console.print()
    console.print(_table(explanation))
    _show_boundaries(console, explanation)
    _show_changes(console, explanation)
    if domains := decided.decision.domains:
        console.print(f"\nDomains: {domains.effective.signature} (rule {domains.rule})", markup=False)


def _highlighted(text: str, explanation: Explanation) -> Text:
    from rich.text import Text

    shown = Text(text[:_SHOWN] + ("…" if len(text) > _SHOWN else ""), style="dim")
    words = [word for part in explanation.contributions for word in part.keywords]
    shown.highlight_words(words, "bold not dim", case_sensitive=False)
    return shown


def _table(explanation: Explanation) -> Table:
    from rich.table import Table

    table = Table("dimension", "measure", "found", box=None, pad_edge=False, header_style="bold")
    for name in ("score", "weight", "adds"):
        table.add_column(name, justify="right")
    fired = [part for part in explanation.contributions if part.contribution or part.keywords]
    for part in sorted(fired, key=lambda part: -abs(part.contribution)):
        table.add_row(
            part.dimension,
            str(part.measure),
            ", ".join(part.keywords),
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
        console.print(f"  {change}", markup=False)
