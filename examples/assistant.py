"""A worked example: five capabilities, one fails and one needs another. No network, no model.

    pointsman run "What is the weather like in Oslo?" --app examples/assistant.py
    pointsman run "What is 100 EUR in USD?" --app examples/assistant.py      # the failing one
    pointsman run "Email Ida that I am late" --app examples/assistant.py     # asks before it sends

The model is scripted, so that the example runs anywhere; a real ``ChatModel`` goes in its place.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from pointsman.capabilities import Capability, CapabilityRegistry, ClassifierExample, capability
from pointsman.orchestrator import Application
from pointsman.testing import ScriptedModel
from pointsman.vocabulary import Prompt

Step = Mapping[str, Any]
Results = Mapping[str, Any]

PLACES = {"oslo": [59.9, 10.8], "rome": [41.9, 12.5], "lima": [-12.0, -77.0]}


@capability(
    "find_place",
    "Find the coordinates of a town",
    examples=[
        ClassifierExample("Where is Lima?", result=True),
        ClassifierExample("Who is Ida?", result=False),
    ],
    provides=["PLACE"],
)
async def find_place(step: Step, results: Results) -> list[float]:  # noqa: ARG001 - the shape of work
    """Look a town up in a small table."""
    town = next((name for name in PLACES if name in step["task_objective"].lower()), "oslo")
    return PLACES[town]


@capability(
    "weather",
    "Activate when user requests weather information",
    examples=[
        ClassifierExample("What's the weather like?", result=True, reason="Direct weather request"),
        ClassifierExample("Will it rain in Rome tomorrow?", result=True),
        ClassifierExample("What time is it?", result=False, reason="Time request, not weather"),
    ],
    requires=["PLACE"],
)
async def weather(step: Step, results: Results) -> str:
    """The weather at the coordinates an earlier step found."""
    latitude, _ = results[step["inputs"][0]]
    return "snow" if latitude > 50 else "sunshine"


@capability(
    "calendar",
    "Look up appointments and free days in the user's calendar",
    examples=[
        ClassifierExample("What is on my calendar on Monday?", result=True),
        ClassifierExample("Am I free on Friday?", result=True),
    ],
)
async def calendar(step: Step, results: Results) -> list[str]:  # noqa: ARG001
    """One appointment, always."""
    return ["09:00 dentist"]


@capability(
    "exchange_rate",
    "Convert an amount of money from one currency to another",
    examples=[
        ClassifierExample("What is 100 EUR in USD?", result=True),
        ClassifierExample("How many yen do I get for ten dollars?", result=True),
    ],
)
async def exchange_rate(step: Step, results: Results) -> float:  # noqa: ARG001
    """The failing one: its service never answers."""
    raise TimeoutError("rates.example did not answer")


@capability(
    "send_mail",
    "Send an e-mail to somebody",
    examples=[
        ClassifierExample("Email Ida that I am late", result=True),
        ClassifierExample("Write to the office that I am ill", result=True),
    ],
    needs_approval=True,
)
async def send_mail(step: Step, results: Results) -> str:  # noqa: ARG001
    """Sends nothing; a person is asked first all the same."""
    return "sent"


CAPABILITIES: list[Capability] = [find_place, weather, calendar, exchange_rate, send_mail]


def answer(prompt: Prompt) -> str:
    """What the scripted model says: it plans every offered capability and repeats their results."""
    if "Plan how to carry out" in prompt.system:
        return json.dumps({"steps": _plan(prompt)})
    if "Answer the person" in prompt.system:
        results = prompt.system.split("Results: ")[1].splitlines()[0]
        return "Hello!" if results == "none" else f"Here is what I found: {results}"
    if "one capability is needed" in prompt.system:
        return json.dumps({"is_match": False, "reason": "the scripted model wants nothing more"})
    return prompt.text.splitlines()[-1].removeprefix("user: ")


def _plan(prompt: Prompt) -> list[dict[str, Any]]:
    offered = [each for each in CAPABILITIES if f"- {each.name}:" in prompt.system]
    keys = {kind: each.name for each in offered for kind in each.provides}
    steps = [
        {
            "capability": each.name,
            "context_key": each.name,
            "task_objective": prompt.text,
            "inputs": [keys[kind] for kind in each.requires],
        }
        for each in offered
    ]
    return [*steps, {"capability": "respond", "task_objective": "answer", "inputs": []}]


application = Application(registry=CapabilityRegistry(CAPABILITIES), model=ScriptedModel(answer))
