"""The audit as one HTML page: no script, no address of another machine, texts of prompts only when given."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date, timedelta
from html import escape
from types import MappingProxyType
from typing import Final

from pointsman.audit.policies import policy_blocks
from pointsman.audit.report import AuditReport, changes
from pointsman.audit.savings import within
from pointsman.audit.tables import by, cost, dearest, ending, trouble_blocks, what_was_blocks
from pointsman.audit.verdict import Verdict, dollars, shown_by_labels
from pointsman.printable import Block, counted, html_text, printable
from pointsman.stores.ledger.redact import redact

__all__ = ["page"]

#: Days with a bar of their own: a quarter.
_DAYS: Final = 92
_STYLE: Final = """
:root{--bg:#fff;--text:#16181d;--dim:#5b606b;--line:#dcdee4;--bar:#3650c9;--bad:#b3261e;--ok:#157347}
@media (prefers-color-scheme:dark){:root{--bg:#101216;--text:#e6e8ec;--dim:#9aa1ad;--line:#2a2e37;
--bar:#94a8ff;--bad:#ff8e85;--ok:#63c893}}
@media print{:root{--bg:#fff;--text:#000;--dim:#444;--line:#bbb;--bar:#3650c9;--bad:#b3261e;--ok:#157347}}
*{box-sizing:border-box}body{margin:0 auto;padding:1.5rem 1rem 3rem;max-width:64rem;background:var(--bg);
color:var(--text);font:15px/1.5 system-ui,sans-serif}h1{font-size:1.35rem;line-height:1.4;margin:0 0 1rem}
h2{font-size:1.05rem;margin:2rem 0 .4rem}.dim{color:var(--dim)}p{margin:.4rem 0}
.scroll{overflow-x:auto;margin:.3rem 0 1.1rem}.session .scroll{margin:.2rem 0 0}
table{border-collapse:collapse;font-size:.88rem;font-variant-numeric:tabular-nums}
th,td{text-align:left;padding:.2rem .9rem .2rem 0;border-bottom:1px solid var(--line);vertical-align:top;
white-space:nowrap}td:last-child{white-space:normal;min-width:5rem}td.num:last-child{white-space:nowrap}
th{font-weight:600;color:var(--dim)}.num{text-align:right}svg{display:block;max-width:100%}
.days{width:100%;max-width:920px;height:110px}
svg text{font:11px system-ui,sans-serif;fill:var(--dim)}.bar{fill:var(--bar)}.rail{stroke:var(--line)}
.m{fill:var(--bar)}.u{fill:var(--text)}.o{fill:var(--ok)}.x{fill:var(--bad)}
.s{stroke:var(--bad);stroke-dasharray:3 2}
li{margin:.35rem 0}
code{display:block;white-space:nowrap;overflow-x:auto;padding:.3rem .5rem;margin:.2rem 0;
border:1px solid var(--line);border-radius:4px}.ends{display:flex;justify-content:space-between;
max-width:920px;font-size:.8rem}.session svg{max-width:none}
.session{break-inside:avoid;border-top:1px solid var(--line);padding:.5rem 0}
@media print{body{max-width:none;padding:0}.session svg{max-width:100%}
.scroll,code{overflow:visible}table{font-size:.72rem}
td,th,code{white-space:normal;overflow-wrap:anywhere}}
@media screen and (max-width:32rem){h1{font-size:1.15rem}td:last-child{white-space:nowrap}}
"""
_POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'"
_END: Final = {"unknown": "outcome unknown"}
#: Rails of a lane: what a letter of ``SessionFigures.lane`` is, and its height.
_RAILS: Final = (("you", "u", 12), ("model", "m", 30), ("tools", "ox", 48))
_STEP: Final = 7
#: Prompts of a session that are quoted, and characters of each: ten sessions stay below 40 kB.
_PROMPTS: Final = 8
_PROMPT: Final = 400
NO_PROMPTS: Final[Mapping[tuple[str, str], Sequence[str]]] = MappingProxyType({})


def page(report: AuditReport, prompts: Mapping[tuple[str, str], Sequence[str]] = NO_PROMPTS) -> str:
    """Return the page.

    Args:
        report: The report.
        prompts: User messages of the sessions that cost most, by client and id of the session; shown where
            it is given, cut.
    """
    found = report.verdict()
    sentence = escape(found.sentence)
    body = "".join(
        (
            f"<h1>{sentence}</h1>",
            *_intro(report),
            *_bars(report),
            *_changes(found, report),
            *_sessions(report, prompts),
            *_section("What is sure, what outcomes show, what is unknown", found.blocks()),
            *_policies(report),
            *_section("Where sessions went wrong", trouble_blocks(report.sessions, report.pricing)),
            *_section("What was spent", what_was_blocks(report.sessions, report.pricing)),
            *_computed(report, found),
        )
    )
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
        f"<title>Audit: {sentence.split('. ')[0]}</title><style>{_STYLE}</style></head>"
        f"<body><main>{body}</main></body></html>\n"
    )


def _intro(report: AuditReport) -> Iterator[str]:
    spent, _ = report.total()
    clients = ", ".join(group.name for group in by(report.sessions, report.pricing, "client"))
    yield (
        f'<p class="dim">{counted(len(report.sessions), "session")} of {_text(clients)}, '
        f"{counted(spent.requests, 'request')}. Sure, by outcomes and unknown differ in certainty, so "
        "they are not added up. To label a session is to say whether it was solved.</p>"
    )


def _policies(report: AuditReport) -> Iterator[str]:
    if report.policies:
        yield from _section("What other policies would have done", policy_blocks(report.policies))


def _bars(report: AuditReport) -> Iterator[str]:
    groups = {group.name: group for group in by(report.sessions, report.pricing, "day")}
    every = _calendar(groups)
    days = every[-_DAYS:]
    most = max((groups[day].money.total for day in days if day in groups), default=0.0)
    if not most:
        return
    width = min(40.0, 920 / len(days))
    older = len(every) - len(days)
    left_out = f" {counted(older, 'day')} before {'is' if older == 1 else 'are'} left out." if older else ""
    yield f"<h2>Money by day</h2><p class=dim>The highest bar is {dollars(most)}.{left_out}</p>"
    yield '<svg class="days" viewBox="0 0 920 104" preserveAspectRatio="none" role="img" '
    yield f'aria-label="Money by day, {counted(len(days), "day")}">'
    for at, day in enumerate(days):
        if day not in groups:
            continue
        money = groups[day].money
        tall = round(100 * money.total / most, 1)
        yield (
            f'<rect class="bar" x="{at * width + 1:.1f}" y="{102 - tall:.1f}" width="{width * 0.85:.1f}" '
            f'height="{tall}"><title>{_text(day)}: {_text(cost(money))}</title></rect>'
        )
    last = f"<span>{_text(days[-1])}</span>" if len(days) > 1 else ""
    yield f'</svg><div class="ends dim"><span>{_text(days[0])}</span>{last}</div>'


def _calendar(known: Iterable[str]) -> list[str]:
    """All days from the first to the last, in order; a name that is no day is unchanged."""
    names = sorted(known)
    days = [date.fromisoformat(name) for name in names if name[:1].isdigit()]
    if not days:
        return names
    between = (days[-1] - days[0]).days + 1
    dated = [(days[0] + timedelta(at)).isoformat() for at in range(between)]
    return [*(name for name in names if not name[:1].isdigit()), *dated]


def _changes(found: Verdict, report: AuditReport) -> Iterator[str]:
    made = changes(found, report.sessions, report.arguments)
    if made:
        yield "<h2>The changes worth most on these logs</h2><ol>"
        for each in made:
            what, worth, command = map(_text, each)
            yield f"<li><b>{what}</b> ({worth})<code tabindex=0>{command}</code></li>"
        yield "</ol>"


def _sessions(report: AuditReport, prompts: Mapping[tuple[str, str], Sequence[str]]) -> Iterator[str]:
    yield "<h2>The sessions that cost most</h2>"
    yield (
        '<p class="dim">Left to right: your words, answers of the model, tool calls. Calls that worked are '
        "green, failed ones are red and taller. A dashed line is the first sign of being stuck.</p>"
    )
    for at, (of, money) in enumerate(dearest(report.sessions, report.pricing), start=1):
        after = report.pricing.money(of.after_sign, of.client)
        end = _END.get(ending(of), ending(of))
        stuck = f", {cost(after)} after the first sign of being stuck" if after.total else ""
        yield (
            f'<div class="session"><b>{at}. {_text(cost(money))}</b> {_text(of.project_name)}, '
            f"{_text(of.client)}, {counted(of.total().requests, 'request')}, {end}{stuck} "
            f'<span class="dim">{_text(of.id)}</span>{_lane(of.lane)}'
            f"{_said(prompts.get((of.client, of.id), ()))}</div>"
        )


def _said(prompts: Sequence[str]) -> str:
    """Quote the first prompts of a session."""
    if not prompts:
        return ""
    shown = "".join(f"<li>{_text(_short(prompt))}</li>" for prompt in prompts[:_PROMPTS])
    more = len(prompts) - _PROMPTS
    return f"<ul>{shown}</ul>" + (
        f'<p class="dim">and {counted(more, "prompt")} more</p>' if more > 0 else ""
    )


def _short(prompt: str) -> str:
    words = " ".join(redact(prompt[: 4 * _PROMPT]).split())
    return words if len(words) <= _PROMPT else words[: _PROMPT - 1] + "…"


def _lane(lane: str) -> str:
    """Draw the events of a session, one after another."""
    if not lane:
        return ""
    width = 60 + len(lane) * _STEP
    events = counted(len(lane) - lane.count(".") - lane.count("s"), "event")
    sign = ", with the first sign of being stuck" if "s" in lane else ""
    drawn = [
        f'<div class="scroll" tabindex=0><svg width="{width}" height="60" viewBox="0 0 {width} 60" role="img"'
    ]
    drawn.append(f' aria-label="{events} of the session{sign}">')
    for name, letters, y in _RAILS:
        drawn.append(f'<text x="0" y="{y + 4}">{name}</text>')
        drawn.append(f'<path class="rail" d="M48 {y}H{width}"/>')
        for letter in letters:
            tall = 7 if letter == "x" else 4
            marks = "".join(
                f"M{50 + at * _STEP} {y - tall}h5v{2 * tall}h-5z"
                for at, each in enumerate(lane)
                if each == letter
            )
            if marks:
                drawn.append(f'<path class="{letter}" d="{marks}"/>')
    for at, each in enumerate(lane):
        middle = 50 + at * _STEP + 2
        if each == "s":
            drawn.append(
                f'<path class="s" d="M{middle} 2V58"><title>first sign of being stuck</title></path>'
            )
        elif each == ".":
            drawn.append(f'<text x="{middle}" y="16">…</text>')
    return "".join((*drawn, "</svg></div>"))


def _computed(report: AuditReport, found: Verdict) -> Iterator[str]:
    yield "<h2>How it was computed</h2><ul>"
    for each in found.sure:
        yield f"<li>{_text(each.what)}: {_text(each.because)}</li>"
    yield (
        "<li>By outcomes: sessions of one project on both models whose logs prove that they were solved or "
        "not; difference of Mantel and Haenszel. A model is good enough where the 95 % interval shows it "
        f"to be {within(report.margin)}.</li>"
        "<li>Unknown: the same tokens at the prices of the cheaper model, its cache as warm as the one that "
        "was used. It is the most that could be saved.</li>"
        f"<li>Labels: outcomes that show {shown_by_labels(report.margin)} in four of five cases.</li>"
    )
    if report.policies:
        yield (
            "<li>Policies: the engine of the gateway decides every logged request again. Both amounts are "
            "list prices for the same tokens, with a simulated prompt cache for each model of a session. "
            "What other models would have written is not known.</li>"
        )
    for line in report.caveats():
        yield f"<li>{_text(line)}</li>"
    yield "</ul>"


def _section(heading: str, blocks: Iterable[Block]) -> Iterator[str]:
    yield f"<h2>{heading}</h2>"
    yield html_text(blocks)


def _text(text: str) -> str:
    return escape(printable(text))
