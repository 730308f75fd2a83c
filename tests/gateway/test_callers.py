"""Keys keep callers apart: what one key made, another cannot read, continue, judge or delete."""

import asyncio
import hashlib
import json
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from pointsman.access import Ownership
from pointsman.gateway._owned import AnswerClaim
from pointsman.runtime import new_ids
from pointsman.stores.ledger import Ledger, MemoryLedger, SqliteLedger
from pointsman.testing import a_run_entry
from pointsman.upstreams.port import ServerSpec, caller_name, hash_key
from support.deciders import ScriptedDecider
from support.requests_by_format import start_stream
from support.servers import Asked, ScriptedUpstream, gateway, reply, state_for

pytestmark = pytest.mark.integration

ALICE, BOB = ({"authorization": f"Bearer {name}"} for name in ("alice", "bob"))
JSON = {"content-type": "application/json"}
LEDGERS: dict[str, Callable[[Path], Ledger]] = {
    "memory": lambda _: MemoryLedger(),
    "sqlite": lambda folder: SqliteLedger(folder / "ledger.sqlite"),
}
CHAT = {"model": "auto", "messages": [{"role": "user", "content": "Hello!"}]}


class Trial:
    """A gateway that two keys may call."""

    def __init__(self, client: httpx.Client, decider: ScriptedDecider) -> None:
        self.client = client
        self.decider = decider

    def decided(self, caller: dict[str, str], **headers: str) -> str:
        """Return the id of a decision just made for a caller."""
        answer = self.client.post("/v1/chat/completions", json=CHAT, headers=caller | headers)
        return answer.raise_for_status().headers["x-pointsman-decision-id"]

    def session(self) -> str:
        """The session of the latest request."""
        return self.decider.turns[-1].session


@contextmanager
def serving(ledger: Ledger, *keys: str) -> Iterator[Trial]:
    decider = ScriptedDecider("m0", ledger=ledger)
    state = state_for(decider=decider, server=ServerSpec(port=0, keys=tuple(map(hash_key, keys))))
    with closing(ledger), gateway(state) as running, httpx.Client(base_url=running.url) as client:
        yield Trial(client, decider)


@pytest.fixture(scope="module", params=LEDGERS)
def trial(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trial]:
    with serving(LEDGERS[request.param](tmp_path_factory.mktemp("ledger")), "alice", "bob") as trial:
        yield trial


def test_a_decision_is_shown_to_its_caller_alone(trial: Trial) -> None:
    decision = trial.decided(ALICE)
    own = trial.client.get(f"/v1/decisions/{decision}", headers=ALICE)
    assert own.json()["decision"]["id"] == decision
    others = trial.client.get(f"/v1/decisions/{decision}", headers=BOB)
    unknown = trial.client.get("/v1/decisions/d-none", headers=BOB)
    assert (others.status_code, others.content) == (404, unknown.content)
    assert others.headers == unknown.headers


def test_a_run_that_came_with_no_key_is_shown_to_no_caller(trial: Trial) -> None:
    trial.decider.ledger.append(a_run_entry("r-1"))
    assert trial.client.get("/v1/decisions/r-1", headers=ALICE).status_code == 404


def test_an_outcome_is_taken_from_the_caller_of_the_decision_alone(trial: Trial) -> None:
    decision = trial.decided(ALICE)
    trial.decider.ledger.flush()
    for said in ({"score": 1}, {"label": "fine"}):
        others = trial.client.post(f"/v1/decisions/{decision}/outcome", json=said, headers=BOB)
        unknown = trial.client.post("/v1/decisions/d-none/outcome", json=said, headers=BOB)
        assert others.status_code == unknown.status_code == 404
        assert others.text.replace(decision, "d-none") == unknown.text
    assert trial.decider.ledger.outcomes(decision) == ()
    own = trial.client.post(f"/v1/decisions/{decision}/outcome", json={"score": 1}, headers=ALICE)
    assert own.status_code == 202


