"""The registry of capabilities: validated when it is built, versioned by content."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from pointsman.capabilities._guides import ClassifierExample, TaskClassifierGuide
from pointsman.errors import ConfigError

__all__ = ["Capability", "CapabilityRegistry", "Work", "capability"]

#: What a capability does: (the plan's step, results by context key) -> JSON values.
Work = Callable[[Mapping[str, Any], Mapping[str, Any]], Awaitable[Any]]


@dataclass(frozen=True, slots=True)
class Capability:
    """One thing an agent can do.

    ``provides`` and ``requires`` name kinds of results: a capability that requires ``CITY`` pulls in one that
    provides it, unless the context already holds one.
    """

    name: str
    guide: TaskClassifierGuide
    provides: Sequence[str] = ()
    requires: Sequence[str] = ()
    always_active: bool = False
    needs_approval: bool = False  # a person must agree before it runs
    work: Work | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        """Freeze the lists and refuse a nameless capability.

        Raises:
            ConfigError: the name is empty.
        """
        if not self.name.strip():
            raise ConfigError("a capability needs a name")
        object.__setattr__(self, "provides", tuple(self.provides))
        object.__setattr__(self, "requires", tuple(self.requires))

    @property
    def classifier_guide(self) -> TaskClassifierGuide:
        """The guide, under the name used in docs/sources/classification-and-routing.md."""
        return self.guide


def capability(
    name: str,
    instructions: str,
    *,
    examples: Sequence[ClassifierExample] = (),
    provides: Sequence[str] = (),
    requires: Sequence[str] = (),
    always_active: bool = False,
    needs_approval: bool = False,
) -> Callable[[Work], Capability]:
    """Decorator: declare the function below it as a capability; its name then means the ``Capability``."""

    def declare(work: Work) -> Capability:
        return Capability(
            name,
            TaskClassifierGuide(instructions, examples),
            provides,
            requires,
            always_active,
            needs_approval,
            work,
        )

    return declare


class CapabilityRegistry:
    """An immutable, ordered collection of capabilities.

    ``version`` is a digest of everything a selection depends on: two registries with one version select
    alike.
    """

    def __init__(self, capabilities: Iterable[Capability]) -> None:
        """Collect capabilities in the order given.

        Raises:
            ConfigError: two have the same name.
        """
        self._by_name: dict[str, Capability] = {}
        for each in capabilities:
            if each.name in self._by_name:
                raise ConfigError(f'two capabilities are called "{each.name}"', hint="rename one of them")
            self._by_name[each.name] = each
        self.version = _digest(self._by_name.values())

    def __len__(self) -> int:
        return len(self._by_name)

    def __contains__(self, name: object) -> bool:
        return name in self._by_name

    def get_all_capabilities(self) -> list[Capability]:
        """Every capability in registry order."""
        return list(self._by_name.values())

    def get_always_active_capability_names(self) -> list[str]:
        """Names of the capabilities every task gets, in registry order."""
        return [name for name, each in self._by_name.items() if each.always_active]

    def get_capability(self, name: str) -> Capability | None:
        """The capability called ``name``, or None."""
        return self._by_name.get(name)

    def activated(self, names: Collection[str]) -> CapabilityRegistry:
        """The same capabilities, of which those named are always active too."""
        wanted = {name for name, each in self._by_name.items() if name in names and not each.always_active}
        if not wanted:
            return self
        return CapabilityRegistry(
            replace(each, always_active=True) if name in wanted else each
            for name, each in self._by_name.items()
        )

    def providers(self, kind: str) -> list[str]:
        """Names of the capabilities that provide a kind of result, in registry order."""
        return [name for name, each in self._by_name.items() if kind in each.provides]


def _digest(capabilities: Iterable[Capability]) -> str:
    content = [
        [
            each.name,
            each.guide.instructions,
            [[example.query, example.result, example.reason] for example in each.guide.examples],
            [*each.provides],
            [*each.requires],
            each.always_active,
        ]
        for each in capabilities
    ]
    return hashlib.blake2b(json.dumps(content).encode(), digest_size=8).hexdigest()
