"""Classifies tool results: whether a call failed, the cause of the failure, and its error signature.

Only the Messages format states whether a tool failed. Elsewhere the text must be read, and a text that merely
talks about errors (a log, a source file) must not: only how a result begins, how test runners and builds
end, and an exit status at either end, count.
"""

from __future__ import annotations

import re
from typing import Final

from pointsman.trajectory.step import OK, CallOutcome

#: Characters read at each end of a result. An error that begins later is content, not a status.
EDGE: Final = 400
#: Characters of an error that are normalised; tool errors put their point at the start or in the last line.
MAX_ERROR: Final = 4_000
#: Characters kept of a signature and of a message in a step: enough to tell errors apart, small in memory.
MAX_SIGNATURE: Final = 160
MAX_MESSAGE: Final = 200

_OPENS_AS_ERROR: Final = re.compile(
    r"""\s*(?:\#{1,4}\s*|\*{2}|[❌✗✖⚠️\s]+)?(?:
        <(?:tool_use_)?error>
      | \[(?:tool\s|execution\s|system\s)?(?:error|exception|fatal)\]
      | (?:tool\s|execution\s|system\s)?(?:error|exception|fatal)\s*(?::|!|\(|—|-\s|\d{3}\b|$)
      | error\s(?:calling|executing|running|while|invoking|reading|writing|editing|occurred|during)\b
      | (?:[A-Za-z_][\w.]*)?(?:Error|Exception)\s*[:(]
      | traceback\s\(most\srecent\scall\slast\)
      | (?:failed|unable)\sto\s
      | failed\s*+:(?!\s*0\b)
      | (?:could|can)\s?not\s|can't\s
      | (?:permission|access)\sdenied
      | (?:command|file|tool|path)\snot\sfound
      | no\ssuch\s(?:file|tool|command)
      | (?:ba|z|da)?sh:\s(?:line\s\d+:\s)?\S+:\s
      | invalid\s(?:argument|arguments|parameter|parameters|input|request|tool)\b
      | unknown\stool\b
      | [45]\d\d\s(?:client|server)?\s?
        (?:error|bad|unauthorized|forbidden|not\sfound|too\smany|internal|service)
    )""",
    re.IGNORECASE | re.VERBOSE,
)
_JSON_FAILURE: Final = re.compile(
    r"""\s*\{.*?(?:
        "(?:error|error_message|errormessage|exception)"\s*+:\s*+(?!null|false|""|\[\s*\]|\{\s*\}|0\b)
      | "(?:success|ok)"\s*:\s*false
      | "(?:is_?error)"\s*:\s*true
      | "exit_?code"\s*:\s*-?[1-9]
    )""",
    re.IGNORECASE | re.VERBOSE | re.DOTALL,
)
_EXIT_STATUS: Final = re.compile(
    r"\b(?:exit(?:ed)?|returned|return|finished)(?:\s(?:with|status|non-zero))*[\s_]?(?:code|status)\W{0,3}(-?\d+)"
    r"|\bexited with (-?\d+)\b"
)
#: What programs say in one breath when the system refuses them: the whole of a short result.
_SYSTEM_ERROR: Final = re.compile(
    r"""\s*[\w.+/-]{1,80}:\s[^\n]{0,200}?(?:
        no\ssuch\sfile\sor\sdirectory | permission\sdenied | operation\snot\spermitted | is\sa\sdirectory
      | not\sa\sdirectory | command\snot\sfound | connection\srefused | cannot\saccess | can't\sopen
      | (?:invalid|unrecognized|unknown)\s(?:option|argument|command)
    )""",
    re.IGNORECASE | re.VERBOSE,
)
#: How test runners and builds end when they failed; some agents pass on the output and keep the exit status.
_ENDS_AS_ERROR: Final = re.compile(
    r"^=+\s.*\b[1-9]\d*\s(?:failed|errors?)\b.*=+\s*\Z"  # pytest
    r"|^FAILED\s\((?:failures|errors)=|^Test Suites:\s[1-9]\d*\sfailed"  # unittest, jest
    r"|\bBUILD\sFAIL(?:URE|ED)\b|^npm\s(?:ERR!|error\s)|^make(?:\[\d+\])?:\s\*\*\*\s"
    r"|^error: could not compile|^test result: FAILED",  # cargo
    re.MULTILINE,
)
#: One of these is in every match; the pattern costs ten times these searches together.
_END_WORDS: Final = ("failed", "error", "FAIL", "ERR!", "***")
#: One of these is in every match of ``_EXIT_STATUS``, which costs ten times these searches together.
_EXIT_WORDS: Final = ("code", "status", "exited")
_THROTTLED: Final = re.compile(
    r"\brate.?limit|\btoo many requests|\b429\b|\bquota (?:exceeded|exhausted)|\boverloaded|\bthrottl"
    r"|\bretry.after\b|\b(?:server|service|model) is (?:busy|temporarily unavailable)|\bresource_exhausted"
)
#: One of these is in every match; the pattern costs ten times these searches together.
_THROTTLE_WORDS: Final = (
    "rate",
    "too many",
    "429",
    "quota",
    "overload",
    "throttl",
    "retry",
    " is ",
    "exhausted",
)
_DECLINED: Final = re.compile(
    r"user (?:doesn't|does not|did not|didn't) want"
    r"|(?:rejected|declined|denied|cancell?ed|interrupted|aborted) by (?:the )?user"
    r"|user (?:rejected|declined|denied|cancell?ed|interrupted|aborted)",
)