def test_an_outcome_of_a_decision_that_waits_is_taken_from_its_caller_alone(trial: Trial) -> None:
    decision = trial.decided(ALICE)
    path = f"/v1/decisions/{decision}/outcome"
    assert trial.client.post(path, json={"score": 0}, headers=BOB).status_code == 404
    assert trial.client.post(path, json={"score": 1}, headers=ALICE).status_code == 202


@pytest.mark.parametrize(
    "headers", [{}, {"x-session-id": "same"}, {"x-session-id": "a/b"}, {"session-id": "0193"}]
)
def test_callers_share_no_session(trial: Trial, headers: dict[str, str]) -> None:
    trial.decided(ALICE, **headers)
    first = trial.session()
    trial.decided(BOB, **headers)
    second = trial.session()
    trial.decided(ALICE, **headers)
    assert first != second
    assert trial.session() == first


def test_no_caller_can_name_a_session_of_another(trial: Trial) -> None:
    trial.decided(ALICE, **{"x-session-id": "mine"})
    wanted = trial.session()
    for name in (wanted, wanted.replace("/", ":"), f"../{wanted}"):
        trial.decided(BOB, **{"x-session-id": name})
        assert trial.session() != wanted


def test_a_session_of_the_metadata_is_of_its_caller(trial: Trial) -> None:
    body = {**CHAT, "max_tokens": 9, "metadata": {"user_id": "user_1_session_2"}}
    sessions = []
    for caller in (ALICE, BOB):
        key = {"x-api-key": caller["authorization"].removeprefix("Bearer ")}
        trial.client.post("/v1/messages", json=body, headers=key).raise_for_status()
        sessions.append(trial.session())
    assert len(set(sessions)) == 2


def test_a_conversation_is_continued_by_its_caller_alone(trial: Trial) -> None:
    def asked(caller: dict[str, str], **more: Any) -> httpx.Response:
        body = {"model": "auto", "input": "Hello!", **more}
        return trial.client.post("/v1/responses", json=body, headers=caller | {"x-session-id": "one"})

    first = asked(ALICE).raise_for_status().json()["id"]
    session = trial.session()
    others = trial.client.post(
        "/v1/responses", json={"model": "auto", "input": "On!", "previous_response_id": first}, headers=BOB
    )
    unknown = trial.client.post(
        "/v1/responses", json={"model": "auto", "input": "On!", "previous_response_id": "no"}, headers=BOB
    )
    assert trial.session() == session  # neither was decided
    assert others.status_code == unknown.status_code == 400
    assert others.json()["error"]["code"] == "previous_response_not_found"
    assert others.text.replace(first, "no") == unknown.text
    own = {"model": "auto", "input": "On!", "previous_response_id": first}
    assert trial.client.post("/v1/responses", json=own, headers=ALICE).status_code == 200
    assert trial.session() == session


def test_the_record_names_the_caller_and_no_key(trial: Trial) -> None:
    decision = trial.decided(ALICE)
    body = trial.client.get(f"/v1/decisions/{decision}", headers=ALICE).json()
    name = "key-" + hashlib.sha256(b"alice").hexdigest()[:12]
    assert body["decision"]["input"]["caller"] == name
    assert body["decision"]["input"]["session"].startswith(f"{name}/")
    assert "alice" not in json.dumps(body)


def test_without_keys_everything_belongs_to_one_caller() -> None:
    with serving(MemoryLedger()) as trial:
        decision = trial.decided({}, **{"x-session-id": "mine"})
        assert trial.session() == "mine"
        assert trial.client.get(f"/v1/decisions/{decision}").status_code == 200
        path = f"/v1/decisions/{decision}/outcome"
        assert trial.client.post(path, json={"score": 1}).status_code == 202


def test_ids_of_decisions_cannot_be_guessed() -> None:
    ids = [new_ids()() for _ in range(3)]
    new_id = new_ids()
    ids += [new_id() for _ in range(1_000)]
    assert len(set(ids)) == len(ids)
    assert all(re.fullmatch("d-[0-9a-v]{20}", each) for each in ids)
    assert len({each[6:12] for each in ids}) > 1_000 - 3  # nothing is counted behind a common beginning


