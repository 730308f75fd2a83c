"""``pointsman outcomes judge``: let a model judge shadow answers, once its agreement with people is shown."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated

import typer

from pointsman.cli.decisions import opened
from pointsman.cli.options import ConfigOption, LedgerOption
from pointsman.cli.output import config_file, echo, needs_extra
from pointsman.config import Config, load
from pointsman.errors import ConfigError, PointsmanError, UpstreamError
from pointsman.reports.judge import (
    ENOUGH_PAIRS,
    Judgement,
    Pair,
    combine,
    labels,
    pairs_in,
    question,
    refusal,
    summarise,
    tries_in,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pointsman.upstreams.chat_model_port import ChatModel
    from pointsman.vocabulary import ModelSpec

__all__ = ["judge_all", "judge_outcomes"]

_SECONDS = 60.0  # for one question


def judge_outcomes(
    *,
    judge: Annotated[str, typer.Option(help="Configured name of the model that judges.")],
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="Pairs to judge at most.")] = 200,
    ledger: LedgerOption = None,
    config: ConfigOption = None,
) -> None:
    """Let a model judge pairs of an answer and a shadow's answer, blind and in both orders.

    Pairs that people judged come first. No label is written unless the judge agrees with them more often than
    one who always prefers the same side. A refused try is recorded with its cost; the next one needs more.
    """
    from asyncio import run  # most commands do without

    loaded = load(config_file(config))
    if judge not in loaded.models:
        raise ConfigError(f'no model "{judge}"', hint=f"configured: {', '.join(loaded.models) or 'none'}")
    with opened(ledger, config) as store:
        found = list(pairs_in(store.records(), judge))
        known = [pair for pair in found if pair.preference]
        if len(known) < ENOUGH_PAIRS:
            raise PointsmanError(
                f"{len(known)} pairs have outcomes of people for both answers that differ, and the "
                f"agreement of a judge needs {ENOUGH_PAIRS}",
                hint='give one for each answer: "model" names the shadow; [shadow] text keeps both',
            )
        rest = [pair for pair in found if not pair.preference]
        refused = tries_in(store.records())
        asked = [*known, *rest][: max(limit, ENOUGH_PAIRS)]
        said = run(_judge(judge, loaded, asked, len(known), refused))
        summary = summarise(said, refused=refused)
        for line in summary.lines():
            echo(line)
        now = time.time()
        if not summary.counts:
            for pair, judgement in said:
                store.append(refusal(pair, judgement, judge, at=now))
            store.flush()
            low, high = summary.interval
            raise PointsmanError(
                f'"{judge}" agrees with people in {summary.agreement:.0%} of {summary.compared} pairs '
                f"({low:.0%} to {high:.0%}): not better than always the same side; no label was written",
                hint="--judge names another model",
            )
        for pair, judgement in said:
            for outcome in labels(pair, judgement, judge, at=now):
                store.append(outcome)
        store.flush()
    echo(f"added {2 * len(said):,} outcomes of {judge}")


async def _judge(
    name: str, config: Config, pairs: Sequence[Pair], known: int, refused: int
) -> list[tuple[Pair, Judgement]]:
    """Judge the pairs; after those that people judged, only where the judge is better than a constant one."""
    with needs_extra("gateway", needed_for="asking a model"):
        from pointsman.upstreams.chat_model import chat_models
        from pointsman.upstreams.connections import Connections
    model = chat_models(config.models, config.upstreams, Connections()).get(name)
    if model is None:
        raise ConfigError(f'model "{name}" cannot be asked', hint="its upstream needs an api_key of its own")
    said = await judge_all(model, config.models[name], pairs[:known])
    if summarise(said, refused=refused).counts:
        said += await judge_all(model, config.models[name], pairs[known:])
    return said


async def judge_all(model: ChatModel, spec: ModelSpec, pairs: Sequence[Pair]) -> list[tuple[Pair, Judgement]]:
    """Ask a model about pairs, each in both orders. A pair that it does not answer is left out."""
    from pointsman.upstreams.chat_model_port import ask_metered

    found = []
    for pair in pairs:
        words, cost = [], 0.0
        try:
            for swapped in (False, True):
                answer = await ask_metered(model, question(pair, swapped=swapped), timeout=_SECONDS)
                words.append(answer.text)
                used = answer.usage
                if used is not None:
                    cost += spec.cost(used.input or 0, used.cached or 0, used.output or 0) or 0.0
        except UpstreamError as error:
            echo(f"{pair.decision}: {error}", err=True)
            continue
        preference, by_position = combine(*words)
        found.append((pair, Judgement(preference, by_position, cost)))
    return found
