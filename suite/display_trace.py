"""What a person sees of an analysed trace in ten seconds, and the same as CSV. From the document alone."""

import csv
import io
from collections.abc import Iterator
from typing import Any

from rich import markup
from rich.console import Console
from rich.table import Table

HEADINGS = {
    "compute": "compute",
    "exposed_communication": "exposed comm",
    "exposed_copy": "exposed copy",
    "input_wait": "input",
    "host_overhead": "host",
    "idle": "idle",
}
WARN_SHARE = 0.05
LONGEST_NAME = 100
COLLECTIVE_ROWS = 8
OPERATION_ROWS = 8


def show(document: dict[str, Any], out: Console) -> None:
    """The warning first, then parts by device, collectives, stragglers, operations, the difference, what to know."""
    honesty = document["honesty"]
    share = honesty["unclassified_share"]
    if share is not None and share > WARN_SHARE:
        names = ", ".join(short(name["name"]) for host in honesty["hosts"] for name in host["unclassified"]["names"])
        out.print(f"{share:.1%} of the device time could not be classified: {names}", style="bold red")
    for entry in document.get("against", {}).get("devices", ()):
        told = entry.get("sentence") or escape(entry["reason"])
        out.print(f"{escape(entry['device'])}: {told}", style="bold", soft_wrap=True)
    out.print(_parts(document))
    if document["collectives"]:
        out.print(_collectives(document["collectives"]))
    verdict = document["straggler_verdict"]
    out.print(f"stragglers: {verdict['answer']} ({escape(verdict['reason'])})", soft_wrap=True)
    for one in document["stragglers"]:
        cause = f", cause {one['cause']}" if one["cause"] else ""
        out.print(
            f"  {escape(one['rank'])} is {ms(one['lateness_ps'])} late each step "
            f"({one['share']:.1%}, p = {one['p']:.2g}{cause})",
            style="bold red",
        )
    _skew(document["start_skew"], out)
    changes = document.get("against", {}).get("operations")
    out.print(_changes(changes) if changes else _operations(document))
    if "xprof" in document:
        _xprof(document, out)
    for name, device in _devices(document):
        if device["dropped_steps"]:
            out.print(
                f"note: {escape(name)}: left out {_dropped(device['dropped_steps'])}", style="yellow", soft_wrap=True
            )
    for note in honesty["notes"]:
        out.print(f"note: {escape(note)}", style="yellow", soft_wrap=True)


def _dropped(steps: list[dict[str, Any]]) -> str:
    """Steps that were left out, by reason."""
    reasons: dict[str, list[str]] = {}
    for step in steps:
        reasons.setdefault(step["reason"], []).append(str(step["step"]))
    return "; ".join(f"step {', '.join(numbers)}: {escape(reason)}" for reason, numbers in reasons.items())


def escape(text: str) -> str:
    """For one line of a terminal, whatever it holds."""
    return markup.escape(" ".join(text.splitlines()))


def short(name: str) -> str:
    return escape(name[:LONGEST_NAME])


def ms(ps: float) -> str:
    return f"{ps / 1e9:.3f} ms"


