"""The candidates of a request: the configured capabilities, and the tools it offers, as one registry."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import msgspec

from pointsman.capabilities._cache import LruCache
from pointsman.capabilities._decision import OfferedTool
from pointsman.capabilities._guides import TaskClassifierGuide
from pointsman.capabilities._ordinary import VERSION
from pointsman.capabilities._policy import CapabilityPolicy
from pointsman.capabilities._registry import Capability, CapabilityRegistry
from pointsman.capabilities._scorer import LocalScorer
from pointsman.capabilities._select import Scorer, Selector
from pointsman.vocabulary import Encoder
from pointsman.wire.tools import offered_tools

__all__ = ["MOST_ASKED", "MOST_NAMES", "MOST_TOOLS", "CandidateSets", "Candidates", "shortened"]

#: Tools of one request that are judged; with more, or with names beyond so many characters in all, nothing is
#: judged. An index of 500 takes seconds to build.
MOST_TOOLS: Final = 500
MOST_NAMES: Final = 32_000
#: Characters of a description that are read: its first sentences say what a tool is for. An index of 20 tools
#: takes 131 ms to build from 200 characters each, and 622 ms from 1,000.
_DESCRIPTION: Final = 256
#: Characters of a task that are scored, half from each end: a long one takes 20 ms per 1,000.
_TASK: Final = 1_000
#: Indexes kept, one per distinct list of tools; agents rarely change theirs.
_KEPT: Final = 32
_DIGITS: Final = 4
#: Questions to a model per user message, whatever the strategy: a request may offer hundreds of tools, and
#: waits for the answers.
MOST_ASKED: Final = 50


class Candidates(NamedTuple):
    """What is selected from, ready to select."""

    selector: Selector
    offered: tuple[OfferedTool, ...]


class _Rounded:
    """A scorer whose probabilities are recorded as they are used."""

    def __init__(self, scorer: Scorer) -> None:
        self._scorer = scorer
        self.version = scorer.version

    def probabilities(self, task: str) -> Mapping[str, float]:
        found = self._scorer.probabilities(task)
        return {name: round(score, _DIGITS) for name, score in found.items()}


class _Recorded:
    """Probabilities given before; 0 for what had none."""

    def __init__(self, scores: Mapping[str, float], names: Sequence[str]) -> None:
        self._scores = {name: scores.get(name, 0.0) for name in names}
        self.version = ""

    def probabilities(self, task: str) -> Mapping[str, float]:  # noqa: ARG002 - the shape of Scorer
        return self._scores


class CandidateSets:
    """Makes candidates, and keeps those of the lists of tools seen last."""

    def __init__(self, policy: CapabilityPolicy, encoder: Encoder | None) -> None:
        self._policy = policy
        self._encoder = encoder
        self._registry = policy.registry.activated(policy.always_active)
        self._kept: LruCache[Candidates] = LruCache(_KEPT)
        self._own = self._build(())  # the configured capabilities alone
        calibration = policy.calibration.to_json() if policy.calibration else None
        scored_by = [policy.registry.version, self._index_name, calibration, _DESCRIPTION, _TASK, VERSION]
        #: Two sets with this in common give a task the same scores, if the tools offered are the same.
        self.scoring: Final = _digest(json.dumps(scored_by, sort_keys=True).encode())

    def has(self, names: Sequence[str], tools: bytes) -> bool:
        """Whether the candidates of a request are at hand: else an index must be built."""
        return not names or self._kept.get(_key(names, tools)) is not None

    def of(self, names: Sequence[str], tools: bytes) -> Candidates:
        """The candidates of a request: the names of the tools offered, and the list of tools as JSON."""
        if not names:
            return self._own
        key = _key(names, tools)
        found = self._kept.get(key)
        if found is None:
            texts = dict(offered_tools(msgspec.Raw(tools)))
            found = self._build([(name, texts.get(name, "")) for name in names])
            self._kept.put(key, found)
        return found

    def recorded(
        self, offered: Sequence[OfferedTool], scores: Mapping[str, float], *, is_same: bool, task: str
    ) -> tuple[Candidates, list[str]]:
        """Candidates of a recorded request, and the names that no score is known of.

        Args:
            offered: the tools offered, whose descriptions are not known.
            scores: as recorded.
            is_same: whether they are this policy's.
            task: the person's words; empty where they were not kept.
        """
        if task and not is_same and len(self._registry):
            own = self._own.selector.scorer.probabilities(shortened(task))
            scores = {**scores, **own}
        registry = self._with([(tool.name, "") for tool in offered])
        names = [each.name for each in registry.get_all_capabilities() if not each.always_active]
        known = [each.name for each in registry.get_all_capabilities()]
        selector = Selector(registry, _Recorded(scores, known), self._policy, most_asked=MOST_ASKED)
        return Candidates(selector, tuple(offered)), [name for name in names if name not in scores]

    def _build(self, tools: Sequence[tuple[str, str]]) -> Candidates:
        registry = self._with(tools)
        scorer = LocalScorer(registry, self._encoder, self._policy.calibration)
        self._index_name = scorer.index.name
        offered = tuple(OfferedTool(name, _digest(_utf8(text))[:8]) for name, text in tools)
        selector = Selector(registry, _Rounded(scorer), self._policy, most_asked=MOST_ASKED)
        return Candidates(selector, offered)

    def _with(self, tools: Sequence[tuple[str, str]]) -> CapabilityRegistry:
        """The configured capabilities, then the tools that are none of them."""
        more = [
            Capability(
                name,
                TaskClassifierGuide(text[:_DESCRIPTION]),
                always_active=name in self._policy.always_active,
            )
            for name, text in tools
            if name not in self._registry and name.strip()
        ]
        return CapabilityRegistry([*self._registry.get_all_capabilities(), *more]) if more else self._registry


def shortened(task: str) -> str:
    """The part of a task that is scored: how it begins and how it ends."""
    half = _TASK // 2
    return task if len(task) <= _TASK else f"{task[:half]} {task[-half:]}"


def _key(names: Sequence[str], tools: bytes) -> str:
    return _digest(b"\0".join((*map(_utf8, names), tools)))


def _utf8(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _digest(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=8).hexdigest()
