"""What the lint hears when it says each phrase alone."""

import pytest

from pointsman.domains import DomainSet, default_domains, parse_domains
from pointsman.domains.parsing import check_domains
from pointsman.evidence import Scanner, SignalTable
from support.oracle import ReMatcher


def check(domains: DomainSet) -> list[tuple[str, str, str]]:
    table = SignalTable(domains.signals())
    found = check_domains(domains, Scanner(table, ReMatcher(table)))
    return [(str(finding.severity), finding.phrase, finding.message) for finding in found]


def law(signals: str, more: str = "") -> DomainSet:
    return parse_domains(f'extends = "none"\n[domains.law]\nclass = "task"\nsignals = {{{signals}}}\n{more}')


TAX = '[domains.tax]\nclass = "task"\nsignals = {fee = "court fee"}'
TALK = '[domains.talk]\nclass = "null"\nsignals = {no = "court"}'


@pytest.mark.parametrize(
    ("signals", "more", "findings"),
    [
        ('court = ["court", "courts", "appeal*"]', "", []),
        ('court = "court  fee"', "", [("error", "court  fee", "cannot match")]),
        ('court = ["court", "Court"]', "", [("warning", "Court", "is there twice")]),
        (
            'court = "court", trial = "court trial"',
            "",
            [("warning", "court trial", 'one mention counts twice: "court" hears it too')],
        ),
        (
            'court = "court"',
            TAX,
            [("warning", "court fee", 'counts for law too: "court" hears it')],
        ),
        ('court = "court"', TALK, [("warning", "court", 'counts for law too: "court" hears it')]),
        ("court = { regex = 'courts?' }", "", []),
        ("court = { regex = 'cour[a-z]*' }, trial = \"courtly\"", "", [
            ("warning", "courtly", 'one mention counts twice: "court" hears it too'),
        ]),
    ],
)  # fmt: skip
def test_findings(signals: str, more: str, findings: list[tuple[str, str, str]]) -> None:
    assert check(law(signals, more)) == findings


def test_the_built_in_domains_have_no_findings() -> None:
    assert check(default_domains()) == []
