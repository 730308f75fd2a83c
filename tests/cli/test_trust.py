"""A configuration found in the working directory runs nothing and sends nothing until it is trusted."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from pointsman import Pointsman
from pointsman.cli import app
from pointsman.config import examine, find, load
from pointsman.config.files import FoundFile, record_of, trust, trusted_files
from pointsman.errors import ConfigError
from support.servers import Asked, ScriptedUpstream, reply
from support.waiting import until

#: Writes that it was run, and is a right application for all else.
EVIL = """\
from pathlib import Path
Path(__file__).with_name("ran").write_text("")
from pointsman.capabilities import CapabilityRegistry
application = CapabilityRegistry(())
"""
PLAIN = """\
[upstreams.main]
base_url = "{url}"
[models]
small = {{ upstream = "main", id = "s", input_per_million = 1, output_per_million = 2 }}
[tiers]
simple = "small"
[ledger]
path = "ledger.sqlite"
"""
CODE = PLAIN + '[capabilities]\nmode = "observe"\napplication = "evil.py"\n'
SECRET = PLAIN.replace('"{url}"\n', '"{url}"\napi_key = "${{A_SECRET_KEY}}"\n')

#: What the attack ran, and each command that finds a file by itself.
COMMANDS = [
    ["explain", "hello"],
    ["decisions", "list"],
    ["config", "check"],
    ["config", "show"],
    ["router", "show"],
    ["router", "doctor"],
    ["router", "doctor", "--live"],
    ["router", "classifier", "small"],
    ["sessions", "list"],
    ["models", "list"],
    ["select"],
    ["run", "hello"],
    ["keys", "list"],
    ["keys", "new", "me", "--write"],
    ["open"],
    ["report", "savings", "--baseline", "small"],
    ["classify", "--verify"],
    ["serve", "--port", "0"],
]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (project := tmp_path / "project").mkdir()
    monkeypatch.chdir(project)
    monkeypatch.delenv("POINTSMAN_CONFIG", raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("A_SECRET_KEY", "sk-canary-0123456789")
    (project / "evil.py").write_text(EVIL)
    return project


def write(folder: Path, text: str, url: str = "http://127.0.0.1:9/v1") -> Path:
    (file := folder / "pointsman.toml").write_text(text.format(url=url))
    return file


def run(*args: str) -> Result:
    return CliRunner().invoke(app, list(args), input='{"id": "1", "text": "hello"}\n')


def said(result: Result) -> str:
    """What a person reads: the output, or the error as one line and its hint."""
    error = result.exception
    return result.output + (f"{error}\n{error.hint}" if isinstance(error, ConfigError) else "")


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_an_untrusted_file_runs_no_code(folder: Path, command: list[str]) -> None:
    file = write(folder, CODE)
    result = run(*command)
    assert not (folder / "ran").exists()
    assert f"{file} is not trusted: it would run evil.py (line 11)" in said(result)
    assert "pointsman trust" in said(result)
    assert result.exit_code


def test_to_trust_a_file_that_is_not_there_says_what_writes_one(folder: Path) -> None:
    refused = run("trust", "none.toml")
    assert "cannot read none.toml" in said(refused)
    assert "pointsman config init writes one" in said(refused)


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_an_untrusted_file_sends_no_secret(folder: Path, command: list[str]) -> None:
    async def never(asked: Asked, send: Any) -> None:
        await reply(send, 200, b'{"data": []}')

    upstream = ScriptedUpstream(never)
    with upstream.running() as url:
        file = write(folder, SECRET, f"{url}/v1")
        result = run(*command)
    assert upstream.asked == []
    assert f"{file} is not trusted: it would use A_SECRET_KEY of the environment (line 3)" in said(result)
    assert "canary" not in said(result)


def test_check_and_doctor_say_it_as_json_too(folder: Path) -> None:
    write(folder, CODE)
    [error] = json.loads(run("config", "check", "--json").stdout)["errors"]
    [check] = json.loads(run("router", "doctor", "--json").stdout)
    assert "would run evil.py (line 11)" in error["message"]
    assert "would run evil.py (line 11)" in check["detail"]
    assert error["hint"] == check["hint"]
    assert "pointsman trust" in check["hint"]


@pytest.mark.parametrize(
    ("more", "effect"),
    [
        ("", ""),
        ("# ${HOME} in a comment\n", ""),
        ('[aliases]\n"$HOME" = "simple"\n', ""),  # no reference
        ('[shadow]\npolicy = "plain.toml"\n', ""),
        ('[aliases]\nhelper = "${HOME}"\n', "use HOME of the environment (line 10)"),
        ('[telemetry]\nheaders = { a = "${TOKEN}" }\n', "use TOKEN of the environment (line 10)"),
        ('[shadow]\npolicy = "shadow.toml"\n', "run evil.py (shadow.toml)"),
        ('[sessions]\npath = "state/sessions.sqlite"\n', ""),
        ('[sessions]\npath = "~/.profile"\n', "write ~/.profile (line 10)"),
        ('[sessions]\npath = "../other.sqlite"\n', "write ../other.sqlite (line 10)"),
        ('[ledger]\njsonl = "-"\n', ""),
        ('[ledger]\njsonl = "lines.jsonl"\n', ""),
        ('[ledger]\njsonl = "~/.bashrc"\n', "write ~/.bashrc (line 8)"),
        ('[ledger]\njsonl = ".git/hooks/pre-commit"\n', "write .git/hooks/pre-commit (line 8)"),
        ('[shadow]\npolicy = "/dev/zero"\n', "read /dev/zero (line 10)"),
        ('[shadow]\npolicy = "pipe"\n', "read pipe (line 10)"),
        ('[ledger]\njsonl = "link/x"\n', "write link/x (line 8)"),
        ('[ledger]\nurl = "postgresql://h/d"\n', "open the database of [ledger] url (line 8)"),
        (
            '[[guidance.providers]]\nentry_point = "evil:Provider"\n',
            "run evil:Provider (line 10)",
        ),
        (
            '[[guidance.providers]]\ntext = "a"\nclassifier = { any = [{ entry_point = "evil:C" }] }\n',
            "run evil:C (line 11)",
        ),
        (
            '[upstreams.other]\nbase_url = "https://h.example/v1"\nforward_auth = true\n',
            "send the credentials of callers to an upstream (line 11)",
        ),
    ],
)
def test_what_needs_trust(folder: Path, more: str, effect: str) -> None:
    write(folder, PLAIN)
    (folder / "link").symlink_to(folder.parent)
    os.mkfifo(folder / "pipe")
    (folder / "plain.toml").write_text((folder / "pointsman.toml").read_text())
    (folder / "shadow.toml").write_text(CODE.format(url="demo:"))
    text = (folder / "pointsman.toml").read_text() + more
    if more.startswith("[ledger]"):
        text = text.replace('[ledger]\npath = "ledger.sqlite"\n', "")
    (folder / "pointsman.toml").write_text(text)
    found = find()
    assert isinstance(found, FoundFile)
    errors = [error.message for error in examine(found, {}).errors]
    refused = [error for error in errors if "is not trusted" in error]
    assert refused == ([f"{found} is not trusted: it would {effect}"] if effect else [])
    assert not (folder / "ran").exists()


def test_code_comes_first_and_is_never_left_out(folder: Path) -> None:
    names = "".join(f'a{number} = "${{N{number}}}"\n' for number in range(7))
    more = f'[aliases]\n{names}[capabilities]\napplication = "evil.py"\n'
    (folder / "pointsman.toml").write_text(PLAIN.format(url="demo:") + more)
    [error] = examine(FoundFile(folder / "pointsman.toml"), {}).errors
    assert "it would run evil.py (line 18), use N0 of the environment (line 10)" in error.message
    assert error.message.endswith("and 3 more")


def test_trust_is_of_a_path_and_a_digest(folder: Path, tmp_path: Path) -> None:
    file = write(folder, CODE)
    result = run("trust")
    assert result.output == "pointsman.toml is trusted until it changes\n  it may run evil.py (line 11)\n"
    assert run("config", "check").exit_code == 0
    assert (folder / "ran").exists()
    assert run("trust", "--list").output.split()[2:] == [str(file), "trusted"]

    (folder / "ran").unlink()
    file.write_text(file.read_text() + "# changed\n")
    assert f"{file} has changed since it was trusted: it would run" in said(run("config", "check"))
    assert "changed or gone" in run("trust", "--list").output
    run("trust")

    (other := tmp_path / "other").mkdir()
    (other / "pointsman.toml").write_text(file.read_text())
    os.chdir(other)  # the same text elsewhere is another file
    assert "is not trusted" in said(run("config", "check"))
    os.chdir(folder)

    assert run("trust", "--revoke").output == "pointsman.toml is no longer trusted\n"
    assert "is not trusted" in said(run("config", "check"))
    assert trusted_files() == []
    assert "is not trusted" in said(run("trust", "--revoke"))
    assert not (folder / "ran").exists()


def test_a_record_of_trust_is_for_its_owner_alone(folder: Path) -> None:
    trust(file := write(folder, CODE))
    assert record_of(file).stat().st_mode & 0o777 == 0o600


def test_a_changed_shadow_policy_asks_anew(folder: Path) -> None:
    write(folder, PLAIN)
    (folder / "candidate.toml").write_text((folder / "pointsman.toml").read_text())
    file = write(folder, PLAIN + '[shadow]\npolicy = "candidate.toml"\n')
    run("trust")
    assert run("config", "check").exit_code == 0
    (folder / "candidate.toml").write_text(CODE.format(url="demo:"))
    assert f"{file} has changed since it was trusted" in said(run("config", "check"))
    assert not (folder / "ran").exists()


def test_what_init_wrote_is_trusted_and_our_commands_keep_it(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-canary")
    assert run("config", "init").exit_code == 0
    assert run("config", "check").exit_code == 0
    for command in (["router", "classifier", "haiku"], ["keys", "new", "me", "--write"]):
        assert run(*command).exit_code == 0, command
        assert run("config", "check").exit_code == 0, command
    with (folder / "pointsman.toml").open("a") as file:
        file.write("# by hand\n")
    assert "has changed since it was trusted" in said(run("router", "classifier", "haiku-4"))


@pytest.mark.parametrize("named", ["option", "variable", "own folder", "own folder is here"])
def test_a_file_that_the_user_names_is_trusted(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, named: str
) -> None:
    file, more = write(folder, CODE), []
    if named == "option":
        more = ["--config", "pointsman.toml"]
    elif named == "variable":
        monkeypatch.setenv("POINTSMAN_CONFIG", str(file))
    else:
        (tmp_path / "config").mkdir()
        folder.rename(tmp_path / "config" / "pointsman")
        folder = tmp_path / "config" / "pointsman"
        os.chdir(folder if named.endswith("here") else tmp_path)
    assert run("config", "check", *more).exit_code == 0
    assert (folder / "ran").exists()


def test_mcp_reads_no_file_of_the_working_directory(folder: Path) -> None:
    write(folder, CODE)
    run("trust")
    result = run("mcp")
    assert "no configuration is named" in said(result)
    assert "--config" in said(result)
    assert not (folder / "ran").exists()


@pytest.mark.parametrize("agent", ["claude-code", "codex", "opencode"])
def test_a_hook_reads_no_file_of_the_working_directory(folder: Path, agent: str) -> None:
    write(folder, CODE)
    CliRunner().invoke(app, ["hook", agent], input=json.dumps({"session_id": "s", "hook_event_name": "Stop"}))
    assert not (folder / "ran").exists()


def test_the_library_refuses_it_too(folder: Path) -> None:
    write(folder, CODE)
    with pytest.raises(ConfigError, match="is not trusted"):
        Pointsman.from_config()
    assert not (folder / "ran").exists()
    assert load(Path("pointsman.toml")).capabilities.application  # this one is named


def test_a_found_file_is_still_one_in_another_process(folder: Path) -> None:
    write(folder, CODE)
    again = pickle.loads(pickle.dumps(find()))
    assert isinstance(again, FoundFile)


@pytest.fixture
def serving(folder: Path) -> Iterator[subprocess.Popen[str]]:
    write(folder, PLAIN)
    command = [sys.executable, "-m", "pointsman", "serve", "--port", "0", "--log-level", "info"]
    log = (folder / "log").open("w")
    with log, subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True) as process:
        try:
            assert process.stdout is not None
            process.stdout.readline()
            yield process
        finally:
            process.kill()


@pytest.mark.integration
def test_a_gateway_reloads_a_changed_file_only_when_it_is_trusted(
    folder: Path, serving: subprocess.Popen[str]
) -> None:
    file = write(folder, CODE)
    until(lambda: "is not trusted" in (folder / "log").read_text())
    assert "pointsman trust" in (folder / "log").read_text()
    assert not (folder / "ran").exists()
    assert run("trust", str(file)).exit_code == 0  # no other change of the file
    until(lambda: (folder / "ran").exists())
    until(lambda: "configuration reloaded" in (folder / "log").read_text())


def test_a_record_that_cannot_be_written_is_told(folder: Path, tmp_path: Path) -> None:
    write(folder, CODE)
    (tmp_path / "state").write_text("a file where the folder should be")
    result = run("trust")
    assert isinstance(result.exception, ConfigError)
    assert "XDG_STATE_HOME" in result.exception.hint


def test_a_person_is_asked_before_code_is_trusted(tmp_path: Path) -> None:
    file = tmp_path / "pointsman.toml"
    file.write_text(CODE.format(url="http://127.0.0.1:1"))

    for typed, trusted in ((b"n\n", False), (b"\n", False), (b"y\n", True)):
        terminal, inside = os.openpty()
        with os.fdopen(terminal, "wb", buffering=0) as person:
            ran = subprocess.Popen(
                [sys.executable, "-m", "pointsman", "trust", str(file)], stdin=inside, stdout=subprocess.PIPE
            )
            os.close(inside)
            person.write(typed)
            shown, _ = ran.communicate(timeout=60)
        assert b"evil.py" in shown
        current = [each.path for each in trusted_files() if each.is_current]
        assert (str(file.resolve()) in current) is trusted
