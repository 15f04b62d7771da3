"""What a person sees of `tfscale doctor`."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.markup import escape

from tfscale.suite.display import err
from tfscale.suite.doctor.findings import Examination, Finding
from tfscale.suite.netlab.leftovers import Cleaned

MARKS = {"works": "[green]works  [/green]", "fails": "[red]no     [/red]", "unknown": "[yellow]unknown[/yellow]",
         "shown": "       "}  # fmt: skip


@contextmanager
def progress() -> Iterator[Callable[[str], None]]:
    """A line on stderr that says what is being tried."""
    with err.status("looking at this machine") as status:
        yield lambda what: status.update(f"trying: {escape(what)}")


def examination(found: Examination, out: Console) -> None:
    """Machine, then the findings by topic; what fails comes with what to do."""
    out.print(f"[bold]{escape(machine(found))}[/bold]", soft_wrap=True)
    topic = None
    for finding in found.findings:
        if finding.topic != topic:
            topic = finding.topic
            out.print(f"\n[bold]{topic}[/bold]")
        out.print(
            f"  {MARKS[finding.answer]} {escape(finding.name)}: {escape(finding.detail)}{_basis(finding)}",
            soft_wrap=True,
        )
        if finding.fix and finding.answer != "works":
            out.print(f"          -> {escape(finding.fix)}", soft_wrap=True)
    out.print(f"\n{found.seconds:.0f} s; (tried): it was run just now, else it follows from what the machine is")


def cleaned(found: Cleaned, out: Console) -> None:
    """What `doctor --clean` removed, one name a line; what stays, and why."""
    for name in found.removed:
        out.print(f"removed {escape(name)}", soft_wrap=True)
    for name, reason in found.failed.items():
        out.print(f"[red]stays[/red]   {escape(name)}: {escape(reason)}", soft_wrap=True)
    for name in found.in_use:
        out.print(f"in use  {escape(name)}: its run goes on", soft_wrap=True)
    if not (found.removed or found.failed or found.in_use):
        out.print("nothing of netlab is here")


def _basis(finding: Finding) -> str:
    return " [dim](tried)[/dim]" if finding.basis == "measured" else ""


def machine(found: Examination) -> str:
    """The machine in a line."""
    facts = found.environment
    cpu = facts["cpu"]
    gpus = [gpu["name"] for gpu in facts.get("gpus") or []]
    devices = f"{len(gpus)} x {gpus[0]}" if gpus else "no GPU"
    memory = f"{facts['memory_bytes'] / 1e9:.0f} GB"
    return f"{facts['host']}: {cpu['model']}, {cpu['usable']} usable cores, {memory}, {devices}; {facts['os']}"
