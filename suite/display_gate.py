"""A gate's answer in the terminal: the verdict, a table of findings, what explains each. From the document alone."""

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from tfscale.suite.display import visible
from tfscale.suite.nightly import outputs
from tfscale.suite.nightly.forms import Finding, Gate

STYLES = {
    "regressed": "bold red",
    "missing": "bold red",
    "improved": "green",
    "slow_node": "yellow",
    "suspicious": "yellow",
}
_MOST = 20


def gate(found: Gate, out: Console) -> None:
    """The verdict first, then the findings with what is known of each, then what is to know of the numbers."""
    out.print(escape(outputs.headline(found)), style="bold", soft_wrap=True)
    if found.findings:
        _table(found, out)
    told = [f for f in found.findings if f.verdict in ("regressed", "improved", "missing", "slow_node")]
    for finding in told[:_MOST]:
        _explained(finding, out)
    if len(told) > _MOST:
        out.print(f"and {len(told) - _MOST} more; --json has all")
    for one in found.beside[:_MOST]:
        name = one.metric.replace("_", " ")
        out.print(f"beside: {escape(one.title)}: {name} x {one.ratio:.3g} since {escape(one.since)}", soft_wrap=True)
    for line in (*outputs.sayings(found), *found.notes):
        out.print(escape(visible(line)), style="dim", soft_wrap=True)


def _table(found: Gate, out: Console) -> None:
    grouped = any(finding.group for finding in found.findings)
    heads = ["verdict", "case", "before -> after", "change, 95 %", "first bad run", *(["group"] if grouped else [])]
    table = Table(*heads, box=None, pad_edge=False)
    for finding in found.findings:
        cells = [finding.title, outputs.level(finding), outputs.change(finding), finding.since or "–"]
        group = [str(finding.group or "")] if grouped else []
        style = STYLES.get(finding.verdict, "")
        verdict = f"[{style}]{finding.verdict}[/]" if style else finding.verdict
        table.add_row(verdict, *(escape(visible(cell)) for cell in cells), *group)
    out.print(table)


def _explained(finding: Finding, out: Console) -> None:
    out.print(
        f"\n{escape(visible(finding.title))}: {finding.verdict}, {escape(visible(finding.reason))}", soft_wrap=True
    )
    if finding.last_good and finding.since:
        out.print(f"  last good {finding.last_good}, first bad {finding.since}", soft_wrap=True)
    for word in (*outputs.caused(finding), *outputs.grew(finding)):
        out.print(f"  {escape(visible(word))}", soft_wrap=True)
    if finding.operations_reason and not finding.operations and finding.verdict != "missing":
        out.print(f"  operations: {escape(visible(finding.operations_reason))}", style="dim", soft_wrap=True)
    if finding.reproduce:
        out.print(f"  again: {escape(visible(finding.reproduce))}", soft_wrap=True)
