"""Which tier and model real clients' messages get from what `config init` writes for two keys.

    npm install --prefix /tmp/agents @anthropic-ai/claude-code @qwen-code/qwen-code @github/copilot \
        @openai/codex
    python -m venv /tmp/aider && /tmp/aider/bin/pip install aider-chat
    python scripts/client_tiers.py /tmp/agents/node_modules --aider /tmp/aider/bin/aider [--source SRC]

Each client sends each of twenty short and twenty hard messages, in a process of its own. The configuration is
that of `pointsman config init` with a key of OpenAI and of Anthropic in the environment; the demo answers in
the place of both. Printed are the tiers and models of the requests that end with the message, and beside them
the requests that nobody typed. ``--source`` names the `src` folder of another version, which then serves.
``--keep`` writes each request, ``--kept`` tabulates what was written, and ``--send`` sends it once more, so
that two versions decide the same requests. Everything stays on this machine.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

from real_agents.clients import AGENTS, TASK, Agent, Started, aider, run
from real_agents.gateway import free_port, running
from real_agents.record import Recorder, Seen
from real_agents.upstream import CALLERS_KEY

from pointsman.vocabulary import WireFormat

SHORT = (
    "hello",
    "ok thanks",
    "What is 2+2?",
    "rename x to y in a.py",
    "which files are here?",
    "what does ls do?",
    "yes, go on",
    "what time is it in UTC if it is noon in Rome?",
    "add a newline at the end of a.py",
    "what is the capital of Peru?",
    "show me the first line of a.py",
    "fix the typo in the word recieve",
    "stop",
    "translate 'good morning' to French",
    "is a.py empty?",
    "what is the plural of index?",
    "delete the last line of a.py",
    "say it again, shorter",
    "how many days has February in 2028?",
    "thanks, that works",
)
HARD = (
    """
Prove step by step that there are infinitely many primes of the form 4k+3.
Design a distributed rate limiter for 200 nodes that survives partitions; compare token bucket with sliding
  window, analyse the consistency trade-offs and write the protocol down.
Refactor the authentication module into a hexagonal architecture, migrate the database schema without
  downtime, and explain the rollback plan for each step.
Derive the time complexity of this recurrence formally: T(n) = 2T(n/2) + n log n, and prove the bound.
Debug a deadlock between three async workers that share two locks and a bounded queue: find the root cause,
  explain the interleaving, and propose a fix that keeps ordering guarantees.
Implement a lock-free concurrent hash map in Rust with safe memory reclamation, and prove linearizability.
Analyse the security of our OAuth flow: threat model, token storage, CSRF, replay, and a migration plan.
Write an optimising compiler pass for loop-invariant code motion over SSA, with dominance analysis and
  tests.
Prove that the halting problem is undecidable, then derive Rice's theorem from it step by step.
Design the architecture of a multi-tenant event-sourced billing system: schema, idempotency, reconciliation,
  failure modes, and capacity planning for 50,000 events per second.
Reason through why the Raft leader election livelocks here, considering clock skew and asymmetric
  partitions, and evaluate three algorithms that would avoid it.
Optimise this PostgreSQL schema for analytical queries: explain the query plans, propose indexes and
  partitioning, and analyse the trade-offs for write amplification.
Derive backpropagation for a transformer layer with multi-head attention from first principles.
Migrate a Django monolith to microservices: identify bounded contexts, design APIs, plan data consistency
  with sagas, and describe the deployment pipeline with Kubernetes.
Find and fix the memory leak in this multi-threaded C++ server, explain the root cause analysis step by
  step, and add regression tests and benchmarks.
Compare the CAP trade-offs of Spanner, Dynamo and CockroachDB and design a replication strategy for our
  payments ledger, with a formal argument for its consistency.
Implement a Kalman filter for sensor fusion in C++, derive the equations, and analyse numerical stability.
Solve this step by step: a graph has n vertices and every vertex has degree at least n/2; prove that it is
  Hamiltonian.
Design and implement an incremental garbage collector with write barriers; analyse pause times and prove
  that no reachable object is freed.
Plan a zero-downtime migration from MySQL to PostgreSQL for 4 TB with dual writes, verification, cut-over
  and rollback, and evaluate the risks of each phase.