class Objects:
    """An upstream that keeps what it is sent, and gives it to whoever names its id."""

    def __init__(self) -> None:
        self.kept: dict[str, str] = {}

    async def __call__(self, asked: Asked, send: Any) -> None:
        path = asked.path.partition("?")[0].removeprefix("/v1/").split("/")
        if asked.method == "POST" and len(path) == 1:
            name = f"{path[0]}-{len(self.kept) + 1}"
            self.kept[name] = asked.body.decode()
            said = asked.body.decode()
            body: dict[str, Any] = {"id": name, "object": "response", "output": [], "data": said}
        elif asked.method == "GET" and len(path) == 1:
            body = {"object": "list", "data": [{"id": name} for name in self.kept]}
        else:
            named = next((each for each in path if each in self.kept), "")
            body = {"id": named, "data": self.kept.get(named)}
        await reply(send, 200, json.dumps(body).encode())


@contextmanager
def keeping(*keys: str, **more: Any) -> Iterator[tuple[httpx.Client, ScriptedUpstream]]:
    upstream = ScriptedUpstream(Objects())
    server = ServerSpec(port=0, keys=tuple(map(hash_key, keys)), passthrough="up0")
    with upstream.running() as url:
        state = state_for(f"{url}/v1", decider=ScriptedDecider("m0"), server=server, **more)
        with gateway(state) as running, httpx.Client(base_url=running.url) as client:
            yield client, upstream


@pytest.fixture(scope="module")
def shared() -> Iterator[tuple[httpx.Client, ScriptedUpstream]]:
    with keeping("alice", "bob") as trial:
        yield trial


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "files/{}"),
        ("GET", "files/{}/content"),
        ("DELETE", "files/{}"),
        ("POST", "files/{}"),
        ("POST", "batches/{}/cancel"),
        ("GET", "vector_stores/{}/files/file-9"),
        ("GET", "messages/batches/{}/results"),
        ("GET", "fine_tuning/jobs/{}"),
        ("GET", "files/{}?a=b"),
    ],
)
def test_an_object_is_its_callers_alone(
    shared: tuple[httpx.Client, ScriptedUpstream], method: str, path: str
) -> None:
    client, upstream = shared
    made = client.post("/v1/files", content=b'{"purpose": "batch"}', headers=ALICE | JSON).json()["id"]
    before = len(upstream.asked)
    others = client.request(method, f"/v1/{path.format(made)}", headers=BOB)
    unknown = client.request(method, f"/v1/{path.format('file-none')}", headers=BOB)
    assert others.status_code == unknown.status_code == 404
    assert others.text.replace(made, "file-none") == unknown.text
    assert len(upstream.asked) == before  # the upstream is not asked
    own = client.request(method, f"/v1/{path.format(made)}", headers=ALICE)
    assert (own.status_code, own.json()["id"]) == (200, made)


def test_an_id_in_other_characters_is_the_same_object(
    shared: tuple[httpx.Client, ScriptedUpstream],
) -> None:
    client, _ = shared
    made = client.post("/v1/files", content=b"{}", headers=ALICE | JSON).json()["id"]
    encoded = "".join(f"%{ord(char):02x}" for char in made)
    assert client.get(f"/v1/files/{encoded}", headers=BOB).status_code == 404
    assert client.get(f"/v1/files/{encoded}", headers=ALICE).status_code == 200


@pytest.mark.parametrize("method", ["GET", "DELETE"])
def test_the_objects_of_all_are_not_listed(
    shared: tuple[httpx.Client, ScriptedUpstream], method: str
) -> None:
    client, upstream = shared
    before = len(upstream.asked)
    answer = client.request(method, "/v1/files?limit=100", headers=BOB)
    assert answer.status_code == 404
    assert "not listed" in answer.json()["error"]["message"]
    assert len(upstream.asked) == before


