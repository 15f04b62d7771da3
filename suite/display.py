"""What a person sees in the terminal: tables of cases and records. No measuring, no files."""

import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from tfscale.suite.record import Failure, Pruned, Quantity, Record, Run
from tfscale.suite.spec import Case, Suite

_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


class Plain(Console):
    """Names out of traces, logs and paths may hold anything; what steers a terminal, or cannot be printed, is shown as
    its escape, and `:name:` stays what it is."""

    def __init__(self, **options: Any) -> None:
        super().__init__(highlight=False, emoji=False, **options)

    def render_str(self, text: str, **options: Any) -> Text:
        return super().render_str(visible(text), **options)


def visible(text: str) -> str:
    """`text` with control characters, marks of writing direction and lone surrogates as `\\x1b` and `\\u202e`."""
    return _CONTROL.sub(lambda match: match[0].encode("unicode_escape", "surrogatepass").decode(), text)


err = Plain(stderr=True)
"""Progress, tables and messages; stdout is kept for what a program reads."""


class Stdout(Plain):
    """Leaves a closed pipe to the entry point, which knows that it is no error."""

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError


_TERMINAL = sys.stdout is not None and sys.stdout.isatty()
out = Stdout(width=None if _TERMINAL else 240)
"""Stdout, for what the command was asked for."""

DEFAULTS = {
    name: Case.model_fields[name].get_default(call_default_factory=True)
    for name in Case.model_fields
    if not Case.model_fields[name].is_required()
}
DEFAULTS["input"] = DEFAULTS["input"].model_dump(mode="json")

PREFIXES = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, ""), (1e-3, "m"), (1e-6, "u"), (1e-9, "n"))


def number(value: float, unit: str) -> str:
    """`0.01234, "s"` -> `12.34 ms`: four significant digits with an SI prefix (bytes and rates too)."""
    if unit in ("1", ""):
        return f"{value:.4g}"
    for factor, prefix in PREFIXES:
        if abs(value) >= factor:
            return f"{value / factor:.4g} {prefix}{unit}"
    return f"{value:.4g} {unit}"


def quantity(q: Quantity) -> str:
    """A quantity with its interval and its kind where it is not measured; unknown with its reason."""
    if q.value is None:
        return f"unknown ({q.reason})"
    text = number(q.value, q.unit)
    if q.ci95 is not None:
        text += f" [{number(q.ci95[0], q.unit)}, {number(q.ci95[1], q.unit)}]"
    return text if q.kind == "measured" else f"{text} ({q.kind})"


def dry_run(
    suite: Suite,
    kept: Sequence[Case],
    pruned: Sequence[Pruned],
    hours: float,
    trainings: int,
    out: Console,
    recoveries: int = 0,
) -> None:
    """The cases that would run, the pruned ones with their reasons, and the device-hours at most."""
    varying = varying_axes([*(case.axes() for case in kept), *(p.case for p in pruned)])
    table = Table(
        "id", *varying, title=f"{suite.name}: {len(kept)} cases", title_justify="left", box=None, pad_edge=False
    )
    for case in kept:
        axes = case.model_dump(mode="json")
        table.add_row(case.id, *(escape(cell(axes.get(axis))) for axis in varying))
    out.print(table)
    if pruned:
        out.print(f"\npruned: {len(pruned)}")
        for reason, count in Counter(p.reason for p in pruned).most_common():
            out.print(f"  {escape(reason)}", style="dim" if count == 1 else "")
            for p in (p for p in pruned if p.reason == reason):
                out.print(f"    {escape(brief(p.case))}", style="dim")
    trials = suite.measure.max_trials or suite.measure.trials
    timed = f"{suite.measure.steps} steps" if suite.measure.steps else f"{suite.measure.budget_s:g} s timed at most"
    out.print(f"\nat most {hours:.2f} device-hours ({trials} trials of {timed})")
    if suite.recovery:
        launches = 1 + 2 * len(suite.recovery.seeds)
        out.print(f"and {recoveries} recoveries, of {launches} launches and {suite.recovery.steps} steps each")
    if suite.target_loss:
        out.print(f"and {trainings} trainings to a target loss, of {suite.target_loss.limit} steps at most")


def varying_axes(axes: Sequence[dict[str, Any]]) -> list[str]:
    """The axes in which the cases differ, plus the workload, in the order of the spec."""
    varying = ["workload"]
    for name in Case.model_fields:
        if name != "workload" and len({str(a.get(name)) for a in axes}) > 1:
            varying.append(name)
    return varying


