"""What ``config init`` writes is right as it stands, for whatever the environment holds."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from pointsman.config import examine
from pointsman.config.draft import PROVIDERS, draft, find_local, find_providers

VARIABLES = [provider.variable for provider in PROVIDERS]


@pytest.mark.parametrize("names", [[], *([name] for name in VARIABLES), VARIABLES])
def test_the_draft_loads_and_guidance_and_domains_are_on(tmp_path: Path, names: list[str]) -> None:
    env = dict.fromkeys(names, "canary")
    file = tmp_path / "pointsman.toml"
    text = draft(find_providers(env))
    file.write_text(text)
    loaded = examine(file, env)
    assert loaded.errors == []
    assert loaded.config is not None
    assert len(loaded.config.upstreams) == max(1, len(names))
    assert len(loaded.config.tiers.models) == 4
    assert (loaded.config.guidance.mode, loaded.config.domains.mode) == ("on", "on")
    assert "canary" not in text
    served_by = {loaded.config.models[name].upstream for name in loaded.config.tiers.models.values()}
    assert len(served_by) == 1  # one request format suits every tier


def test_the_commented_lines_load_too(tmp_path: Path) -> None:
    text = draft([]).replace("# verify ", "verify ").replace("# keys ", "keys ")
    file = tmp_path / "pointsman.toml"
    file.write_text(text)
    assert examine(file, {"POINTSMAN_KEY": "x"}).errors == []
    assert text.count("#") < draft([]).count("#")


class Models(BaseHTTPRequestHandler):
    answer = b""

    def do_GET(self) -> None:
        self.send_response(200 if self.path == "/v1/models" else 404)
        self.end_headers()
        self.wfile.write(self.answer)

    def log_message(self, *args: object) -> None:
        pass


@pytest.fixture
def port() -> Iterator[int]:
    with HTTPServer(("127.0.0.1", 0), Models) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server.server_address[1]
        server.shutdown()
        thread.join()


def test_a_model_server_on_this_machine_is_found(port: int, tmp_path: Path) -> None:
    Models.answer = json.dumps({"data": [{"id": 'qwen"3:8b'}, {"id": "llama"}, {"id": "third"}]}).encode()
    [found] = find_local([("here", port), ("nobody", 9)])
    assert (found.name, found.base_url, found.variable) == ("here", f"http://127.0.0.1:{port}/v1", "")
    assert [model.id for model in found.models] == ['qwen"3:8b', "llama"]
    file = tmp_path / "pointsman.toml"
    file.write_text(draft([found]))
    config = examine(file, {}).config
    assert config is not None
    assert config.models["here-1"].id == 'qwen"3:8b'


@pytest.mark.parametrize("answer", [b"", b"hello", b"[]", b'{"data": 3}', b'{"data": [{}]}', b'{"data": []}'])
def test_something_else_at_that_port_is_not_a_model_server(port: int, answer: bytes) -> None:
    Models.answer = answer
    assert find_local([("here", port)]) == []