@pytest.mark.parametrize(
    "body",
    [
        '{"input_file_id": "%s"}',
        '{"requests": [{"a": {"file_id": "%s"}}]}',
        '{"file_ids": ["x", "%s"]}',
        '{"previous_response_id": "%s"}',
        '{"f\\u0069le_id": "%s"}',
        '{"container": {"id": "%s"}}',
        '{"container": [{"id": "%s", "id": "x"}]}',
        '{"t": {"file_ids": ["%s"], "file_ids": []}}',
        '{"s": {"t": {"file_id": "%s"}, "t": {}}}',
        '{"Input_file_id": "%s"}',
        '{"vector_\u017ftore_id": "%s"}',
        '{"file_id": "%s\\ud800"}',
        '{"file_id": "%s", "x": 1e400}',
        '{"file_id": "%s", "x": "\\ud83d"}',
    ],
)
def test_another_callers_object_cannot_be_named_in_a_body(
    shared: tuple[httpx.Client, ScriptedUpstream], body: str
) -> None:
    client, _ = shared
    made = client.post("/v1/files", content=b"{}", headers=ALICE | JSON).json()["id"]
    asked = {"content": (body % made).encode()}
    assert client.post("/v1/batches", headers=BOB | JSON, **asked).status_code == 404
    assert client.post("/v1/batches", headers=ALICE | JSON, **asked).status_code == 200


@pytest.mark.parametrize(
    "body",
    [
        b'{"input_file_id": "x", "y": NaN}',
        b'{"input_file_id": "x", "y": -Infinity}',
        b'\xef\xbb\xbf{"input_file_id": "x"}',
        '{"input_file_id": "x"}'.encode("utf-16"),
        b'{"input_file_id": "x", "y": "\t"}',
        b'{"input_file_id": "x", "y": "\xe9"}',
        b'{"input_file_id": "x", // y\n "y": 1}',
        b'{"input_file_id": "x"',
        b'{"input_file_id": "x", "y": %s1%s}' % (b"[" * 1_100, b"]" * 1_100),
    ],
)
@pytest.mark.parametrize("path", ["batches", "responses/compact"])
def test_a_body_that_is_not_json_is_not_passed_on(
    shared: tuple[httpx.Client, ScriptedUpstream], path: str, body: bytes
) -> None:
    client, upstream = shared
    before = len(upstream.asked)
    answer = client.post(f"/v1/{path}", content=body, headers=BOB | JSON)
    assert (answer.status_code, len(upstream.asked)) in {(400, before), (413, before)}, answer.text
    assert answer.json()["error"]["message"].startswith("the request body is n")  # not JSON, or nested


@pytest.mark.parametrize(
    "query", ["file_id={}", "File_id={}", "file_ids[]={}", "a=b&file_ids=x,{}", "a=b;file%5fid={}"]
)
def test_another_callers_object_cannot_be_named_in_a_query(
    shared: tuple[httpx.Client, ScriptedUpstream], query: str
) -> None:
    client, _ = shared
    made = client.post("/v1/files", content=b"{}", headers=ALICE | JSON).json()["id"]
    path = f"/v1/batches?{query.format(made)}"
    assert client.post(path, content=b"{}", headers=BOB | JSON).status_code == 404
    assert client.post(path, content=b"{}", headers=ALICE | JSON).status_code == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"content-type": "text/plain"},
        {"content-type": "application/x-www-form-urlencoded"},
        {"content-type": "application/vnd.api+json"},
        {},
        {"content-type": "application/json; charset=utf-7"},
        JSON | {"content-encoding": "gzip"},
    ],
)
def test_a_body_that_is_not_read_here_names_nothing(
    shared: tuple[httpx.Client, ScriptedUpstream], headers: dict[str, str]
) -> None:
    client, upstream = shared
    before = len(upstream.asked)
    answer = client.post("/v1/batches", content=b'{"input_file_id": "x"}', headers=BOB | headers)
    assert (answer.status_code, len(upstream.asked)) == (415, before)
    form = {"content-type": "multipart/form-data; boundary=b"}
    assert client.post("/v1/files", content=b"--b--", headers=BOB | form).status_code == 200


