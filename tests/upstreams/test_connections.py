"""Connections without the extra ``gateway``: who only decides needs none; who sends is told of it."""

import subprocess
import sys

WITHOUT = """
import sys
sys.modules["httptools"] = None
from pointsman.errors import MissingExtra
from pointsman.upstreams.connections import Connections
from pointsman.upstreams.port import UpstreamSpec
connections = Connections()
try:
    connections(UpstreamSpec("main", "http://127.0.0.1:1/v1"))
except MissingExtra as error:
    print(error.extra, error)
connections.close()
"""


def test_a_request_without_the_extra_says_which_is_missing() -> None:
    ran = subprocess.run([sys.executable, "-c", WITHOUT], capture_output=True, text=True, check=True)
    assert (
        ran.stdout
        == "gateway a request to an upstream needs an optional dependency; pip install 'pointsman[gateway]'\n"
    )
