"""Compiled patterns on disk: taken up when they fit, compiled again when they do not."""

from collections.abc import Callable
from pathlib import Path

import pytest

from pointsman.evidence import PatternSet, Signal, SignalTable
from pointsman.evidence._engines import Engine, engine_names
from pointsman.stores.pattern_cache import CompiledPatterns, cache_directory, open_scanner

pytestmark = pytest.mark.skipif("hyperscan" not in engine_names(), reason="what RE2 compiles is not kept")

SIGNALS = [Signal("test", "code", "python"), Signal("test", "code", "rust")]


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many sources each compilation had."""
    from pointsman.evidence._hyperscan_matcher import HyperscanMatcher

    calls: list[int] = []
    compile_ = HyperscanMatcher.compile

    def counted(patterns: PatternSet) -> Engine:
        calls.append(len(patterns.sources))
        return compile_(patterns)

    monkeypatch.setattr(HyperscanMatcher, "compile", counted)
    return calls


def finds(directory: Path, signals: list[Signal] = SIGNALS) -> bool:
    return open_scanner(signals, directory=directory).scan("use Python").hits == 1


def only_file(directory: Path) -> Path:
    (file,) = directory.iterdir()
    return file


def test_patterns_are_compiled_once(tmp_path: Path, compiled: list[int]) -> None:
    directory = tmp_path / "not" / "yet"
    assert finds(directory)
    assert finds(directory)
    assert compiled == [2]
    assert directory.stat().st_mode & 0o077 == 0


def test_other_patterns_are_compiled(tmp_path: Path, compiled: list[int]) -> None:
    assert finds(tmp_path)
    assert finds(tmp_path, SIGNALS[:1])
    assert compiled == [2, 1]


@pytest.mark.parametrize(
    "damage", [lambda _: b"", lambda _: b"short", lambda b: b[:-1], lambda b: b[:40] + b"\0\1\2" + b[43:]]
)
def test_a_damaged_file_is_replaced(
    tmp_path: Path, compiled: list[int], damage: Callable[[bytes], bytes]
) -> None:
    finds(tmp_path)
    file = only_file(tmp_path)
    whole = file.read_bytes()
    file.write_bytes(damage(whole))
    assert finds(tmp_path)
    assert compiled == [2, 2]
    assert file.read_bytes() == whole


def test_a_foreign_database_is_refused_and_replaced(tmp_path: Path, compiled: list[int]) -> None:
    from pointsman.evidence._hyperscan_matcher import HyperscanMatcher

    patterns = PatternSet(SignalTable(SIGNALS))
    keep = CompiledPatterns(tmp_path)
    key = HyperscanMatcher.cache_key(patterns)
    keep.put(key, b"made by another version of the library")
    assert finds(tmp_path)
    assert compiled == [2]
    assert HyperscanMatcher.load(patterns, keep.get(key) or b"") is not None


def test_a_disk_that_cannot_be_written_costs_only_time(
    tmp_path: Path, compiled: list[int], caplog: pytest.LogCaptureFixture
) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("in the way")
    assert finds(blocked)
    assert finds(blocked)
    assert compiled == [2, 2]
    assert "compiled patterns cannot be cached" in caplog.text


def test_old_files_are_removed(tmp_path: Path) -> None:
    keep = CompiledPatterns(tmp_path)
    for number in range(20):
        keep.put(f"{number:02}", b"x")
    names = sorted(file.stem for file in tmp_path.iterdir())
    assert len(names) == 16
    assert keep.get("19") == b"x"


def test_where_the_cache_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POINTSMAN_CACHE_DIR", "/var/cache/points")
    assert cache_directory() == Path("/var/cache/points")
    monkeypatch.delenv("POINTSMAN_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", "/xdg")
    assert cache_directory() == Path("/xdg/pointsman")
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert cache_directory() == Path.home() / ".cache" / "pointsman"


def test_a_user_without_a_home_compiles_every_time(
    monkeypatch: pytest.MonkeyPatch, compiled: list[int]
) -> None:
    def homeless() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("POINTSMAN_CACHE_DIR", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(Path, "home", homeless)
    assert open_scanner(SIGNALS).scan("use Python").hits == 1
    assert compiled == [2]


def test_a_full_disk_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(path: Path, target: Path) -> Path:
        raise OSError("No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    assert finds(tmp_path)
    assert list(tmp_path.iterdir()) == []
