"""Before the first steady step: where each launch spent its time, as stacked bars that are plain HTML."""

from dataclasses import dataclass

import pandas as pd

from tfscale.reports import text

ORDER = ("launch", "import", "join", "build", "check", "trace", "compile", "first_step", "second_step")
LATER = ("timed", "tail", "profiled")
"""Phases on record that come after the start."""
COLOURS = {
    "launch": "#5f6b7a",
    "import": "#9aa7b5",
    "join": "#e0b000",
    "build": "#56b4e9",
    "check": "#cc79a7",
    "trace": "#0072b2",
    "compile": "#d55e00",
    "first_step": "#009e73",
    "second_step": "#7fc8a9",
}
SPARE = "#7a6fae"


@dataclass(frozen=True)
class Part:
    phase: str
    seconds: str
    width: str
    """Per cent of the longest bar, as CSS wants it."""
    colour: str


@dataclass(frozen=True)
class Bar:
    case_id: str
    title: str
    parts: tuple[Part, ...]
    total: str
    cells: tuple[str, ...]
    """Seconds by phase, in the order of the chart's `phases`."""


@dataclass(frozen=True)
class PhaseChart:
    phases: tuple[tuple[str, str], ...]
    """(phase, colour), for the legend and the table."""
    bars: tuple[Bar, ...]
    kinds: str
    notes: tuple[str, ...]


def chart(phases: pd.DataFrame) -> PhaseChart | None:
    """One bar a case of a frame of phases, scaled to the longest; None where no phase is on record."""
    phases = phases[~phases["phase"].isin(LATER)]
    known = phases[phases["seconds"].notna()]
    if known.empty:
        return None
    order = [name for name in ORDER if (known["phase"] == name).any()]
    order += [name for name in dict.fromkeys(known["phase"]) if name not in ORDER]
    longest = float(known.groupby("case_id")["seconds"].sum().max()) or 1.0
    bars = tuple(_bar(group, order, longest) for _, group in known.groupby("case_id", sort=False))
    missing = phases[phases["seconds"].isna()]
    notes = dict.fromkeys(f"{row['phase']}: {row['reason']}".replace("_", " ") for row in missing.to_dict("records"))
    legend = tuple((name, COLOURS.get(name, SPARE)) for name in order)
    return PhaseChart(legend, bars, " and ".join(sorted(set(known["kind"]))), tuple(notes))


def _bar(group: pd.DataFrame, order: list[str], longest: float) -> Bar:
    seconds = {str(name): float(value) for name, value in zip(group["phase"], group["seconds"], strict=True)}
    parts = tuple(
        Part(
            name.replace("_", " "),
            text.seconds(seconds[name]),
            f"{100 * seconds[name] / longest:.3f}",
            COLOURS.get(name, SPARE),
        )
        for name in order
        if seconds.get(name, 0) > 0
    )
    cells = tuple(f"{seconds[name]:.2f}" if name in seconds else text.NONE for name in order)
    first = group.iloc[0]
    return Bar(str(first["case_id"]), str(first["title"]), parts, f"{sum(seconds.values()):.1f} s", cells)
