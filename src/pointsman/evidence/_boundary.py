r"""Word boundaries written out as characters, so that every engine sees the same ones.

Engines' own ``\b`` is ASCII, wrong inside "café", and look-around is not linear-time. Whether a pattern
occurs does not change when it takes in the characters around it, so ``\bfix\b`` becomes: a character of no
word, "fix", a character of no word; the frame around every scanned text serves at its ends. Inside a pattern
the boundary restricts the characters at either side instead.
"""

from __future__ import annotations

from typing import Final, TypeAlias

from pointsman.errors import LexiconError
from pointsman.evidence._chars import OUTSIDE, WORD, CharSet, intersect
from pointsman.evidence._pattern import Alt, Chars, Edge, Node, Repeat, Seq

__all__ = ["without_boundaries"]

#: Ways through a pattern with boundaries in several alternatives; real ones have fewer than ten.
_MAX_PATHS: Final = 200

_Path: TypeAlias = tuple[Node, ...]


def without_boundaries(node: Node, pattern: str) -> Node:
    """The same pattern without ``BOUNDARY``.

    Raises:
        LexiconError: a boundary inside a repeat, too many ways through the pattern, or none.
    """
    if not _has_boundary(node):
        return node
    paths = _paths(node, pattern)
    resolved = [whole for path in paths for whole in _resolve(path)]
    if not resolved:
        raise LexiconError(f"pattern {pattern!r} cannot match: no character can match next to its \\b")
    return Alt(tuple(Seq(path) for path in resolved))


def _has_boundary(node: Node) -> bool:
    match node:
        case Seq(items=items) | Alt(options=items):
            return any(map(_has_boundary, items))
        case Repeat(item=item):
            return _has_boundary(item)
        case _:
            return node is Edge.BOUNDARY


def _paths(node: Node, pattern: str) -> list[_Path]:
    """Every way through the alternatives that hold a boundary, with the boundary at the top of each."""
    if not _has_boundary(node):
        return [(node,)]
    match node:
        case Seq(items=items):
            paths: list[_Path] = [()]
            for item in items:
                paths = [(*path, *rest) for path in paths for rest in _paths(item, pattern)]
                if len(paths) > _MAX_PATHS:
                    raise LexiconError(f"pattern {pattern!r} has \\b in too many alternatives")
            return paths
        case Alt(options=options):
            plain = tuple(option for option in options if not _has_boundary(option))
            bounded = [path for o in options if _has_boundary(o) for path in _paths(o, pattern)]
            return [*([(Alt(plain),)] if plain else []), *bounded]
        case Repeat(item=item, least=least, most=1):
            return [*([()] if least == 0 else []), *_paths(item, pattern)]
        case Repeat():
            raise LexiconError(
                f"pattern {pattern!r} has \\b inside a repeat", hint="write it before or after"
            )
        case _:
            return [(node,)]


def _resolve(path: _Path) -> list[_Path]:
    """The ways to meet the first boundary of a path, and then the others."""
    if Edge.BOUNDARY not in path:
        return [path]
    at = path.index(Edge.BOUNDARY)
    before, after = path[:at][::-1], path[at + 1 :]
    return [
        whole
        for left, right in ((WORD, OUTSIDE), (OUTSIDE, WORD))
        for first in _restrict(before, left, Edge.START)
        for second in _restrict(after, right, Edge.END)
        for whole in _resolve((*first[::-1], *second))
    ]


def _restrict(path: _Path, allowed: CharSet, end: Edge) -> list[_Path]:
    """The ways through a path on which the first character is an allowed one.

    Args:
        path: What follows the boundary, read away from it: to the right when ``end`` is END, to the left when
            it is START.
        allowed: WORD, or OUTSIDE, which an end of the text meets too.
        end: Which end of the text the path leads to.
    """
    if not path:  # the pattern ends here: the character beyond it is taken in
        return [(Chars(allowed),)]
    learned_router, rest = path[0], path[1:]
    match learned_router:
        case Chars(set=chars):
            both = intersect(chars, allowed)
            return [(Chars(both), *rest)] if both else []
        case Seq(items=items):
            return _restrict((*(items if end is Edge.END else items[::-1]), *rest), allowed, end)
        case Alt(options=options):
            return _restrict_alternatives(options, rest, allowed, end)
        case Repeat(item=item, least=least, most=most):
            fewer = () if most == 1 else (Repeat(item, max(least - 1, 0), most and most - 1),)
            ways = _restrict((item, *fewer, *rest), allowed, end)
            return ways if least else [*ways, *_restrict(rest, allowed, end)]
        case Edge.BOUNDARY:  # the same place: the same condition
            return _restrict(rest, allowed, end)
        case _:  # the end of the text: ``parse`` lets no other edge stand here
            return [path] if allowed is OUTSIDE else []


def _restrict_alternatives(options: _Path, rest: _Path, allowed: CharSet, end: Edge) -> list[_Path]:
    """Alternatives that cannot begin with anything else stay together: fewer copies of the rest."""
    meeting = tuple(option for option in options if _begins_in(option, allowed, end))
    others = [o for o in options if o not in meeting]
    ways = [way for option in others for way in _restrict((option, *rest), allowed, end)]
    return [(Alt(meeting), *rest), *ways] if meeting else ways


def _begins_in(node: Node, allowed: CharSet, end: Edge) -> bool:
    """Whether every match of a node begins (read away from the boundary) with an allowed character."""
    match node:
        case Chars(set=chars):
            return intersect(chars, allowed) == chars
        case Seq(items=items):
            return bool(items) and _begins_in(items[0 if end is Edge.END else -1], allowed, end)
        case Alt(options=options):
            return all(_begins_in(option, allowed, end) for option in options)
        case Repeat(item=item, least=least):
            return least > 0 and _begins_in(item, allowed, end)
        case _:
            return False
