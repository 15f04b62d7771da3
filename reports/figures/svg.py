"""From a matplotlib figure to an <svg> element for a page that holds many: small, searchable, the same every time.

Matplotlib's own output repeats ids from figure to figure, styles the whole document, carries a date and namespaces
(which look like links), and fixes the size in points. Text stays text: it can be searched and takes the page's font.
"""

import io
import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import matplotlib as mpl
import seaborn as sns
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure

from tfscale.reports import text

INK = "#1c2430"
MUTED = "#5f6b7a"
GRID = "#e3e7ec"
# Okabe and Ito's colours: told apart by people with any common colour vision.
STRATEGY_COLOURS = {
    "one_device": "#4d5562",
    "independent": "#8b94a1",
    "mirrored": "#0072b2",
    "multi_worker_mirrored": "#d55e00",
    "parameter_server": "#009e73",
    "central_storage": "#aa4499",
    "tpu": "#b8860b",
}
SPARE_COLOURS = ("#56b4e9", "#882255", "#44aa99", "#999933", "#332288")

STYLE: dict[str, Any] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "tfscale",
    "text.parse_math": False,  # a name may hold a dollar sign
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],
    "font.size": 9.5,
    "axes.labelsize": 9.5,
    "axes.titlesize": 10,
    "xtick.labelsize": 9,
    "ytick.labelsize": 9,
    "text.color": INK,
    "axes.labelcolor": MUTED,
    "axes.edgecolor": "#aab3bf",
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "grid.color": GRID,
    "axes.linewidth": 0.8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "xtick.major.size": 3,
    "ytick.major.size": 3,
    "path.simplify": True,
}
_NAMESPACE = re.compile(r"\{[^}]*\}")
_REFERENCE = re.compile(r"url\(#([^)]+)\)")


@contextmanager
def style() -> Iterator[None]:
    """The look of every chart, and what makes its SVG deterministic; the caller's own settings come back afterwards."""
    with sns.axes_style("ticks"), mpl.rc_context(STYLE):  # type: ignore[arg-type]  # no stub, or one of literal keys
        yield


def new_figure(width: float, height: float) -> Figure:
    """An empty figure of `width` x `height` CSS pixels that no window ever shows."""
    figure = Figure(figsize=(width / 96, height / 96), dpi=96)
    FigureCanvasSVG(figure)
    return figure


def colour(strategy: str) -> str:
    """The one colour that `strategy` has on every chart; an unknown one gets a spare colour by its name."""
    spare = SPARE_COLOURS[sum(strategy.encode()) % len(SPARE_COLOURS)]
    return STRATEGY_COLOURS.get(strategy, spare)


def to_svg(figure: Figure, name: str, label: str) -> str:
    """`figure` as an <svg> element whose ids all begin with `name`, and that reads out as `label`."""
    buffer = io.StringIO()
    figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None, "Format": None, "Type": None})
    root = ElementTree.fromstring(buffer.getvalue())
    used = {match for element in root.iter() for match in _references(element)}
    _clean(root, name, used)
    root.attrib = {
        "class": "chart",
        "viewBox": root.attrib["viewBox"],
        "role": "img",
        "aria-label": text.printable(label),
        "style": f"max-width:{figure.get_figwidth() * 96:.0f}px",
        "stroke-linejoin": "round",
    }
    return ElementTree.tostring(root, encoding="unicode", short_empty_elements=True)


def _references(element: ElementTree.Element) -> Iterator[str]:
    for key, value in element.attrib.items():
        yield from _REFERENCE.findall(value)
        if key.endswith("href"):
            yield value.lstrip("#")


def _clean(element: ElementTree.Element, name: str, used: set[str]) -> None:
    """Drop what a page cannot use, namespaces and unused ids; prefix the others. Works on the tree in place."""
    element.tag = _NAMESPACE.sub("", element.tag)
    attributes = {_NAMESPACE.sub("", key): value for key, value in element.attrib.items()}
    if attributes.get("id") not in used:
        attributes.pop("id", None)
    for key, value in attributes.items():
        if key == "id":
            attributes[key] = f"{name}-{value}"
        elif key == "href":
            attributes[key] = f"#{name}-{value.lstrip('#')}"
        else:
            attributes[key] = _REFERENCE.sub(rf"url(#{name}-\1)", value)
    element.attrib = attributes
    for child in list(element):
        if _NAMESPACE.sub("", child.tag) in ("metadata", "style"):
            element.remove(child)
        else:
            _clean(child, name, used)
    if element.tag != "text" and not (element.text or "").strip():
        element.text = None
    element.tail = None
