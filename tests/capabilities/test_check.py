"""What makes a registry select badly: each finding beside the registry that only looks like it."""

import pytest

from pointsman.capabilities import (
    Capability,
    CapabilityRegistry,
    ClassifierExample,
    TaskClassifierGuide,
    check_registry,
)

FIVE = ("one", "two", "three", "four", "five")
OTHERS = ("6", "7", "8", "9", "10")


def guide(positives: tuple[str, ...] = FIVE, negatives: tuple[str, ...] = ()) -> TaskClassifierGuide:
    examples = [ClassifierExample(query, result=True) for query in positives]
    examples += [ClassifierExample(query, result=False) for query in negatives]
    return TaskClassifierGuide("Say when", examples)


SILENT = TaskClassifierGuide(" ", guide().examples)
ALWAYS = Capability("a", TaskClassifierGuide(""), always_active=True)


@pytest.mark.parametrize(
    ("capabilities", "findings"),
    [
        ([], []),
        ([Capability("a", guide())], []),
        ([ALWAYS], []),  # nobody ever judges it
        ([Capability("a", SILENT)], ["a: no instructions; say when it is needed"]),
        ([Capability("a", guide(FIVE[:4]))], ["a: 4 examples of when it is needed; 5 make scores reliable"]),
        ([Capability("a", guide(negatives=("six",)))], []),
        ([Capability("a", guide(negatives=("Two", "six")))], ['a: "two" is an example both ways']),
        ([Capability("a", guide()), Capability("b", guide(OTHERS))], []),
        (
            [Capability("a", guide()), Capability("b", guide(("FIVE", "6", "7", "8", "9")))],
            ['a, b: "five" is an example for each of them'],
        ),
        ([Capability("a", guide(), requires=["X"]), Capability("b", guide(OTHERS), provides=["X"])], []),
        (
            [Capability("a", guide(), requires=["X"], provides=["Y"])],
            ["a: requires X, which nothing provides; only the context can hold it"],
        ),
    ],
)
def test_findings(capabilities: list[Capability], findings: list[str]) -> None:
    assert check_registry(CapabilityRegistry(capabilities)) == findings
