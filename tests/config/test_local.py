"""Model servers on this machine, as each of them answers; the answers are those of the servers named."""

import json
import threading
from collections.abc import Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from pointsman.config.draft import find_local
from pointsman.config.local import LocalModel, LocalServer, find_servers

CHAT, RESPONSES, MESSAGES = "/v1/chat/completions", "/v1/responses", "/v1/messages"
#: What Express and LM Studio say to a path that there is not.
ANYWAY = {"error": "Unexpected endpoint or method. (POST /v1/messages)"}


class Scripted(ThreadingHTTPServer):
    """Answers by path with a status and a body; 404 to any other."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.answers: dict[str, tuple[int, bytes]] = {}
        self.asked: list[tuple[str, bytes]] = []

    def says(self, answers: Mapping[str, Any]) -> None:
        """Answer with 200 and JSON, or with a status of an error."""
        for path, answer in answers.items():
            status = answer if isinstance(answer, int) else 200
            body = b"{}" if isinstance(answer, int) else answer
            self.answers[path] = status, body if isinstance(body, bytes) else json.dumps(body).encode()


class _Handler(BaseHTTPRequestHandler):
    server: Scripted

    def do_GET(self) -> None:
        self.do_POST()

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        self.server.asked.append((self.path, body))
        status, answer = self.server.answers.get(self.path, (404, b"{}"))
        self.send_response(status)
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *args: object) -> None:
        pass


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Scripted]:
    monkeypatch.setattr("pointsman.config.local.PATIENCE", 30.0)
    with Scripted() as scripted:
        thread = threading.Thread(target=scripted.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield scripted
        scripted.shutdown()
        thread.join()


def found(server: Scripted, name: str = "here") -> LocalServer:
    [local] = find_servers([(name, server.server_address[1]), ("nobody", 9)])
    return local


def listed(*ids: str, **more: Any) -> dict[str, Any]:
    return {"object": "list", "data": [{"id": id_, "object": "model", **more} for id_ in ids]}


@pytest.mark.parametrize(
    ("answers", "formats"),
    [
        ({CHAT: 400, RESPONSES: 400, MESSAGES: 400}, ("chat", "responses", "messages")),  # Ollama 0.15
        ({CHAT: 400, RESPONSES: 422}, ("chat", "responses")),
        ({CHAT: 500, MESSAGES: 500}, ("chat", "messages")),  # llama.cpp on a missing field
        ({CHAT: 400, RESPONSES: 405}, ("chat",)),
        ({CHAT: 400, RESPONSES: 400, MESSAGES: ANYWAY}, ("chat", "responses")),  # LM Studio 0.3
        ({CHAT: 401, RESPONSES: 401}, ("chat", "responses")),  # it has them, for a key
        ({}, ("chat",)),  # whoever lists models has chat completions
    ],
)
def test_formats_are_probed_with_an_empty_body(
    server: Scripted, answers: dict[str, Any], formats: tuple[str, ...]
) -> None:
    server.says({"/v1/models": listed("qwen3:8b"), **answers})
    assert set(found(server).formats) == set(formats)
    assert [body for path, body in server.asked if path == CHAT] == [b"{}"]


def test_models_that_answer_no_chat_are_left_out(server: Scripted) -> None:
    others = (
        "nomic-embed-text:latest", "bge-m3", "text-embedding-qwen3-0.6b", "Qwen3-Reranker-4B", "whisper-1",
        "all-minilm:22m", "gpt-oss:120b-cloud", "glm-4.6:cloud", "openai/clip-vit", "kokoro-tts",
        "multilingual-e5-large",
    )  # fmt: skip
    server.says({"/v1/models": listed(*others, "gpt-oss:20b", "codestral:22b")})
    assert [model.id for model in found(server).models] == ["gpt-oss:20b", "codestral:22b"]


def test_what_ollama_knows_of_its_models(server: Scripted) -> None:
    """Neither size nor kind are in these names."""
    server.says({
        "/v1/models": listed("mxbai:latest", "mistral-large:latest", "llama3.2:latest"),
        "/api/tags": {
            "models": [
                {"name": "mxbai:latest", "details": {"family": "bert", "parameter_size": "334M"}},
                {"name": "mistral-large:latest", "details": {"family": "llama", "parameter_size": "122.6B"}},
                {"name": "llama3.2:latest", "details": {"family": "llama", "parameter_size": "3.2B"}},
            ]
        },
    })  # fmt: skip
    assert found(server).models == (
        LocalModel("llama3.2:latest", 3.2),
        LocalModel("mistral-large:latest", 122.6),
    )


def test_what_lm_studio_knows_of_its_models(server: Scripted) -> None:
    server.says({
        "/v1/models": listed("granite", "vectors"),
        "/api/v0/models": {
            "data": [
                {"id": "granite", "type": "llm", "loaded_context_length": 8192},
                {"id": "vectors", "type": "embeddings"},
            ]
        },
    })  # fmt: skip
    assert found(server).models == (LocalModel("granite", None, 8192),)


def test_what_vllm_and_llama_cpp_say_in_the_list(server: Scripted) -> None:
    server.says({"/v1/models": listed("meta/Llama-3.1-70B-Instruct", max_model_len=32_768)})
    assert found(server).models == (LocalModel("meta/Llama-3.1-70B-Instruct", 70.0, 32_768),)
    server.says({"/v1/models": listed("/models/a.gguf", meta={"n_params": 7_615_616_512})})
    assert found(server).models == (LocalModel("/models/a.gguf", 7.615616512),)


@pytest.mark.parametrize(
    ("id_", "size"),
    [
        ("qwen3:0.6b", 0.6),
        ("mixtral-8x7b-instruct", 56.0),
        ("qwen3-30b-a3b", 30.0),
        ("Phi-4-mini-4bit", None),
        ("gpt-oss-20b-MXFP4", 20.0),
        ("bob", None),
    ],
)
def test_sizes_in_names(server: Scripted, id_: str, size: float | None) -> None:
    server.says({"/v1/models": listed(id_)})
    assert found(server).models == (LocalModel(id_, size),)


def test_the_smallest_and_the_largest_are_drafted(server: Scripted) -> None:
    server.says({"/v1/models": listed("a:14b", "unknown", "b:70b", "c:3b")})
    [local] = find_local([("ollama", server.server_address[1])])
    assert [(model.name, model.id) for model in local.models] == [
        ("ollama-small", "c:3b"),
        ("ollama-large", "b:70b"),
    ]
    assert "OLLAMA_CONTEXT_LENGTH" in local.remark
    server.says({"/v1/models": listed("first", "second", "third")})
    [local] = find_local([("vllm", server.server_address[1])])
    assert [model.id for model in local.models] == ["first", "second"]
    server.says({"/v1/models": listed("one")})
    [local] = find_local([("vllm", server.server_address[1])])
    assert [model.name for model in local.models] == ["vllm"]


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"hello",
        b"[]",
        b'{"data": 3}',
        b'{"data": [{}, 3]}',
        b'{"data": [{"id": ""}]}',
        b'{"data": []}',
        404,
        500,
    ],
)
def test_something_else_at_that_port_is_not_a_model_server(server: Scripted, answer: Any) -> None:
    server.says({"/v1/models": answer})
    assert find_servers([("here", server.server_address[1])]) == []
    assert not any(body for _, body in server.asked)


def test_a_server_of_embeddings_alone_is_none(server: Scripted) -> None:
    server.says({"/v1/models": listed("bge-m3")})
    assert find_servers([("here", server.server_address[1])]) == []


@pytest.mark.parametrize(
    ("more", "window"),
    [
        (
            {"/api/show": {"model_info": {"general.parameter_count": 8, "qwen3.context_length": 40_960}}},
            40_960,
        ),
        (
            {
                "/api/show": {
                    "parameters": "stop <x>\nnum_ctx                        16384\ntop_k 20",
                    "model_info": {"qwen3.context_length": 40_960},
                }
            },
            16_384,
        ),
        (  # in memory, with the window that OLLAMA_CONTEXT_LENGTH gives
            {
                "/api/ps": {"models": [{"name": "other"}, {"name": "qwen3:8b", "context_length": 4096}]},
                "/api/show": {"model_info": {"qwen3.context_length": 40_960}},
            },
            4096,
        ),
        ({"/api/show": {"model_info": {"qwen3.context_length": "many"}}}, None),
        ({"/api/show": 404}, None),
        ({"/api/ps": {"models": 3}, "/api/show": b"[]"}, None),
    ],
)
def test_ollama_is_asked_for_the_window_of_a_drafted_model(
    server: Scripted, more: dict[str, Any], window: int | None
) -> None:
    server.says({"/v1/models": listed("qwen3:8b"), **more})
    [local] = find_local([("ollama", server.server_address[1])])
    assert [(model.id, model.window) for model in local.models] == [("qwen3:8b", window)]
    assert ("/api/ps", b"") in server.asked
    [other] = find_local([("vllm", server.server_address[1])])
    assert other.models[0].window is None


@pytest.mark.parametrize(
    ("meta", "window"), [({"n_ctx": 8192, "n_ctx_train": 40_960}, 8192), ({"n_ctx_train": 40_960}, 40_960)]
)
def test_llama_cpp_tells_the_window_it_was_started_with(
    server: Scripted, meta: dict[str, int], window: int
) -> None:
    server.says({"/v1/models": listed("/models/a.gguf", meta=meta)})
    assert found(server).models == (LocalModel("/models/a.gguf", None, window),)
