"""Engines of this process, by policy: whoever maps a function over batches pickles it anew for each task."""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

from pointsman.decision.engine import Engine
from pointsman.decision.policy import Policy
from pointsman.factory import build_engine

__all__ = ["engine_of"]

#: Engines that are kept: building one takes a few hundred milliseconds, and it holds some megabytes.
_MOST: Final = 4
_built: Final[OrderedDict[str, Engine]] = OrderedDict()


def engine_of(policy: Policy, version: str) -> Engine:
    """Return the engine of a policy, which is built with its first use in this process.

    Args:
        policy: What decides.
        version: Its version, which names all that decides.
    """
    engine = _built.pop(version, None) or build_engine(policy)
    _built[version] = engine
    while len(_built) > _MOST:
        _built.popitem(last=False)
    return engine
