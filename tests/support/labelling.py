"""A gateway whose answers of two models are labelled by clicks, in a process of its own."""

import random
import re
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import httpx

from pointsman.text.extract import draw
from support.waiting import until

__all__ = ["CONFIG", "PROMPTS", "LabelledGateway", "a_prompt", "by_kind", "labelled_gateway"]

PROMPTS = 120
CONFIG = """# kept as it is
[upstreams.demo]
base_url = "demo:"
[models.small]
upstream = "demo"
id = "demo-small"
input_per_million = 1.0
output_per_million = 2.0
[models.large]
upstream = "demo"
id = "demo-large"
input_per_million = 10.0
output_per_million = 20.0
[tiers]
simple = "small"
medium = "small"
complex = "large"
reasoning = "large"
[ledger]
path = "ledger.sqlite"
text = "full"
[shadow]
model = "large"
share = 1.0
text = "full"
per_minute = 100000
concurrent = 64
"""


class LabelledGateway:
    """A gateway in a process of its own, and a browser at it."""

    def __init__(self, folder: Path, port: int) -> None:
        self.file = folder / "pointsman.toml"
        self.file.write_text(CONFIG)
        self.http = httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60)
        self._log = (folder / "log").open("w")
        self._folder = folder
        self._command = [
            sys.executable,
            "-m",
            "pointsman",
            "serve",
            f"--config={self.file}",
            f"--port={port}",
        ]
        self.start()

    def start(self) -> None:
        """Start the gateway, and look at it as a browser does."""
        self._process = subprocess.Popen(self._command, stdout=self._log, stderr=self._log, cwd=self._folder)
        until(self._is_up)
        self.token = self._token()

    def stop(self) -> None:
        self._process.terminate()
        self._process.wait(60)

    def close(self) -> None:
        self.stop()
        self.http.close()
        self._log.close()

    def _is_up(self) -> bool:
        try:
            return self.http.get("/console/label").status_code == 200
        except httpx.TransportError:
            return False

    def _token(self) -> str:
        found = re.search(r'name="token" value="([^"]+)"', self.http.get("/console/try").text)
        assert found
        return found[1]

    def chat(self, prompt: str, model: str = "auto") -> str:
        body = {"model": model, "messages": [{"role": "user", "content": prompt}]}
        answer = self.http.post("/v1/chat/completions", json=body)
        assert answer.status_code == 200, answer.text
        return answer.headers["x-pointsman-decision-id"]

    def post(self, path: str, **form: str) -> httpx.Response:
        headers = {"origin": str(self.http.base_url).rstrip("/")}
        return self.http.post(path, data={"token": self.token, **form}, headers=headers)

    def served(self, prompt: str) -> str:
        found = self.http.get(f"/console/decisions/{self.chat(prompt)}.json").json()
        model: str = found["attempts"][-1]["model"]
        return model

    def label(self, score: Callable[[str], tuple[int, int]], prompts: int = PROMPTS) -> None:
        """Ask, and click a score for each of both answers, in the order in which the page shows them."""
        made = [(prompt, self.chat(prompt, "small")) for prompt in (a_prompt(n) for n in range(prompts))]
        for _, wanted in reversed(made):  # where the last are there, so are nearly all
            until(partial(self._has_both, wanted))
        for prompt, wanted in made:
            small, large = score(prompt)
            both = (small, large) if draw("kept answers", wanted) < 0.5 else (large, small)
            for place, value in enumerate(both, start=1):
                given = self.post(f"/console/label/{wanted}", score=str(value), answer=str(place))
                assert given.status_code == 303, given.text

    def _has_both(self, wanted: str) -> bool:
        return len(self.http.get(f"/console/decisions/{wanted}.json").json().get("shadows", ())) == 1

    def fit(self) -> str:
        """Press Fit, wait for its end on its page, and return that page's address."""
        begun = self.post("/console/fits", quality="0.95")
        assert begun.status_code == 303, begun.text
        page = begun.headers["location"]
        until(lambda: self.http.get(f"{page}.json").json()["state"] != "running", seconds=300)
        return page


@contextmanager
def labelled_gateway(folder: Path) -> Iterator[LabelledGateway]:
    """Start one, and end it."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    made = LabelledGateway(folder, port)
    try:
        yield made
    finally:
        made.close()


def a_prompt(number: int) -> str:
    """Every second one of a kind that the small model fails at; nothing else tells them apart."""
    draws = random.Random(number)
    words = ["".join(draws.choices("abcdefghijklmnopqrstuvwxyz", k=5)) for _ in range(3)]
    return f"{('plinth marrow', 'vellum quorix')[number % 2]} {' '.join(words)}"


def by_kind(prompt: str) -> tuple[int, int]:
    return (0, 1) if prompt.startswith("vellum") else (1, 1)