def _devices(document: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    several = len(document["hosts"]) > 1
    for host in document["hosts"]:
        for device in host["devices"]:
            yield (f"{host['host']} {device['device']}" if several else device["device"]), device


def _parts(document: dict[str, Any]) -> Table:
    """Mean parts of a step of every device; the window where it has no marked step."""
    table = Table("device", "steps", "mean step", *HEADINGS.values(), "comm hidden", "from", box=None, pad_edge=False)
    for column in table.columns[1:-1]:
        column.justify = "right"
    for name, device in _devices(document):
        steps = device["steps"]
        span = sum(step["span_ps"] for step in steps)
        shares = [sum(step["parts"][part] for step in steps) / span if span else 0.0 for part in HEADINGS]
        total = sum(step["totals"]["communication"] for step in steps)
        hidden = sum(step["totals"]["overlapped_communication"] for step in steps)
        table.add_row(
            escape(name),
            str(len(steps)),
            ms(span / len(steps)) if steps else "-",
            *(f"{share:.1%}" for share in shares),
            f"{hidden / total:.0%}" if total else "-",
            device["step_source"],
        )
    return table


def _collectives(collectives: list[dict[str, Any]]) -> Table:
    """Collectives of one type, size and group together: how many, how long, how fast."""
    groups: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for one in collectives:
        groups.setdefault((one["type"], one["bytes"], one["members"]), []).append(one)
    table = Table(
        "collective", "bytes", "ranks", "calls", "mean", "mean wait", "bus bandwidth", box=None, pad_edge=False
    )
    for column in table.columns[1:]:
        column.justify = "right"
    ordered = sorted(groups.items(), key=lambda item: -sum(one["duration_ps"] for one in item[1]))
    for (kind, size, members), calls in ordered[:COLLECTIVE_ROWS]:
        waits = [wait for one in calls if (wait := longest_wait(one)) is not None]
        bus = [one["bus_bandwidth"] for one in calls if one["bus_bandwidth"] is not None]
        time = sum(one["duration_ps"] for one in calls)
        table.add_row(
            kind,
            "unknown" if size is None else f"{size:,}",
            "unknown" if members is None else str(members),
            str(len(calls)),
            ms(time / len(calls)),
            ms(sum(waits) / len(waits)) if waits else unresolved(calls),
            # All bytes over all time: the mean of rates would overrate the small ones.
            f"{sum(b * c['duration_ps'] for b, c in zip(bus, calls, strict=True)) / time / 1e9:.3f} GB/s"
            if bus and time and len(bus) == len(calls)
            else "unknown",
        )
    if len(ordered) > COLLECTIVE_ROWS:
        table.caption = f"and {len(ordered) - COLLECTIVE_ROWS} other kinds (--json has all)"
    return table


def unresolved(collectives: list[dict[str, Any]]) -> str:
    """Instead of a wait: one rank waits for others that no trace shows, or clocks do not tell."""
    return "unknown" if all(one["seen"] == 1 for one in collectives) else "not resolved"


def longest_wait(collective: dict[str, Any]) -> int | None:
    """Of all ranks; None where it is not known, or not beyond the clocks' error."""
    if not collective["waits_ps"]:
        return None
    wait, error = max(collective["waits_ps"].values()), collective["waits_bound_ps"]
    return wait if wait > error or not error else None


def _skew(skews: list[dict[str, Any]], out: Console) -> None:
    if not skews:
        return
    worst = max(skews, key=lambda skew: skew["skew_ps"])
    out.print(
        f"start skew of a step: {ms(worst['skew_ps'])} at most (step {worst['step']}: {escape(worst['last'])} starts "
        f"after {escape(worst['first'])})",
        soft_wrap=True,
    )


def _operations(document: dict[str, Any]) -> Table:
    name, device = next(_devices(document), ("", {"operations": []}))
    table = Table("operation", "kind", "calls", "self time a step", "share", box=None, pad_edge=False)
    for one in device["operations"][:OPERATION_ROWS]:
        table.add_row(short(one["name"]), one["kind"], str(one["count"]), ms(one["per_step_ps"]), f"{one['share']:.1%}")
    table.title, table.title_justify = f"operations of {escape(name)}", "left"
    return table


def _xprof(document: dict[str, Any], out: Console) -> None:
    """XProf's mean step beside our devices' means, and why they differ."""
    theirs = document["xprof"]["mean_step_ms"]
    table = Table(
        "", "step", "parts", box=None, pad_edge=False, title=f"XProf {document['xprof']['version']} beside ours"
    )
    table.title_justify = "left"
    if theirs is None:
        out.print("XProf finds no step in these traces")
    else:
        told = ", ".join(f"{name} {value:.3f}" for name, value in theirs.items() if value and name != "step time")
        table.add_row("XProf", f"{theirs['step time']:.3f} ms", told)
    for name, device in _devices(document):
        steps = device["steps"]
        mean = {part: sum(step["parts"][part] for step in steps) / len(steps) / 1e9 for part in HEADINGS}
        told = ", ".join(f"{HEADINGS[part]} {value:.3f}" for part, value in mean.items() if value >= 0.0005)
        table.add_row(escape(name), f"{sum(mean.values()):.3f} ms", told)
    out.print(table)
    for reason in document["xprof"]["reasons"]:
        out.print(f"  {reason}", style="dim", soft_wrap=True)


def _changes(changes: list[dict[str, Any]]) -> Table:
    table = Table("operation", "each before", "each after", "change a step", box=None, pad_edge=False)
    for one in changes[:OPERATION_ROWS]:
        table.add_row(
            short(one["name"]),
            *("-" if one[each] is None else ms(one[each]) for each in ("before_each_ps", "after_each_ps")),
            f"{one['grown_ps'] / 1e9:+.3f} ms",
        )
    return table


def as_csv(document: dict[str, Any]) -> str:
    """One row a host, device and step (`window` for the whole window), parts and totals in picoseconds."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    totals = ("communication", "overlapped_communication", "copy", "wait")
    writer.writerow(["host", "device", "step", "start_ps", "span_ps", *HEADINGS, *(f"total_{name}" for name in totals)])
    for host in document["hosts"]:
        for device in host["devices"]:
            for step in [{"step": "window", **device["window"]}, *device["steps"]]:
                values = [step["parts"][part] for part in HEADINGS] + [step["totals"][name] for name in totals]
                writer.writerow(
                    [host["host"], device["device"], step["step"], step["start_ps"], step["span_ps"], *values]
                )
    return text.getvalue()
