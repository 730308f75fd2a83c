"""A small registry for every test of selection, and a driver that answers from a table."""

from collections.abc import Callable, Generator, Sequence

from pointsman.capabilities import (
    Capability,
    CapabilityRegistry,
    ClassifierExample,
    LocalScorer,
    Selection,
    SelectionPolicy,
    Selector,
    TaskClassifierGuide,
)
from pointsman.drivers import drive as run
from pointsman.vocabulary import ModelQuery, ModelReply

WEATHER = TaskClassifierGuide(
    instructions="Activate when user requests weather information",
    examples=[
        ClassifierExample(query="What's the weather like?", result=True, reason="Direct weather request"),
        ClassifierExample(query="Will it rain in Oslo tomorrow?", result=True, reason="Rain is weather"),
        ClassifierExample(query="What time is it?", result=False, reason="Time request, not weather"),
    ],
)
CLOCK = TaskClassifierGuide(
    instructions="Activate when user asks for the time of day or a date",
    examples=[
        ClassifierExample(query="What time is it?", result=True),
        ClassifierExample(query="Which day of the week is the tenth?", result=True),
    ],
)
MAIL = TaskClassifierGuide(
    instructions="Activate when user wants to read or send e-mail",
    examples=[
        ClassifierExample(query="Send an email to Anna", result=True),
        ClassifierExample(query="Any new messages in my inbox?", result=True),
    ],
)
PLACE = TaskClassifierGuide(instructions="Find the coordinates of a named place")

REGISTRY = CapabilityRegistry(
    [
        Capability("current_weather", WEATHER, requires=["COORDINATES"]),
        Capability("clock", CLOCK),
        Capability("mail", MAIL),
        Capability("geocode", PLACE, provides=["COORDINATES"]),
        Capability("respond", TaskClassifierGuide("Answer the user"), always_active=True),
    ]
)
JUDGE = LocalScorer(REGISTRY)


def drive(
    steps: Generator[Sequence[ModelQuery], Sequence[ModelReply], Selection],
    answer: Callable[[ModelQuery], ModelReply],
) -> tuple[Selection, list[ModelQuery]]:
    """Answer every question with ``answer``; the selection and all questions."""
    asked: list[ModelQuery] = []

    def batch(needs: Sequence[ModelQuery]) -> Sequence[ModelReply]:
        asked.extend(needs)
        return [answer(need) for need in needs]

    return run(steps, batch), asked


def select(
    task: str, answer: Callable[[ModelQuery], ModelReply] | None = None, **policy: object
) -> tuple[Selection, list[ModelQuery]]:
    """Select from ``REGISTRY`` under a policy."""
    selector = Selector(REGISTRY, JUDGE, SelectionPolicy(**policy))  # type: ignore[arg-type]
    return drive(selector.select(task), answer or (lambda need: ModelReply(error="no-key")))