@pytest.mark.parametrize(
    "part",
    [
        '{"type": "file", "file": {"file_id": "%s"}}',
        '{"type": "input_file", "file_id": "%s"}',
        '{"type": "x", "fil\\u0065_id": "%s"}',
        '{"type": "x", "File_ID": "%s"}',
        '{"type": "x", "vector_\\u017ftore_ids": ["%s"]}',
        '{"type": "x", "file_id": "%s", "file_id": "y"}',
        '{"type": "input_file", "file_id": "%s", "y": "\\ud83d"}',
    ],
)
def test_another_callers_file_cannot_be_shown_to_a_model(
    shared: tuple[httpx.Client, ScriptedUpstream], part: str
) -> None:
    client, upstream = shared
    made = client.post("/v1/files", content=b"{}", headers=ALICE | JSON).json()["id"]
    body = '{"model": "auto", "messages": [{"role": "user", "content": [%s]}]}' % (part % made)
    before = len(upstream.asked)
    answer = client.post("/v1/chat/completions", content=body.encode(), headers=BOB | JSON)
    assert (answer.status_code, len(upstream.asked)) == (404, before)
    assert client.post("/v1/chat/completions", content=body.encode(), headers=ALICE | JSON).status_code == 200


def test_what_an_upstream_answers_is_sent_on_as_it_is(
    shared: tuple[httpx.Client, ScriptedUpstream],
) -> None:
    client, _ = shared
    large = b'{"a": "%s"}' % (b"x" * 400_000)  # longer than what is held to look for an id
    answer = client.post("/v1/files", content=large, headers=ALICE | JSON)
    assert answer.json()["data"].encode() == large
    made = client.post("/v1/files", content=b"{}", headers=ALICE | JSON)
    assert made.json()["data"] == "{}"


def test_with_one_key_nothing_is_refused() -> None:
    with keeping("alice") as (client, _):
        assert client.get("/v1/files", headers=ALICE).status_code == 200
        assert client.get("/v1/files/made-elsewhere", headers=ALICE).status_code == 200


def test_an_upstream_that_takes_the_callers_own_credential_tells_them_apart_itself() -> None:
    with keeping("alice", "bob", forward_auth=True, api_key=None) as (client, upstream):
        headers = {"x-pointsman-key": "bob", "authorization": "Bearer sk-of-bob"}
        assert client.get("/v1/files/file-1", headers=headers).status_code == 200
        assert upstream.asked[-1].headers["authorization"] == "Bearer sk-of-bob"


def test_an_answer_is_continued_by_its_caller_after_the_gateway_forgot_it() -> None:
    ledger = MemoryLedger()
    upstream = ScriptedUpstream(Objects())
    server = ServerSpec(port=0, keys=(hash_key("alice"), hash_key("bob")))
    with upstream.running() as url:
        made = ""
        for headers, status in ((ALICE, 200), (ALICE, 200), (BOB, 400)):
            decider = ScriptedDecider("m0", ledger=ledger)
            state = state_for(f"{url}/v1", decider=decider, server=server)
            with gateway(state) as running, httpx.Client(base_url=running.url) as client:
                body = {"model": "auto", "input": "On!"} | ({"previous_response_id": made} if made else {})
                answer = client.post("/v1/responses", json=body, headers=headers)
                assert answer.status_code == status
                made = answer.json().get("id", made)


def test_the_conversation_of_another_caller_is_unknown(
    shared: tuple[httpx.Client, ScriptedUpstream],
) -> None:
    client, _ = shared
    made = client.post("/v1/conversations", content=b"{}", headers=ALICE | JSON).json()["id"]
    for conversation in (made, {"id": made}):
        body = {"model": "auto", "input": "On!", "conversation": conversation}
        assert client.post("/v1/responses", json=body, headers=BOB).status_code == 404
        assert client.post("/v1/responses", json=body, headers=ALICE).status_code == 200


