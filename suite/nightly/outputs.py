"""A gate's document in the forms that continuous integration shows: JUnit XML, a Markdown summary, CSV. Pure."""

import csv
import io
from collections.abc import Iterable, Sequence
from xml.etree import ElementTree

from tfscale.suite.display import number, visible
from tfscale.suite.nightly.forms import VERDICTS, Finding, Gate, Judged

SUMMARY_LIMIT = 1024 * 1024
"""Bytes of one step's summary that GitHub shows; a larger one is not shown at all."""
WORDS = {
    "regressed": "regressed",
    "missing": "without data",
    "improved": "improved",
    "slow_node": "slow nodes",
    "suspicious": "suspicious",
    "unstable": "unstable",
    "drifting": "drifting",
    "accepted": "accepted",
    "unchanged": "unchanged",
    "not_enough_data": "not enough data",
}
_CUT = "\n*Cut here: {left} more lines are in the JSON document.*\n"
_ROOM = 200


def headline(gate: Gate) -> str:
    """`2 regressed, 1 without data, 47 unchanged, against each case's own history; last run 2026...`."""
    counts = [f"{gate.summary[v]} {WORDS[v]}" for v in VERDICTS if gate.summary.get(v)]
    against = "each case's own history" if gate.baseline == "rolling" else f"the run {gate.baseline}"
    return f"{', '.join(counts) or 'nothing to judge'}, against {against}; last run {gate.last_run}"


def change(finding: Finding) -> str:
    """`-5.4 % [-6.1, -4.8]`, or a dash where nothing was compared."""
    if finding.ratio is None:
        return "–"
    low, high = finding.ratio_ci95 or (None, None)
    limits = f" [{100 * (low - 1):+.1f}, {100 * (high - 1):+.1f}]" if low is not None and high is not None else ""
    return f"{100 * (finding.ratio - 1):+.1f} %{limits}"


def amount(value: float, unit: str) -> str:
    """`1.3 GB`, `12.3 ms`."""
    return number(value, "B" if unit == "bytes" else unit)


def level(finding: Finding) -> str:
    """`100.4 -> 95.1 sequences/s`."""
    before, after = finding.before, finding.after
    if before is None or before.value is None:
        return "–"
    told = number(before.value, before.unit)
    return told if after is None or after.value is None else f"{told} -> {number(after.value, after.unit)}"


def grew(finding: Finding) -> list[str]:
    """What of the step and of memory grew, in words."""
    told = []
    for one in finding.explanations:
        if one.verdict in ("grew", "shrank") and one.before.value is not None and one.after.value is not None:
            values = f"{amount(one.before.value, one.before.unit)} -> {amount(one.after.value, one.after.unit)}"
            told.append(f"{one.name.replace('_', ' ')} {one.verdict}: {values}")
    return told + [
        f"operation {one.name} ({one.kind}): {number(one.before_ps / 1e12, 's')} -> {number(one.after_ps / 1e12, 's')} a step"
        for one in finding.operations[:3]
    ]


def caused(finding: Finding) -> list[str]:
    """What differs between the last good run and the first bad one, in words."""
    return [
        f"{one.what}: {one.why}" if one.kind == "failure"
        else f"{one.what}: {one.before or 'none'} -> {one.after or 'none'} ({one.why})"
        + (f"; see `{one.command}`" if one.command else "")
        for one in finding.causes
    ]  # fmt: skip


def junit(gate: Gate) -> bytes:
    """JUnit XML: one suite a machine, one case a series; regressed fails, missing is an error, too little data is skipped."""
    root = ElementTree.Element("testsuites", name="tfscale gate")
    findings = {(f.case_id, f.title, f.machine): f for f in gate.findings}
    for machine in gate.machines:
        own = [one for one in gate.series if one.machine == machine]
        counts = {
            "tests": len(own),
            "failures": sum(one.verdict == "regressed" for one in own),
            "errors": sum(one.verdict == "missing" for one in own),
            "skipped": sum(one.verdict == "not_enough_data" for one in own),
        }
        attributes = {name: str(count) for name, count in counts.items()}
        stamp = gate.created[:19]
        of_machine = ElementTree.SubElement(
            root,
            "testsuite",
            {"name": _clean(machine), "time": "0", "timestamp": stamp, "hostname": "tfscale", **attributes},
        )
        for one in own:
            _testcase(of_machine, one, findings.get((one.case_id, one.title, machine)))
    ElementTree.indent(root)
    body: bytes = ElementTree.tostring(root, encoding="utf-8")
    return b'<?xml version="1.0" encoding="UTF-8"?>\n' + body + b"\n"


