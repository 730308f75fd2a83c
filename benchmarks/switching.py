"""What switching between models within a session costs by ``[tiers] switching``, on recorded runs.

    .venv/bin/python benchmarks/switching.py [--large 0.5] [--draws 10]

Reads ../shared/data/trajectories and ../shared/data/agent_logs (or $POINTSMAN_SHARED/data).

Each user message is given to the large model with a chance of one half (a tier decided by the prompt is a
coin on such runs), and the product's own rule (``model_choice.settle``, ``decision.switching``) decides what
serves it. Each model has a prompt cache that lasts for the session. The small model costs .2 of the large
one; a cached token .1 of one of input, a token written 1.25, a token of output 5. 8,000 tokens of
instructions and tools come before a run that is recorded without them; four characters are a token. Costs
are over always large, in the mean of the runs of a source; "re-written" is the part that would not be paid
if caches moved with the session.
"Calls to come" is the median of what follows a user message over what came before it.
"""

import argparse
import gzip
import os
import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, median

import msgspec

from pointsman.audit.collect import Collection
from pointsman.audit.sources import Home, sources
from pointsman.decision.decision import RequestInput
from pointsman.decision.memory import Memory
from pointsman.decision.switching import begins, in_use, remembered
from pointsman.model_choice.choice import InUse, Load, Switching, settle
from pointsman.vocabulary import AgentRole, ModelSpec, Purpose, WireFormat

DATA = Path(os.environ.get("POINTSMAN_SHARED", "../shared")) / "data"
SYSTEM, CHARACTERS, ANSWER = 8_000, 4, 500
SMALL, LARGE = (
    ModelSpec(
        name, "main", name,
        input_per_million=part, cached_input_per_million=0.1 * part, cache_write_per_million=1.25 * part,
        output_per_million=5 * part,
    )
    for name, part in (("small", 0.2), ("large", 1.0))
)  # fmt: skip
MODELS = {"small": SMALL, "large": LARGE}
#: "call" and "message": a coin for each, and no weighing at all.
POLICIES = ("large", "small", "call", "message", "upward", "weighed", "session")


@dataclass
class Call:
    context: int  # tokens of the prompt
    fresh: int  # of these, the person's
    output: int
    message: bool  # the first call of a user message
    agent: str = ""
    compacted: bool = False


def steps() -> Iterator[tuple[str, list[Call]]]:
    """Runs recorded as sizes of arguments and results; calls without a tool are not in them."""
    with gzip.open(DATA / "trajectories/step_features.jsonl.gz") as lines:
        for line in lines:
            run = msgspec.json.decode(line)
            if run["source"].startswith("tau-bench-airline"):
                continue  # recorded as messages too
            calls, context, spoke, last = [], SYSTEM, True, None
            for step in run["steps"]:
                if step["turn"] != last:
                    calls.append(Call(context, 0, 0, message=spoke))
                    spoke, last = False, step["turn"]
                written, read = step["args_len"] // CHARACTERS, step["res_len"] // CHARACTERS
                calls[-1].output += written
                context += written + read
                spoke = spoke or step["user_after"]
            yield run["source"], calls


def airline() -> Iterator[tuple[str, list[Call]]]:
    with gzip.open(DATA / "trajectories/tau_bench_airline.jsonl.gz") as lines:
        for line in lines:
            calls, context, spoke, fresh = [], 0, False, 0
            for message in msgspec.json.decode(line)["messages"]:
                size = len(msgspec.json.encode(message)) // CHARACTERS
                if message["role"] == "assistant":
                    calls.append(Call(context, fresh, size, message=spoke))
                    spoke, fresh = False, 0
                elif message["role"] == "user":
                    spoke, fresh = True, size
                context += size
            yield "tau-bench airline, messages", calls


def logs() -> Iterator[tuple[str, list[Call]]]:
    """Sessions of real clients on a scripted upstream: token counts as logged."""
    home = Home.at(DATA / "agent_logs/home")
    for session, _ in Collection(home, list(sources())).sessions():
        yield (
            f"agent logs: {session.client}",
            [
                Call(
                    each.usage.input_tokens, len(each.prompt or "") // CHARACTERS, each.usage.output_tokens,
                    message=each.prompt is not None, agent=each.agent, compacted=each.new_context,
                )
                for each in session.requests if each.is_main or each.agent
            ],
        )  # fmt: skip


class Caches:
    """What every model of a session has in its prompt cache, and what was paid."""

    def __init__(self) -> None:
        self.cached: dict[tuple[str, str], int] = {}
        self.paid = self.without = 0.0

    def pay(self, model: ModelSpec, call: Call) -> None:
        if call.compacted:
            self.cached = {key: min(tokens, SYSTEM) for key, tokens in self.cached.items()}
        of = (model.name, call.agent)
        read = min(self.cached.get(of, 0), call.context)
        moved = min(
            max((n for (_, agent), n in self.cached.items() if agent == call.agent), default=0), call.context
        )
        self.paid += self._cost(model, call, read)
        self.without += self._cost(model, call, moved)
        self.cached[of] = call.context

    @staticmethod
    def _cost(model: ModelSpec, call: Call, read: int) -> float:
        return model.cost(call.context, read, call.output, call.context - read) or 0.0


