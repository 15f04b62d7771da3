"""A described network: core, racks, hosts and replicas, each link with its rate and what a step puts on it."""

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.patches import FancyBboxPatch

from tfscale.reports import text
from tfscale.reports.figures import svg
from tfscale.suite.analysis.linkload import Link, busy_s, rate_of
from tfscale.suite.topology import Topology, spelled

HOST, GAP, RACK_GAP, EDGE = 116, 12, 30, 16
"""Pixels: width of a host, between hosts, between racks, around everything."""
CORE_Y, SWITCH_Y, HOST_Y = 26, 132, 252
"""Pixels from the top: the middles of the core, of the racks' switches and of the hosts."""
ABOVE = 45
"""Pixels from what a link leads down to, to the middle of what is said of it."""
BOTTOM = 282
COLD, WARM = "#8fa3b5", "#c8553d"
LEAST_WIDTH = 320


def drawing(topology: Topology, places: Sequence[int], load: Mapping[Link, float], name: str, label: str) -> str:
    """SVG. `places`: the host of each replica, in the order of the ring; `load`: bytes of a step on each link."""
    used = sorted(set(places), key=lambda place: (list(topology.racks).index(topology.hosts[place]), place))
    racks = list(dict.fromkeys(topology.hosts[place] for place in used))
    x, width = _columns(topology, used)
    busy = busy_s(topology, load)
    longest = max(busy.values(), default=0.0)
    top = 0 if len(racks) > 1 else SWITCH_Y - 30
    height = BOTTOM - top
    with svg.style():
        figure = svg.new_figure(width, height)
        axes = figure.add_axes((0, 0, 1, 1))
        axes.set(xlim=(0, width), ylim=(BOTTOM, top))
        axes.axis("off")
        middles = {rack: _middle([x[place] for place in used if topology.hosts[place] == rack]) for rack in racks}
        if len(racks) > 1:
            for rack in racks:
                points = (width / 2, CORE_Y), (middles[rack], SWITCH_Y)
                _link(axes, topology, load, busy, longest, (rack, None), points)
            _box(axes, width / 2, CORE_Y, 76, 28, "core")
        for place in used:
            rack = topology.hosts[place]
            points = (middles[rack], SWITCH_Y), (x[place], HOST_Y)
            _link(axes, topology, load, busy, longest, (rack, place), points)
        for rack in racks:
            _box(axes, middles[rack], SWITCH_Y, 96, 28, f"rack {rack}" if len(racks) > 1 else "switch")
        for place in used:
            replicas = [str(number) for number, at in enumerate(places) if at == place]
            words = f"host {place}\nreplica{'s' if len(replicas) > 1 else ''} {', '.join(replicas)}"
            _box(axes, x[place], HOST_Y, HOST - 8, 42, words)
        return svg.to_svg(figure, name, label)


def _columns(topology: Topology, used: Sequence[int]) -> tuple[dict[int, float], float]:
    """The middle of each host, and the width of all."""
    x: dict[int, float] = {}
    at, before = float(EDGE), ""
    for place in used:
        rack = topology.hosts[place]
        at += 0 if not before else GAP if rack == before else RACK_GAP
        x[place] = at + HOST / 2
        at, before = at + HOST, rack
    width = at + EDGE
    shift = max(0.0, LEAST_WIDTH - width) / 2
    return {place: middle + shift for place, middle in x.items()}, max(width, LEAST_WIDTH)


def _middle(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def _box(axes: Any, x: float, y: float, width: float, height: float, words: str) -> None:
    style = "round,pad=0,rounding_size=4"
    corner = (x - width / 2, y - height / 2)
    axes.add_patch(FancyBboxPatch(corner, width, height, boxstyle=style, fc="#f5f7f9", ec="#aab3bf", lw=1, zorder=3))
    axes.text(x, y, text.printable(words), ha="center", va="center", fontsize=8.5, color=svg.INK, zorder=4)


def _link(
    axes: Any,
    topology: Topology,
    load: Mapping[Link, float],
    busy: Mapping[Link, float],
    longest: float,
    end: tuple[str, int | None],
    points: tuple[tuple[float, float], tuple[float, float]],
) -> None:
    """A line as wide and warm as it is busy, with rate, bytes up and down, and the seconds they take at least."""
    up, down = Link(*end, "up"), Link(*end, "down")
    seconds = max(busy.get(up, 0.0), busy.get(down, 0.0))
    share = seconds / longest if longest else 0.0
    (x0, y0), (x1, y1) = points
    axes.plot([x0, x1], [y0, y1], color=WARM if share > 0.999 else COLD, lw=1.2 + 3 * share, zorder=1)
    rate = rate_of(topology, up)
    lines = [
        "not limited" if rate is None else f"{spelled(rate)}/s",
        f"↑ {text.size(load.get(up, 0.0))}  ↓ {text.size(load.get(down, 0.0))}",
        *([f"{text.seconds(seconds)} at least"] if seconds else []),
    ]
    # Above its lower end: there no two links are near each other.
    axes.text(
        x1, y1 - ABOVE, "\n".join(lines), ha="center", va="center", fontsize=7.5, color=svg.INK, linespacing=1.25,
        zorder=2, bbox={"fc": "white", "ec": "none", "pad": 1.2},
    )  # fmt: skip
