"""The application of ``pointsman run`` by default: arithmetic, the time, and installed capabilities.

It makes the command work wherever the package is installed. A configured application replaces it:
``pointsman run --app FILE``, as in ``examples/assistant.py``.
"""

from __future__ import annotations

import ast
import json
import operator
import re
from collections.abc import Callable, Mapping
from datetime import datetime
from types import MappingProxyType
from typing import Any, Final

from pointsman.capabilities import (
    Capability,
    CapabilityRegistry,
    ClassifierExample,
    SelectionPolicy,
    capability,
)
from pointsman.orchestrator._application import Application, installed_capabilities
from pointsman.orchestrator._facts import ClassifiedError, ErrorSeverity
from pointsman.vocabulary import Prompt

__all__ = ["NO_MODEL", "OfflineModel", "arithmetic", "default_application"]

Step = Mapping[str, Any]
Results = Mapping[str, Any]

#: Characters of an expression: more than anybody types.
_LONGEST: Final = 200
#: Exponents and results beyond these take seconds and megabytes.
_MOST_POWER: Final = 64
_LARGEST: Final = 1e100

_OPERATORS: Final[Mapping[type[ast.AST], Callable[..., float]]] = MappingProxyType(
    {
        ast.Add: operator.add,
        ast.Sub: operator.sub,
        ast.Mult: operator.mul,
        ast.Div: operator.truediv,
        ast.FloorDiv: operator.floordiv,
        ast.Mod: operator.mod,
        ast.USub: operator.neg,
        ast.UAdd: operator.pos,
    }
)
_EXPRESSION: Final = re.compile(r"[\d(.+-][\d\s().+*/%^x×÷-]*[\d)]")
_THOUSANDS: Final = re.compile(r"(?<=\d),(?=\d{3}(?!\d))")
_SIGNS: Final = str.maketrans({"x": "*", "×": "*", "÷": "/", "^": "p"})


def arithmetic(text: str) -> float:
    """Return the value of the first arithmetic expression in a text: ``+ - * / // % ^``, and brackets.

    Raises:
        ValueError: there is none, or its value is too large or not defined.
    """
    found = _EXPRESSION.search(_THOUSANDS.sub("", text[:_LONGEST]))
    if found is None:
        raise ValueError("there is no arithmetic expression")
    written = found.group().translate(_SIGNS).replace("p", "**")
    try:
        return _value(ast.parse(written.strip(), mode="eval").body)
    except (SyntaxError, ZeroDivisionError, OverflowError, RecursionError) as error:
        raise ValueError(f"{found.group().strip()!r} has no value: {error}") from error


def _value(node: ast.expr) -> float:
    match node:
        case ast.Constant(value=int() | float() as number):
            value: float = number
        case ast.UnaryOp(op=sign, operand=inner) if type(sign) in _OPERATORS:
            value = _OPERATORS[type(sign)](_value(inner))
        case ast.BinOp(left=left, op=ast.Pow(), right=right):
            power = _value(right)
            if abs(power) > _MOST_POWER:
                raise ValueError(f"exponents go up to {_MOST_POWER}")
            value = _value(left) ** power
        case ast.BinOp(left=left, op=sign, right=right) if type(sign) in _OPERATORS:
            value = _OPERATORS[type(sign)](_value(left), _value(right))
        case _:
            raise ValueError("only numbers and + - * / // % ^ are arithmetic")
    if isinstance(value, complex) or abs(value) > _LARGEST:
        raise ValueError(f"the value is not a number below {_LARGEST:g}")
    return value


@capability(
    "calculate",
    "Calculate the value of an arithmetic expression with numbers",
    examples=[
        ClassifierExample("What is 17 * 23?", result=True),
        ClassifierExample("Calculate (3 + 4) / 2", result=True),
        ClassifierExample("How much is 120 divided by 8, as in 120 / 8?", result=True),
        ClassifierExample("2 + 2", result=True),
        ClassifierExample("12 * 7 - 3", result=True),
        ClassifierExample("What is 9 / 3?", result=True),
        ClassifierExample("Compute 1.5 * 80 - 7", result=True),
        ClassifierExample("What time is it?", result=False),
        ClassifierExample("Write a poem about numbers", result=False),
        ClassifierExample("What is the capital of France?", result=False),
        ClassifierExample("Summarise this page in 3 sentences", result=False),
    ],
)
async def calculate(step: Step, results: Results) -> float:  # noqa: ARG001 - the shape of work
    """The value of the expression in the step's objective."""
    try:
        return arithmetic(str(step.get("task_objective") or ""))
    except ValueError as error:
        raise ClassifiedError(ErrorSeverity.REPLANNING, str(error)) from error


@capability(
    "current_time",
    "Tell the current date and time of day",
    examples=[
        ClassifierExample("What time is it?", result=True),
        ClassifierExample("What is today's date?", result=True),
        ClassifierExample("Which day of the week is it today?", result=True),
        ClassifierExample("What is the date and time now?", result=True),
        ClassifierExample("Tell me the current time", result=True),
        ClassifierExample("What is 17 * 23?", result=False),
        ClassifierExample("How long does it take to learn to swim?", result=False),
        ClassifierExample("Write me a poem about the sea", result=False),
        ClassifierExample("Tell me a story", result=False),
        ClassifierExample("Explain how engines work", result=False),
        ClassifierExample("Which is the largest planet?", result=False),
        ClassifierExample("What is the capital of Norway?", result=False),
        ClassifierExample("What is the meaning of this word?", result=False),
    ],
)
async def current_time(step: Step, results: Results) -> str:  # noqa: ARG001 - the shape of work
    """The local date and time, with weekday and offset from UTC."""
    return datetime.now().astimezone().strftime("%A, %Y-%m-%d %H:%M:%S %z")


#: Why there is no model to ask, without a configuration that has one.
NO_MODEL: Final = "no model is configured; pointsman config init writes a pointsman.toml"


class OfflineModel:
    """Used without a model to ask: it plans every selected capability and repeats the results."""

    def __init__(self, why: str = NO_MODEL) -> None:
        self._why: Final = why

    async def complete(self, prompt: Prompt, *, timeout: float) -> str:  # noqa: ARG002 - it never waits
        """Return a plan, or an answer made of the results."""
        if "Plan how to carry out" in prompt.system:
            names = re.findall(r"^- (\S+):", prompt.system.partition("\n\nResults")[0], re.MULTILINE)
            steps = [{"capability": name, "context_key": name, "task_objective": prompt.text}
                     for name in names if name not in ("respond", "clarify")]  # fmt: skip
            return json.dumps({"steps": [*steps, {"capability": "respond", "task_objective": "answer"}]})
        results = re.search(r"^Results: (.+)$", prompt.system, re.MULTILINE)
        if results and results[1] != "none":
            return "\n".join(f"{name}: {value}" for name, value in json.loads(results[1]).items())
        return f"No capability applies, and no model can be asked: {self._why}"


def default_application() -> Application:
    """The built-in capabilities, and those that installed packages offer. It has no model.

    Raises:
        ConfigError: an installed capability cannot be loaded, or has the name of another one.
    """
    offered: list[Capability] = [calculate, current_time, *installed_capabilities()]
    return Application(CapabilityRegistry(offered), policy=SelectionPolicy())
