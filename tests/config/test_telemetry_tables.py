"""The tables ``[telemetry]`` and ``[ext_proc]``: what is wrong in them is named with its line."""

from pathlib import Path

import pytest

from pointsman.config.load import examine

BASE = """
[upstreams.main]
base_url = "http://127.0.0.1:9/v1"
[models]
small = { upstream = "main", id = "s" }
[tiers]
simple = "small"
"""


def problems(folder: Path, text: str, **env: str) -> list[str]:
    (file := folder / "pointsman.toml").write_text(BASE + text, encoding="utf-8")
    return [error.message.removeprefix(f"{folder}/") for error in examine(file, env).errors]


@pytest.mark.parametrize(
    "text",
    [
        '[telemetry]\nendpoint = "http://collector:4318"\nratio = 0.01\n',
        '[telemetry]\nendpoint = "https://c/otlp"\nheaders = { authorization = "Bearer ${KEY}" }\n',
        '[ext_proc]\nport = 0\nmodel_headers = ["X-Gateway-Model-Name"]\nmodel_value = "name"\n',
        '[ext_proc]\ncertificate = "a.pem"\nprivate_key = "b.pem"\nclient_ca = "c.pem"\n',
    ],
)
def test_what_is_right(tmp_path: Path, text: str) -> None:
    assert problems(tmp_path, text, KEY="k") == []


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('[telemetry]\nendpoint = "collector:4318"\n', "pointsman.toml:9: not an address of OTLP over HTTP"),
        ('[telemetry]\nendpoint = "grpc://c:4317"\n', "pointsman.toml:9: not an address of OTLP over HTTP"),
        ("[telemetry]\nratio = 2\n", "pointsman.toml:9: "),
        ('[telemetry]\nheaders = { authorization = "${NOT_SET}" }\n', "pointsman.toml:9: "),
        ("[telemetry]\nsample = 1\n", 'pointsman.toml:9: unknown key "sample" in [telemetry]'),
        ('[ext_proc]\ncertificate = "a.pem"\n', 'pointsman.toml:9: "certificate" and "private_key" are set'),
        ('[ext_proc]\nclient_ca = "a.pem"\n', 'pointsman.toml:9: "client_ca" needs "certificate"'),
        ('[ext_proc]\nmodel_value = "upstream"\n', "pointsman.toml:9: "),
        ("[ext_proc]\nport = 70_000\n", "pointsman.toml:9: "),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, text: str, said: str) -> None:
    (found,) = problems(tmp_path, text)
    assert found.startswith(said)
