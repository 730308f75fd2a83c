"""A module whose name begins with an underscore is used inside its own room alone."""

import ast
from collections.abc import Iterator
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src" / "pointsman"


def statements(node: ast.AST) -> Iterator[ast.AST]:
    """All statements below a node: no expression holds an import, and most nodes are expressions."""
    for each in ast.iter_child_nodes(node):
        if isinstance(each, ast.stmt | ast.excepthandler | ast.match_case):
            yield each
            yield from statements(each)


def imported(path: Path) -> Iterator[str]:
    for node in statements(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def foreign(room: str, names: Iterator[str]) -> list[str]:
    """The private modules of other rooms among imported names."""
    found = (name.split(".") for name in names if name.startswith("pointsman."))
    return [".".join(parts) for parts in found if parts[1] != room and is_private(parts)]


def is_private(parts: list[str]) -> bool:
    path = SOURCE.joinpath(*parts[1:])
    return parts[-1].startswith("_") and path.with_suffix(".py").exists()


def test_rooms_use_only_each_others_doors() -> None:
    paths = [path for path in SOURCE.rglob("*.py") if path.parent != SOURCE]
    assert any(path.name.startswith("_") and path.stem != "__init__" for path in paths)
    found = {str(path): foreign(path.relative_to(SOURCE).parts[0], imported(path)) for path in paths}
    assert {path: names for path, names in found.items() if names} == {}


def test_a_private_module_of_another_room_is_noticed() -> None:
    names = ["pointsman.gateway._relay", "pointsman.gateway.app", "pointsman.tiers._scorer.TierScorer"]
    assert foreign("learning", iter(names)) == ["pointsman.gateway._relay"]
