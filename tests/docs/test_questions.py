"""The pages that answer questions: what they say works, and each is found."""

import asyncio
import importlib
import inspect
import json
import pkgutil
import re
import sys
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

import pointsman
from pointsman.config import examine
from pointsman.errors import MissingExtra, PointsmanError
from pointsman.gateway.app import Gateway
from pointsman.gateway.build import Builder
from support.in_process import Received, ask
from support.limited import HARD, Provider

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
sys.path.append(str(ROOT / "scripts"))

from ten_questions import QUESTIONS, clicks  # noqa: E402 - of scripts/

BLOCK = re.compile(r"^```toml\n(.*?)^```", re.MULTILINE | re.DOTALL)
UPSTREAM = """
[upstreams.main]
base_url = "http://127.0.0.1:9/v1"
[models]
small = { upstream = "main", id = "small-1" }
large = { upstream = "main", id = "large-3" }
"""
#: As an agent that is stuck: three calls of one tool fail in a row.
STUCK: list[dict[str, Any]] = [{"role": "user", "content": HARD}]
for number in range(3):
    call = {"id": f"c{number}", "type": "function", "function": {"name": "run", "arguments": "{}"}}
    STUCK += [
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": f"c{number}", "content": "Error: command not found"},
    ]


def blocks(page: str) -> list[str]:
    return BLOCK.findall((DOCS / "how-to" / f"{page}.md").read_text("utf-8"))


class Serving:
    """A gateway in process with the configuration of a page, before a scripted provider."""

    def __init__(self, text: str, folder: Path) -> None:
        environment = {"MAIN_API_KEY": "k"}
        loaded = examine(
            folder / "pointsman.toml", environment, text=f'{text}\n[ledger]\npath = "{folder}/l.sqlite"\n'
        )
        assert loaded.config is not None, loaded.errors
        config = loaded.config
        builder = Builder(lambda: config)
        state = builder()
        self.provider = Provider()
        for upstream in state.upstreams.values():
            upstream.client = self.provider
        self.gateway = Gateway(state)

    def chat(self, key: str = "", **members: Any) -> Received:
        body = {"model": "auto", "messages": [{"role": "user", "content": HARD}], **members}
        headers = {"authorization": f"Bearer {key}"} if key else {}
        return asyncio.run(ask(self.gateway, "/v1/chat/completions", body, headers))


@pytest.mark.parametrize("page", [page for page, _ in QUESTIONS])
def test_a_page_is_two_clicks_from_the_index(page: str) -> None:
    assert clicks(page) <= 2


def test_a_page_that_no_link_leads_to_is_far_away() -> None:
    assert clicks("how-to/nothing") == 99


@pytest.mark.parametrize("page", ["one-model-for-a-project", "turn-off", "two-replicas", "privacy"])
def test_every_configuration_of_a_page_is_valid(page: str, tmp_path: Path) -> None:
    environment = {"MAIN_API_KEY": "k", "POINTSMAN_KEY": "k", "VALKEY_PASSWORD": "p", "PGPASSWORD": "p"}
    for block in blocks(page):
        text = block if "[models]" in block else UPSTREAM + block
        if "[tiers]" not in text:
            text += '[tiers]\nsimple = "small"\nreasoning = "large"\n'
        assert examine(tmp_path / "pointsman.toml", environment, text=text).errors == []


def test_one_project_is_served_by_one_model(tmp_path: Path) -> None:
    text = blocks("one-model-for-a-project")[0]
    for name in ("shop", "others"):
        key = sha256(name.encode()).hexdigest()
        text = re.sub(rf'(\[keys\.{name}\]\nsha256 = )"\w+"', rf'\g<1>"{key}"', text)
    serving = Serving(text, tmp_path)
    assert serving.chat("shop").headers["x-pointsman-model"] == "small"
    assert serving.chat("others").headers["x-pointsman-model"] == "large"
    refused = serving.chat("shop", model="large")
    assert (refused.status, refused.json()["error"]["code"]) == (403, "model_not_allowed")