def outcome_of(text: str, is_error: bool | None) -> CallOutcome:
    """Judge a result. ``is_error`` is the format's flag, if present; None: the text decides."""
    if not (_looks_failed(text) if is_error is None else is_error):
        return OK
    beginning = text[:EDGE].lower()
    if any(map(beginning.__contains__, _THROTTLE_WORDS)) and _THROTTLED.search(beginning):
        return CallOutcome.THROTTLED
    if "user" in beginning and _DECLINED.search(beginning):
        return CallOutcome.DECLINED
    return CallOutcome.ERROR


def _looks_failed(text: str) -> bool:
    beginning = end = edges = text
    if len(text) > EDGE:
        beginning, end = text[:EDGE], text[-EDGE:]
        edges = f"{beginning}\n{end}"
    elif _SYSTEM_ERROR.match(text):
        return True
    if _OPENS_AS_ERROR.match(beginning) or _JSON_FAILURE.match(beginning):
        return True
    if any(map(end.__contains__, _END_WORDS)) and _ENDS_AS_ERROR.search(end):
        return True
    edges = edges.lower()
    if not any(map(edges.__contains__, _EXIT_WORDS)):
        return False
    return any(int(first or second) != 0 for first, second in _EXIT_STATUS.findall(edges))


_ANSI: Final = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
_BOILERPLATE: Final = re.compile(
    r"\W*(?:exit(?:ed)?(?: with)? (?:code|status)\W*-?\d+|wall time\b.*|output:|total output lines\b.*"
    r"|(?:stdout|stderr)\s*:?|process exited with code \d+|</?\w+>)?\W*$",
    re.IGNORECASE,
)
_PATH: Final = re.compile(r"(?:[A-Za-z]:)?(?:[\w.@+~-]*[\\/])+([\w.@+~-]+)")  # becomes its last part
_DIGIT: Final = re.compile(r"\d")
#: What differs between two occurrences of one error. Each of these has a digit in it.
_VARIABLE: Final[tuple[re.Pattern[str], ...]] = (
    re.compile(r"\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:[.,]\d+)?)?(?:Z|[+-]\d\d:?\d\d)?)?"),  # timestamps
    re.compile(r"\b\d\d:\d\d:\d\d(?:[.,]\d+)?\b"),
    re.compile(r"\b[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}\b"),  # uuids
    re.compile(
        r"\b(?:at )?(?:line|lines|col|column|row|char|offset)s?\W{0,2}\d+(?:\s?[-–:,]\s?\d+)*",
        re.IGNORECASE,
    ),
    re.compile(r"(?<=\w):\d+(?::\d+)?\b"),  # file.py:12:5
    re.compile(r"\b(?:0x[0-9a-fA-F]+|(?=[0-9a-f]*\d)[0-9a-f]{7,})\b"),  # addresses, hashes
    re.compile(r"\b[A-Za-z]+[_-](?=\w*\d)\w{6,}\b"),  # ids: req_01HX…, call-9f3…
    re.compile(r"\b\d{4,}\b"),  # process ids, ports, byte counts
)


def salient_line(message: str) -> str:
    """The line that names the error: a traceback's last, otherwise the first with any content."""
    text = message[:MAX_ERROR]
    if len(message) > MAX_ERROR:
        text += "\n" + message[-EDGE:]
    lines = _ANSI.sub("", text).splitlines() if "\x1b" in text else text.splitlines()
    if "Traceback (most recent call last)" in text:
        lines.reverse()
    for line in lines:
        if line and not line.isspace() and not _BOILERPLATE.match(line, 0, MAX_SIGNATURE):
            return line.strip()[:MAX_MESSAGE]
    return " ".join(text.split())[:MAX_MESSAGE]


def normalize_error(message: str) -> str:
    """Return an error without what differs between two occurrences of the same error.

    Paths become basenames; line and column numbers, timestamps and ids are dropped; white space is folded.
    """
    return signature_of(salient_line(message))


def signature_of(line: str) -> str:
    """``normalize_error`` of a line that is known to be the salient one."""
    if "/" in line or "\\" in line:
        line = _PATH.sub(r"\1", line)
    if _DIGIT.search(line):
        for pattern in _VARIABLE:
            line = pattern.sub("", line)
    return " ".join(line.split())[:MAX_SIGNATURE]