""".strip()
    .replace("\n  ", " ")
    .splitlines()
)  # an indented line goes on
_TIMEOUT = 120.0  # seconds for one message


class Answered(NamedTuple):
    """One request of a client, as it was decided."""

    is_message: bool  # it holds what was typed, and not for another purpose than to answer it
    tier: str
    model: str
    purpose: str


def _copilot(modules: Path, base: str, folder: Path) -> Started:
    del folder
    command = [str(modules / ".bin/copilot"), "--no-auto-update", "--allow-all-tools", "-p", TASK]
    named = {"BASE_URL": f"{base}/v1", "API_KEY": CALLERS_KEY}
    own = {f"COPILOT_PROVIDER_{name}": value for name, value in named.items()}
    return Started(command, own | {"COPILOT_MODEL": "auto"})


#: It keeps to the file, and commits nothing.
_OF_AIDER = ("--no-git", "--no-auto-commits", "a.py")


def clients(program: Path | None) -> list[Agent]:
    """The clients in the order of the table; aider where its program is named."""
    known = {agent.name: agent for agent in AGENTS}
    return [
        *([Agent("aider", WireFormat.CHAT, "", aider(program, *_OF_AIDER))] if program else []),
        known["Qwen Code"],
        Agent("Copilot CLI", WireFormat.CHAT, "@github/copilot", _copilot),
        known["Claude Code"],
        known["Codex"],
    ]


@contextmanager
def gateway(folder: Path, source: Path | None) -> Iterator[int]:
    """Serve what `config init` writes for two keys; the demo answers for both providers."""
    environment = os.environ | {"OPENAI_API_KEY": "of-openai", "ANTHROPIC_API_KEY": "of-anthropic"}
    environment["HOME"] = str(folder)
    if source:
        environment["PYTHONPATH"] = str(source.resolve())
    for name in ("GEMINI_API_KEY", "GOOGLE_API_KEY", "OPENROUTER_API_KEY"):
        environment.pop(name, None)
    command = [sys.executable, "-m", "pointsman"]
    file = folder / "pointsman.toml"
    subprocess.run(
        [*command, "config", "init", "-o", str(file)], env=environment, check=True, capture_output=True
    )
    port = free_port()
    # The provider is told, so that prices are known: those of two models of a tier are equal.
    written = file.read_text()
    for provider in ("openai", "anthropic"):
        host = rf'base_url = "https://api\.{provider}\.com[^"]*"'
        written = re.sub(host, f'base_url = "demo:"\nprovider = "{provider}"', written)
    written = written.replace("port = 4747", f"port = {port}").replace(
        "[ledger]", f'[ledger]\npath = "{folder}/ledger.sqlite"'
    )
    file.write_text(re.sub(r'(?m)^text = "off"', 'text = "full"', written))
    with running(file, port, environment):
        yield port


def send(agent: Agent, modules: Path, base: str, text: str, top: Path) -> str:
    """Let a client send one message from an empty folder and home; return what went wrong."""
    home = Path(tempfile.mkdtemp(dir=top))
    work = home / "work"
    work.mkdir()
    (work / "a.py").write_text("x = 1\n")
    try:
        done = run(agent, modules, base, home, _TIMEOUT, text)
    except subprocess.TimeoutExpired:
        return f"not finished after {_TIMEOUT:.0f} s"
    finally:
        shutil.rmtree(home, ignore_errors=True)
    return f"status {done.returncode}: {(done.stderr or done.stdout)[-200:]!r}" if done.returncode else ""


def send_again(port: int, seen: list[Seen]) -> None:
    """Send requests that were kept."""
    for each in seen:
        gateway = http.client.HTTPConnection("127.0.0.1", port, timeout=_TIMEOUT)
        sent = {name: value for name, value in each.headers.items() if name != "host"}
        gateway.request("POST", each.path, each.body, sent)
        gateway.getresponse().read()
        gateway.close()


def requests_of(seen: list[Seen], text: str) -> Iterator[Answered]:
    """Return what was decided of the requests that a client sent for one message."""
    for each in seen:
        answered = each.answered
        if "x-pointsman-tier" in answered:
            purpose = "helper" if "agent.helper" in answered.get("x-pointsman-reasons", "") else ""
            is_typed = not purpose and _last_words(json.loads(each.body)).find(text) in range(200)
            tier, model = answered["x-pointsman-tier"], answered.get("x-pointsman-model", "")
            yield Answered(is_typed, tier, model, purpose or "not recognised")


def _last_words(body: dict[str, object]) -> str:
    """All text of the last message of a user, and of nothing behind it."""
    items = body.get("messages") or body.get("input")
    for item in reversed(items if isinstance(items, list) else []):
        if item.get("role") == "user":
            content = item["content"]
            if isinstance(content, str):
                return content
            texts = [part.get("text", "") for part in content]
            return "\n".join(text for text in texts if not text.startswith("<system-reminder>"))
    return ""


def main() -> int:
    """Run the clients, and print the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("modules", type=Path, help="the node_modules folder of the clients")
    parser.add_argument("--aider", type=Path, help="aider's program")
    parser.add_argument("--only", default="", help="clients whose name holds this")
    parser.add_argument("--source", type=Path, help="the src folder of the version that serves")
    parser.add_argument("--messages", type=int, default=20, help="of each kind")
    parser.add_argument("--keep", type=Path, help="write each request into this folder")
    parser.add_argument("--send", type=Path, help="send the requests of such a folder, and run no client")
    parser.add_argument("--kept", type=Path, help="tabulate the requests of such a folder, and run no client")
    options = parser.parse_args()
    failed = 0
    print("| client | messages | tiers | models | other requests |")
    print("|---|---|---|---|---|")
    # What was kept of aider is read without its program too.
    for agent in clients(options.aider or (Path("aider") if options.kept or options.send else None)):
        if options.only.lower() in agent.name.lower():
            failed += try_client(agent, options)
    return int(failed > 0)