def _testcase(suite: ElementTree.Element, one: Judged, finding: Finding | None) -> None:
    case = ElementTree.SubElement(
        suite, "testcase", name=_clean(one.title), classname=f"tfscale.{one.case_id}", time="0"
    )
    told = {"verdict": one.verdict, "nights": str(one.nights), "metric": one.metric, "unit": one.unit}
    if one.level is not None:
        told["level"] = f"{one.level:.6g}"
    if finding is not None and finding.ratio is not None:
        told["ratio"] = f"{finding.ratio:.6g}"
    properties = ElementTree.SubElement(case, "properties")
    for name, value in told.items():
        ElementTree.SubElement(properties, "property", name=name, value=_clean(value))
    kind = {"regressed": "failure", "missing": "error", "not_enough_data": "skipped"}.get(one.verdict)
    lines = _lines(finding) if finding is not None else [one.reason]
    if kind == "skipped":
        ElementTree.SubElement(case, kind, message=_clean(one.reason))
    elif kind is not None:
        message = f"{change(finding)}: {one.reason}" if finding is not None and finding.ratio else one.reason
        ElementTree.SubElement(case, kind, message=_clean(message), type=one.verdict).text = _clean("\n".join(lines))
    elif one.verdict != "unchanged":
        ElementTree.SubElement(case, "system-out").text = _clean("\n".join([f"{one.verdict}: {one.reason}", *lines]))


def _clean(text: str) -> str:
    """XML refuses control characters even as references."""
    return "\n".join(visible(line) for line in text.split("\n"))


def _lines(finding: Finding) -> list[str]:
    """A finding in lines of plain text."""
    told = [f"{finding.title}: {finding.verdict}, {finding.reason}"]
    if finding.ratio is not None:
        told.append(f"{level(finding)}, {change(finding)}")
    if finding.last_good or finding.since:
        told.append(f"last good {finding.last_good}, first bad {finding.since}")
    told += [*caused(finding), *grew(finding)]
    return told + ([f"again: {finding.reproduce}"] if finding.reproduce else [])


def markdown(gate: Gate, room: int = SUMMARY_LIMIT) -> str:
    """The verdict and the findings for a CI step's summary, in at most `room` bytes; the worst come first."""
    lines = [f"### tfscale: {_escaped(headline(gate))}", ""]
    told = [f for f in gate.findings if f.verdict != "accepted"]
    if told:
        lines += ["| verdict | case | before -> after | change, 95 % | since |", "| --- | --- | --- | --- | --- |"]
        lines += [_row(finding) for finding in told]
        lines.append("")
        for finding in told:
            lines += _details(finding)
    lines += [f"- {_escaped(note)}" for note in (*sayings(gate), *gate.notes)]
    return _fitting(lines, room)


def sayings(gate: Gate) -> Iterable[str]:
    """What is to know of the numbers: false alarms, the canary, files that were skipped."""
    expected = gate.expected_false_alarms
    if expected is not None:
        yield (
            f"false alarms to expect: {expected.a_month:.2g} a month ({expected.rate:.2g} a series and night by "
            f"{expected.rate_of}; {expected.series} series, {expected.nights_a_month:.3g} nights a month)"
        )
    if gate.canary is not None:
        yield canary_words(gate)
    if gate.warnings:
        yield f"{len(gate.warnings)} files were skipped; the first: {gate.warnings[0]}"