def served(calls: list[Call], policy: str, large: float, seed: int) -> tuple[float, float, float]:
    """Cost, cost if caches moved with the session, and the share of calls of the large model."""
    coin, caches, memory = random.Random(seed), Caches(), Memory()
    wanted, of_large = "small", 0
    agents = {agent: at for at, agent in enumerate(dict.fromkeys(call.agent for call in calls))}
    for at, call in enumerate(calls):
        if policy == "call" or call.message or not at:
            wanted = "large" if coin.random() < large else "small"
        model = policy if policy in MODELS else wanted
        if policy in {"upward", "weighed", "session"}:
            memory, model = ruled(memory, call, at, policy, wanted, agents[call.agent])
        caches.pay(MODELS[model], call)
        of_large += model == "large"
    return caches.paid, caches.without, of_large / len(calls)


def ruled(memory: Memory, call: Call, at: int, policy: str, wanted: str, agent: int) -> tuple[Memory, str]:
    """The model by the product's rule, which knows the prompt's length and not what is cached."""
    turns = memory.turns + call.message
    load = Load(call.context, fresh=call.fresh, output=ANSWER)
    asked = RequestInput(
        format=WireFormat.CHAT, model_asked="auto", session="s", arrived_at=0.0,
        messages=1 if call.compacted else 2 * at + 1,
        role=AgentRole.SUBAGENT if agent else AgentRole.MAIN, thread=agent,
        purpose=Purpose.MESSAGE if call.message else Purpose.TOOL_ITERATION,
    )  # fmt: skip
    used: InUse | None
    if policy == "upward":
        load = msgspec.structs.replace(load, turns=max(memory.turns, 1))
        used = InUse(memory.model, in_tool_loop=not call.message, load=load) if memory.model else None
    elif begins(memory, asked):
        used = None
    else:
        switching: Switching = "weighed" if policy == "weighed" else "session"
        used = in_use(
            memory, asked, load, switching=switching, stays=False, same=not call.message, raised=False
        )
    chosen = wanted
    if used is not None:
        rise = (wanted == "large") - (used.model == "large")
        chosen, _ = settle(
            MODELS[used.model], MODELS[wanted],
            rise=rise, in_tool_loop=used.in_tool_loop, load=used.load, switching=used.switching,
        )  # fmt: skip
    after = msgspec.structs.replace(memory, model=chosen, turns=turns)
    return (after if policy == "upward" else remembered(memory, after, asked, chosen)), chosen


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--large", type=float, default=0.5, help="chance that a user message wants it")
    parser.add_argument("--draws", type=int, default=10)
    asked = parser.parse_args()
    by_source: dict[str, list[list[Call]]] = {}
    for read in (steps, airline, logs):
        for source, calls in read():
            if len(calls) > 1:
                by_source.setdefault(source, []).append(calls)
    found: dict[str, list[tuple[float, float, float]]] = {}
    for source, runs in sorted(by_source.items()):
        messages = fmean(sum(call.message for call in calls) or 1 for calls in runs)
        print(f"{source}: {len(runs)} runs, {fmean(map(len, runs)):.0f} calls, {messages:.1f} user messages")
        ratios = [
            (len(calls) - at) / at for calls in runs for at, call in enumerate(calls) if at and call.message
        ]
        if ratios:
            print(f"  calls to come over calls so far: {median(ratios):.2f} at {len(ratios)} user messages")
        whole = [served(calls, "large", 1, 0)[0] for calls in runs]
        for policy in POLICIES:
            draws = 1 if policy in MODELS else asked.draws
            figures = [
                (paid / all_large, (paid - without) / all_large, share)
                for draw in range(draws)
                for at, (calls, all_large) in enumerate(zip(runs, whole, strict=True))
                for paid, without, share in [served(calls, policy, asked.large, 100_003 * draw + at)]
            ]
            cost, again, share = (fmean(column) for column in zip(*figures, strict=True))
            found.setdefault(policy, []).append((cost, again, share))
            print(
                f"  {policy:8} cost {cost:.3f}  re-written {again:.3f}  calls of large {share:.0%}",
                flush=True,
            )
    print("mean of sources (worst)")
    for policy, rows in found.items():
        costs, writings, shares = zip(*rows, strict=True)
        print(
            f"  {policy:8} cost {fmean(costs):.3f} ({max(costs):.3f})  re-written {fmean(writings):.3f}"
            f" ({max(writings):.3f})  large {fmean(shares):.0%} ({min(shares):.0%} .. {max(shares):.0%})"
        )


if __name__ == "__main__":
    main()
