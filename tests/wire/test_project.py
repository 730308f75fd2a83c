"""The project of a request: what the agent's environment block names, as a hash."""
# ruff: noqa: E501 - a table with one request a line

from typing import Any

import pytest

from pointsman.vocabulary import AgentRequest, WireFormat
from pointsman.wire.project import client_of, folder_name, project_key, read_project, working_directory
from pointsman.wire.request import JsonHistory


def asked(system: str = "", *messages: Any) -> AgentRequest:
    said = messages or ({"role": "user", "content": "Working directory: /not/this"},)
    return AgentRequest(WireFormat.CHAT, JsonHistory.of(WireFormat.CHAT, said), system=system)


def user(text: str) -> dict[str, str]:
    return {"role": "user", "content": text}


@pytest.mark.parametrize(
    ("request_", "directory"),
    [
        (asked("# Environment\n - Primary working directory: /home/a/shop\n - Is a git"), "/home/a/shop"),
        (asked("<env>\n  Working directory: /home/a/shop/api\n  Workspace root folder: /home/a/shop\n"), "/home/a/shop"),
        (asked("<env>\n4. Working Directory: C:\\work\\shop\n</env>"), "C:\\work\\shop"),
        (asked("", user("<environment_context>\n  <cwd>/srv/shop</cwd>\n  <shell>bash</shell>")), "/srv/shop"),
        (asked("", {"role": "developer", "content": "rules"}, user("<environment_context><cwd>/a b</cwd>")), "/a b"),
        (asked("", user("hi"), {"role": "system", "content": "# Environment\n - Primary working directory: /srv/shop\n"}), "/srv/shop"),
        # near misses: words of a person, a relative path, a block after an answer, nothing at all
        (asked(), ""),
        (asked("Working directory: unknown"), ""),
        (asked("Working directory: "), ""),
        (asked("", user("see <environment_context><cwd>/srv</cwd>")), ""),
        (asked("", {"role": "system", "content": "Working directory: /srv"}, user("hi")), ""),  # read as the prompt
        (asked("", {"role": "assistant", "content": "ok"}, user("<environment_context><cwd>/srv</cwd>")), ""),
    ],
)  # fmt: skip
def test_the_directory_stands_in_the_environment_block(request_: AgentRequest, directory: str) -> None:
    assert working_directory(request_) == directory


def test_a_project_is_a_hash_of_key_and_directory_named_after_its_folder() -> None:
    shop = asked("Working directory: /home/a/shop/")
    key = project_key("", "/home/a/shop")
    assert (read_project(shop, "", "claude-cli"), key) == ((key, "shop"), "p-d78a853b40c48639")
    assert read_project(shop, "key", "") != read_project(shop, "other", "")
    assert read_project(shop, "", "opencode") == read_project(shop, "", "codex_exec")


@pytest.mark.parametrize(
    ("directory", "name"),
    [
        ("/home/ana/shop", "shop"), ("/home/ana/shop//", "shop"), ("C:\\work\\shop\\", "shop"), ("/", ""),
        ("", ""), ("/x/" + "a" * 200, "a" * 80), ("/x/\ud800", "\ufffd"),
    ],
)  # fmt: skip
def test_a_folder_has_the_last_part_of_its_path_for_a_name(directory: str, name: str) -> None:
    assert folder_name(directory) == name


def test_without_a_directory_it_is_the_caller_and_its_program() -> None:
    assert read_project(asked(), "", "") == ("", "")
    found = {read_project(asked(), key, client) for key in ("", "k") for client in ("a", "b")}
    assert len(found) == 4
    assert all(key.startswith("c-") and not name for key, name in found)


@pytest.mark.parametrize(
    ("sent", "name"),
    [
        (b"claude-cli/2.1.197 (external, sdk-cli)", "claude-cli"),
        (b"OpenAI/Python 2.20.0", "OpenAI"),
        (b"curl", "curl"),
        (b"", ""),
        (b"a\nb/1", ""),
        ("é/1".encode(), ""),
        (b"x" * 40 + b"/1", "x" * 40),
        (b"x" * 41, ""),
    ],
)
def test_a_program_is_the_first_word_without_its_version(sent: bytes, name: str) -> None:
    assert client_of(sent) == name