def test_the_tokens_of_another_callers_answer_are_not_counted(
    shared: tuple[httpx.Client, ScriptedUpstream],
) -> None:
    client, _ = shared
    made = client.post("/v1/responses", json={"model": "auto", "input": "Hi"}, headers=ALICE).json()["id"]
    body = {"model": "m0", "input": "On!", "previous_response_id": made}
    assert client.post("/v1/responses/input_tokens", json=body, headers=BOB).status_code == 404
    assert client.post("/v1/responses/input_tokens", json=body, headers=ALICE).status_code == 200


def test_an_answer_that_begins_with_a_comment_is_its_callers() -> None:
    async def answer(asked: Asked, send: Any) -> None:
        response = {"id": "resp_1", "object": "response", "output": []}
        done = json.dumps({"type": "response.completed", "response": response})
        await start_stream(send, b": hold on\n\n", f"event: response.completed\ndata: {done}\n\n".encode())
        await send({"type": "http.response.body"})

    ledger = MemoryLedger()
    server = ServerSpec(port=0, keys=(hash_key("alice"), hash_key("bob")))
    with ScriptedUpstream(answer).running() as url:
        state = state_for(f"{url}/v1", decider=ScriptedDecider("m0", ledger=ledger), server=server)
        with gateway(state) as running, httpx.Client(base_url=running.url) as client:
            body = {"model": "auto", "input": "Hello!", "stream": True}
            client.post("/v1/responses", json=body, headers=ALICE).raise_for_status()
    [owner] = ledger.owners()
    assert owner.caller == caller_name(hash_key("alice"))


def test_a_stored_answer_is_its_callers_who_left_before_its_end() -> None:
    left = threading.Event()

    async def begin(asked: Asked, send: Any) -> None:
        if asked.method == "GET":
            await reply(send, 200, b'{"id": "resp_1"}')
            return
        response = {"id": "resp_1", "object": "response", "output": [], "status": "in_progress"}
        event = json.dumps({"type": "response.created", "response": response})
        await start_stream(send, f"event: response.created\ndata: {event}\n\n".encode())
        await asyncio.to_thread(left.wait)

    server = ServerSpec(port=0, keys=(hash_key("alice"), hash_key("bob")), passthrough="up0")
    with ScriptedUpstream(begin).running() as url:
        state = state_for(f"{url}/v1", decider=ScriptedDecider("m0"), server=server)
        with gateway(state) as running, httpx.Client(base_url=running.url) as client:
            body = {"model": "auto", "input": "Hello!", "background": True, "stream": True}
            with client.stream("POST", "/v1/responses", json=body, headers=ALICE) as answer:
                assert next(answer.iter_lines()) == "event: response.created"
            assert client.get("/v1/responses/resp_1", headers=BOB).status_code == 404
            assert client.get("/v1/responses/resp_1", headers=ALICE).status_code == 200
            left.set()


@pytest.mark.parametrize("streamed", [False, True])
def test_the_containers_of_an_answer_are_its_callers(streamed: bool) -> None:
    """Once, nobody was known to have made them: any caller could name one, and its own could not read it."""
    ran = {"id": "ci_1", "type": "code_interpreter_call", "container_id": "cntr_1", "code": "1"}
    broken = {"id": "msg_1", "type": "message", "content": [{"container_id": 7}, {"container_id": None}]}
    whole = {"id": "resp_1", "output": [ran, broken]}
    begun = {"type": "response.created", "response": {"id": "resp_1", "output": []}}
    ended = {"type": "response.completed", "response": whole}
    parts = [f"data: {json.dumps(each)}\n\n".encode() for each in (begun, ended)]
    ownership = Ownership(MemoryLedger())
    claim = AnswerClaim(ownership, "alice", at=1.0)
    for part in parts if streamed else [json.dumps(whole).encode()]:
        claim.read(part)

    async def run() -> list[bool]:
        return [
            await ownership.belongs(who, name) for who in ("alice", "bob") for name in ("resp_1", "cntr_1")
        ]

    assert asyncio.run(run()) == [True, True, False, False]