def test_with_everything_off_only_the_name_of_the_model_changes(tmp_path: Path) -> None:
    off = "\n".join(blocks("turn-off"))
    serving = Serving(UPSTREAM + off, tmp_path)
    tools = [{"type": "function", "function": {"name": "run", "parameters": {"type": "object"}}}]
    sent: dict[str, Any] = {"model": "auto", "messages": STUCK, "tools": tools}
    assert serving.chat(**sent).headers["x-pointsman-model"] == "large"
    assert json.loads(serving.provider.asked[0].body) == {**sent, "model": "large-3"}


def test_with_guidance_on_the_same_request_gets_a_hint(tmp_path: Path) -> None:
    on = UPSTREAM + '[tiers]\nsimple = "large"\n[guidance]\nmode = "on"\ncontrol = 0.0\n'
    serving = Serving(on, tmp_path)
    serving.chat(messages=STUCK)
    assert b"<pointsman" in serving.provider.asked[0].body


def test_every_figure_of_the_readme_stands_on_the_page_that_it_names() -> None:
    table = (ROOT / "README.md").read_text("utf-8").partition("## Measured, beside others")[2]
    rows = [line for line in table.partition("## What it needs")[0].splitlines() if "](docs/" in line]
    rows = [row for row in rows if row.startswith("|")]
    assert len(rows) >= 8
    for row in rows:
        _, _, ours, peers, source, _ = row.split("|")
        page = (ROOT / re.findall(r"\]\(([^)#]+)", source)[0]).read_text("utf-8")
        figures = re.findall(r"[+\N{MINUS SIGN}]?(?:\d{1,3}(?:,\d{3})+|\d*\.\d+|\d{2,})", ours + peers)
        runs = re.search(r"(\d+) of \1 runs", ours)
        if runs:
            task = page.partition("## A different provider")[0]
            assert task.count("| done |") == len(re.findall(r"\| \d+ \([^|]*\) \|", task)) == int(runs[1])
        else:
            assert figures, row
            assert [figure for figure in figures if figure not in page] == [], row


def errors(kind: type[PointsmanError]) -> Iterator[type[PointsmanError]]:
    yield kind
    for each in kind.__subclasses__():
        yield from errors(each)


def test_every_error_has_its_section() -> None:
    for module in pkgutil.walk_packages(pointsman.__path__, "pointsman."):
        if not module.name.endswith("__main__"):
            try:
                importlib.import_module(module.name)
            except (ImportError, MissingExtra):  # an extra that is not installed
                continue
    known = {kind for kind in errors(PointsmanError) if kind.__module__.startswith("pointsman.")}
    assert len(known) > 30
    headings = re.findall(
        r"^### (\w+)$", (DOCS / "how-to/troubleshooting.md").read_text("utf-8"), re.MULTILINE
    )
    anchors = [f"how-to/troubleshooting.md#{heading.lower()}" for heading in headings]
    assert {inspect.getattr_static(kind, "docs").fget(kind.__new__(kind)) for kind in known} == set(anchors)
    assert len(anchors) == len(set(anchors))


def test_an_error_of_an_application_has_the_section_of_the_class_above_it() -> None:
    class Own(PointsmanError):
        """Somebody else's."""

    assert Own("x").docs == "how-to/troubleshooting.md#pointsmanerror"


def test_every_name_of_the_founding_documents_can_be_imported() -> None:
    text = (DOCS / "sources" / "names.md").read_text("utf-8")
    names = re.findall(r"`(pointsman\.compat[\w.]*)\.(\w+)`", text)
    assert len(names) > 40
    assert [name for module, name in names if not hasattr(importlib.import_module(module), name)] == []


def test_the_example_of_an_audit_has_the_parts_of_the_page_that_is_written_today() -> None:
    """Its figures depend on the shipped policy and prices, which change more often than the page."""
    from audit_example import page

    kept = (DOCS / "examples" / "audit.html").read_text("utf-8")
    heading = re.compile(r"<h[123][^>]*>.*?</h[123]>|<th[ >].*?</th>")
    assert heading.findall(kept) == heading.findall(page()), "run scripts/audit_example.py"
    assert len(heading.findall(kept)) > 10
