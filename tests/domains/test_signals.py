"""The built-in signals: hits, and the near misses beside them."""

import pytest

from pointsman.domains import DomainMemory, DomainTracker
from pointsman.evidence import Scanner


@pytest.mark.parametrize(
    ("text", "domain"),
    [
        # chores are commands, not their words in a sentence
        ("ls", "file_ops"),
        ("cd ..", "file_ops"),
        ("interest on my cd account", ""),
        ("cat notes.md", "file_ops"),
        ("my cat is ill", ""),
        ("find . -name '*.py'", "file_ops"),
        ("find me a hotel", ""),
        ("tail -f server.log", "file_ops"),
        ("less is more", ""),
        ("touch base with them", ""),
        ("drwxr-xr-x 2 root root 4096 reports", "file_ops"),
        ("rename the old files", "file_ops"),
        ("a file", ""),
        ("pip install requests", "system_admin"),
        ("a pipeline of deals", ""),
        ("git status", "git_ops"),
        ("she is legit", ""),
        ("set the verbose option", "config_edit"),
        ("keep your options open", ""),
        ("edit settings.toml", "config_edit"),
        # words in names of files and packages are not what is asked for
        ("cat debug.log", "file_ops"),
        ("pip install python-dotenv", "system_admin"),
        ("ls analysis/", "file_ops"),
        ("git add investigation/report.md", "git_ops"),
        # tasks are phrases, not the single words everybody uses
        ("fix the login page", "bugfix"),
        ("a quick fix", ""),
        ("TypeError: 'int' object is not callable", "bugfix"),
        ("an error of judgement", ""),
        ("it keeps failing", "bugfix"),
        ("they failed to agree", ""),
        ("write a small function that sorts", "coding"),
        ("write a letter to my landlord", ""),
        ("query the endpoint", "coding"),
        ("a review of the performance", ""),
        ("compare the results of both runs", "analysis"),
        ("compare the two hotels", ""),
        ("look into who owns it", "investigation"),
        ("look at it", ""),
        ("cross-check the filings", "investigation"),
        ("please verify your address", ""),
        ("plan the sprint", "planning"),
        ("a payment plan", ""),
        ("rewrite the system prompt", "prompt_engineering"),
        ("a prompt answer", ""),
        # small talk
        ("yes, go ahead", ""),
        ("", ""),
    ],
)
def test_what_is_heard(tracker: DomainTracker, scanner: Scanner, text: str, domain: str) -> None:
    decision, _ = tracker.decide(scanner.scan(text), DomainMemory(), "")
    assert decision.raw.primary.domain == (domain or "conversation")