def cell(value: Any) -> str:
    if isinstance(value, dict) and value.get("name"):
        return str(value["name"])
    if isinstance(value, dict):
        kind = [str(value["kind"])] if "kind" in value else []
        defaults = {
            "index": "uniform",
            "cache": "none",
            "page_cache": "warm",
            "prefetch": -1,
            "parallel": -1,
            "path": None,
        }
        return " ".join(kind + [f"{k}={v}" for k, v in value.items() if k != "kind" and defaults.get(k, ...) != v])
    return "-" if value is None else str(value)


def brief(axes: dict[str, Any]) -> str:
    """A case in one line: the axes that are not at their defaults."""
    axes = {name: value for name, value in axes.items() if value != DEFAULTS.get(name, ...)}
    return ", ".join(f"{name}={cell(value)}" for name, value in axes.items())


def record(rec: Record, out: Console) -> None:
    """One record for reading."""
    out.print(f"[bold]{escape(brief(rec.case))}[/bold]\n{rec.id}  trial {rec.trial}  {rec.created}")
    colour = {"VALID": "green", "SUSPECT": "yellow", "INVALID": "red"}[rec.validity.status]
    out.print(f"[{colour}]{rec.validity.status}[/{colour}]  steady state: {rec.steady.classification}")
    for check in rec.validity.checks:
        if check.status != "VALID":
            out.print(f"  {check.status.lower()}: {check.name}: {escape(check.detail)}")
    for title, quantities in (("quantities", rec.quantities), ("phases", rec.phases)):
        table = Table("", "", box=None, show_header=False, title=title, title_justify="left", pad_edge=False)
        for name, q in quantities.items():
            table.add_row(name, escape(quantity(q)))
        out.print(table)
    for name, value in {**rec.effective, **rec.counts, "reproduce": rec.reproduce}.items():
        out.print(f"{name}: {escape(str(value))}")


def names(title: str, rows: Iterable[Sequence[str]], headings: Sequence[str], out: Console) -> None:
    table = Table(*headings, title=title, title_justify="left", box=None, pad_edge=False)
    for row in rows:
        table.add_row(*(escape(text) for text in row))
    out.print(table)


def listed(value: Any) -> str:
    """A cell of `tfscale list`: presets as `name (parameters)`."""
    if isinstance(value, dict):
        return ", ".join(f"{name} ({count:,})" for name, count in value.items())
    return str(value)


def summary(run: Run, console: Console) -> None:
    """What a run gave, one line a case, then what failed."""
    table = Table(
        "case", "step time", "throughput", "validity", title=run.run, title_justify="left", box=None, pad_edge=False
    )
    for case in run.cases:
        shown = [
            quantity(case.quantities[name]) if name in case.quantities else "-" for name in ("step_time", "throughput")
        ]
        table.add_row(escape(brief(case.case)), *(escape(text) for text in shown), case.validity.status)
    console.print(table)
    if run.recoveries:
        from tfscale.suite.display_recovery import recoveries

        recoveries(run.recoveries, console)
    for failure in run.failed:
        rank = "" if failure.rank is None else f" on rank {failure.rank}"
        console.print(f"failed: {brief(failure.case)}: {failure.classification}{rank}: {failure.reason}", markup=False)
    documents: tuple[Record | Failure, ...] = (*run.records, *run.failed)
    for document in documents:
        for retry in document.retries:
            on = "" if retry.rank is None else f" on rank {retry.rank}"
            again = f"{retry.classification}{on}: {retry.reason}"
            console.print(f"retried: {brief(document.case)}, trial {document.trial}: {again}", markup=False)
    if run.missing:
        console.print(f"{run.ended or 'interrupted'}: {len(run.missing)} cases were not run; `--resume` does the rest")
    if run.pruned:
        console.print(f"pruned: {len(run.pruned)} (see the report, or `tfscale run --dry-run`)")


def gemm(document: dict[str, Any], console: Console) -> None:
    """The rows of `tfscale bench gemm`."""
    table = Table("precision", "xla", "m x n x k", "FLOP/s (median, 95 % interval)", box=None, pad_edge=False)
    for row in document["rows"]:
        shape = " x ".join(str(row[axis]) for axis in ("m", "n", "k"))
        table.add_row(
            row["precision"], row["xla"], shape, escape(quantity(Quantity.model_validate(row["flops_per_s"])))
        )
    console.print(table)


@contextmanager
def counter(what: str) -> Iterator[Callable[[int, int, str], None]]:
    """A bar with the time left on stderr; call what it gives with (done, total, unit)."""
    columns = (TextColumn("{task.description}"), BarColumn(bar_width=24), TaskProgressColumn(), TimeRemainingColumn())
    with Progress(*columns, console=err, transient=True) as progress:
        task = progress.add_task(what, total=None)
        yield lambda done, total, unit: progress.update(
            task, completed=done, total=total or None, description=f"{what}: {done:,} of {total:,} {unit}"
        )