def try_client(agent: Agent, options: argparse.Namespace) -> int:
    """Print the rows of a client, and return how many of its runs failed."""
    name, failed = agent.name, 0
    with ExitStack() as stack:
        if not options.kept:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            recorder = Recorder(stack.enter_context(gateway(folder, options.source)))
        for kind, texts in (("short", SHORT), ("hard", HARD)):
            found: list[Answered] = []
            for number, text in enumerate(texts[: options.messages]):
                run = f"{name}-{kind}-{number}".replace(" ", "-")
                if options.kept:
                    seen = kept(options.kept, run)
                elif options.send:
                    recorder.seen.clear()
                    send_again(recorder.port, kept(options.send, run))
                    seen = list(recorder.seen)
                else:
                    recorder.seen.clear()
                    base = f"http://127.0.0.1:{recorder.port}"
                    wrong = send(agent, options.modules.resolve(), base, text, folder)
                    seen = [each for each in recorder.seen if each.method == "POST"]
                    failed += bool(wrong)
                    if wrong:
                        print(f"{name}: {text[:40]!r}: {wrong}", file=sys.stderr)
                    if options.keep:
                        keep(options.keep, run, seen)
                found += requests_of(seen, text)
            print(f"| {name} | {min(options.messages, len(texts))} {kind} | {row(found)} |", flush=True)
    return failed


def row(found: list[Answered]) -> str:
    """Return the cells of one client and kind of message."""
    typed = [each for each in found if each.is_message]
    others = [each for each in found if not each.is_message]
    cells = (
        counted(each.tier for each in typed),
        counted(each.model for each in typed),
        counted(f"{each.purpose}: {each.tier} {each.model}" for each in others),
    )
    return " | ".join(cells)


def counted(values: Iterator[str]) -> str:
    """Return how often each value came, the most frequent first."""
    return ", ".join(f"{count} {value}" for value, count in Counter(values).most_common()) or "–"


def keep(folder: Path, run: str, seen: list[Seen]) -> None:
    """Write the requests of one run, and what was decided of them."""
    folder.mkdir(parents=True, exist_ok=True)
    for number, each in enumerate(seen):
        body = json.loads(each.body) if each.body.startswith(b"{") else each.body.decode("utf-8", "replace")
        written = json.dumps(each._asdict() | {"body": body}, indent=1, ensure_ascii=False)
        (folder / f"{run}-{number}.json").write_text(written, encoding="utf-8")


def kept(folder: Path, run: str) -> list[Seen]:
    """Read what ``keep`` has written of one run."""
    found = []
    for file in sorted(folder.glob(f"{run}-[0-9]*.json")):
        if re.fullmatch(rf"{run}-[0-9]+\.json", file.name):
            each = json.loads(file.read_text(encoding="utf-8"))
            found.append(Seen(**each | {"body": json.dumps(each["body"]).encode()}))
    return found


if __name__ == "__main__":
    sys.exit(main())