def canary_words(gate: Gate) -> str:
    """The canary in a sentence."""
    told = gate.canary
    if told is None or told.false_alarm_rate is None or told.false_alarm_ci95 is None:
        return f"canary: no rate ({told.reason if told else 'not asked for'})"
    low, high = (1000 * limit for limit in told.false_alarm_ci95)
    differing = ""
    if told.differing_ci95 is not None:
        inner = " to ".join(f"{100 * limit:.0f}" for limit in told.differing_ci95)
        differing = f"; the halves differ on {told.differing} of {told.nights} nights ({inner} %; 5 % is right)"
    return (
        f"canary: {told.false_alarms} false alarms in {told.series_nights} series-nights of {told.pairs} A/A pairs, "
        f"{1000 * told.false_alarm_rate:.2g} per 1,000 (95 %: {low:.2g} to {high:.2g}){differing}"
    )


def _row(finding: Finding) -> str:
    cells = (WORDS[finding.verdict], finding.title, level(finding), change(finding), finding.since or "–")
    return "| " + " | ".join(_escaped(cell) for cell in cells) + " |"


def _details(finding: Finding) -> list[str]:
    words = [*caused(finding), *grew(finding)]
    if finding.verdict not in ("regressed", "improved", "missing", "slow_node") or not (words or finding.reproduce):
        return []
    # Code spans take a command as it is; a backtick inside would end one.
    again = [f"- again: `{visible(finding.reproduce).replace('`', '')}`"] if finding.reproduce else []
    # Up to the blank line GitHub takes this for HTML, in which a backslash is a backslash.
    head = f"<details><summary>{_html(finding.title)}: {_html(finding.reason)}</summary>"
    return [head, "", *(f"- {_escaped(word)}" for word in words), *again, "", "</details>", ""]


def _html(text: str) -> str:
    plain = " ".join(visible(text).split())
    return plain.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _escaped(text: str) -> str:
    """Text that Markdown and HTML show as it is, on one line."""
    plain = _html(text)
    for sign in "\\|*_[]`#@":
        plain = plain.replace(sign, f"\\{sign}")
    return plain


def _fitting(lines: Sequence[str], room: int) -> str:
    """As many lines as fit, and how many did not; a details block that was begun is ended."""
    text: list[str] = []
    used = 0
    for number_, line in enumerate(lines):
        size = len(line.encode()) + 1
        if used + size > room - _ROOM:
            begun = sum(one.startswith("<details>") for one in text) > text.count("</details>")
            tail = ("\n</details>\n" if begun else "") + _CUT.format(left=len(lines) - number_)
            return "\n".join(text) + tail if room > _ROOM else ""
        text.append(line)
        used += size
    return "\n".join(text) + "\n"


COLUMNS = (
    "case_id", "title", "machine", "metric", "unit", "verdict", "nights", "level", "noise", "before", "after", "ratio",
    "low", "high", "p", "q", "last_good", "since", "reason",
)  # fmt: skip


def as_csv(gate: Gate) -> str:
    """One row a series; what is not known is empty."""
    findings = {(f.case_id, f.title, f.machine): f for f in gate.findings}
    out = io.StringIO()
    rows = csv.writer(out, lineterminator="\n")
    rows.writerow(COLUMNS)
    for one in gate.series:
        f = findings.get((one.case_id, one.title, one.machine))
        low, high = (f.ratio_ci95 if f is not None else None) or (None, None)
        compared = (
            f.before.value if f is not None and f.before else None,
            f.after.value if f is not None and f.after else None,
            f.ratio if f is not None else None,
        )
        told = (f.p, f.q, f.last_good, f.since) if f is not None else (None,) * 4
        rows.writerow(
            [
                one.case_id,
                _cell(one.title),
                _cell(one.machine),
                one.metric,
                _cell(one.unit),
                one.verdict,
                one.nights,
                one.level,
                one.noise,
                *compared,
                low,
                high,
                *told,
                _cell(one.reason),
            ]
        )
    return out.getvalue()


def _cell(text: str) -> str:
    """A spreadsheet takes a cell that begins so for a formula."""
    return f"'{text}" if text[:1] in ("=", "+", "-", "@", "\t", "\r") else text
