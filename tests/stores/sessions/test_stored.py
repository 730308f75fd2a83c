"""What of a session's memory leaves the process."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from pointsman.decision.decision import Injection
from pointsman.decision.memory import Additions, Memory, Place, without_content
from pointsman.guidance import GuidanceMemory
from pointsman.guidance.memory import Thread
from pointsman.runtime import encode_memory
from pointsman.stores.sessions import SqliteSessions, ValkeySessions
from pointsman.stores.sessions.port import stored_form
from pointsman.trajectory import (
    CallOutcome,
    RepeatedError,
    Step,
    TrajectoryAnalysis,
    TrajectoryMemory,
    TrajectoryState,
)

HINT, DOMAIN = Injection("guidance", "canary hint"), Injection("domains", "a text of a domain")


def failed(text: str) -> Step:
    said = f"canary {text}"
    return Step("bash", text, "0b", 9, CallOutcome.ERROR, signature=said, message=f"{said} 1")


def memory(*steps: Step, additions: Additions = Additions()) -> Memory:  # noqa: B008 - a frozen value
    thread = Thread(1, TrajectoryMemory(TrajectoryState(steps)))
    return Memory(model="m", guidance=GuidanceMemory(threads={"opening": thread}), additions=additions)


STUCK = memory(
    Step("bash", "0a", "0b", 9),
    failed("a"),
    failed("b"),
    additions=Additions((HINT, DOMAIN), (Place(1, "k1", (0,)), Place(2, "k2", (0, 1)), Place(3, "k3", (1,)))),
)


def test_texts_are_left_out_and_the_rest_is_as_it_was() -> None:
    stored = msgspec.json.decode(stored_form(encode_memory(STUCK)), type=Memory)
    assert "canary" not in encode_memory(stored).decode()
    assert stored.model == "m"
    assert stored.additions == Additions((DOMAIN,), (Place(2, "k2", (0,)), Place(3, "k3", (0,))))
    kept = stored.guidance.threads["opening"].trajectory.state.steps
    before = STUCK.guidance.threads["opening"].trajectory.state.steps
    assert [step.error_key for step in kept] == [step.error_key for step in before]
    assert kept[0] == before[0]
    assert len({step.error_key for step in kept}) == 3
    assert stored_form(encode_memory(stored)) == encode_memory(stored)
    assert without_content(stored) == stored


def test_an_error_is_recognised_after_a_restart() -> None:
    before = [failed("a").without_content(), failed("a").without_content()]
    state = TrajectoryState((*before, failed("b"), failed("a")), tool_call_count=4, attempt=4)
    found = TrajectoryAnalysis(state).patterns()["repeated_error"]
    assert isinstance(found, RepeatedError)
    assert (found.error_signature, found.count) == ("canary a", 3)
    assert TrajectoryAnalysis(state).error_frequency() == {"canary a": 3, "canary b": 1}


@pytest.mark.parametrize("other", [b"", b"memory", b'["error"]', b'"error" "additions"'])
def test_what_is_no_memory_of_ours_is_kept_as_it_is(other: bytes) -> None:
    assert stored_form(other) is other


def test_a_memory_without_texts_is_not_read_again() -> None:
    plain = encode_memory(Memory(model="m"))
    assert stored_form(plain) is plain


def test_the_file_holds_no_text_and_the_process_does(tmp_path: Path) -> None:
    path, whole = tmp_path / "sessions.sqlite", encode_memory(STUCK)
    store = SqliteSessions(path)
    store.put("s", whole)
    store.flush()
    assert store.get("s") == whole
    assert not [file for file in tmp_path.iterdir() if b"canary" in file.read_bytes()]
    store.close()
    later = SqliteSessions(path)
    assert later.get("s") == stored_form(whole)
    later.close()


class Server:
    """What a Valkey keeps."""

    def __init__(self) -> None:
        self.kept: dict[str, bytes] = {}

    def get(self, key: str) -> bytes | None:
        return self.kept.get(key)

    def set(self, key: str, value: bytes, px: int) -> None:
        assert px > 0
        self.kept[key] = value


def valkey(server: Any) -> ValkeySessions:
    pytest.importorskip("redis")
    store = ValkeySessions("redis://127.0.0.1:1/0")
    store._client.close()
    object.__setattr__(store._client, "redis", server)
    return store


def test_a_server_holds_no_text_and_the_process_that_put_it_does() -> None:
    server, whole = Server(), encode_memory(STUCK)
    first, second = valkey(server), valkey(server)
    first.put("s", whole)
    assert b"canary" not in b"".join(server.kept.values())
    assert first.get("s") == whole
    assert second.get("s") == stored_form(whole)
    other = encode_memory(Memory(model="elsewhere"))
    second.put("s", other)
    assert first.get("s") == other  # the session went on there
    first.put("s", other)
    assert first.get("s") == other
