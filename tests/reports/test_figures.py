"""SVG that a page can hold many of: own ids, no namespaces, the same every time, no name taken as mathematics."""

import re

import numpy as np
import pandas as pd
import pytest

from tfscale.reports.figures import heatmap, scaling, svg, trace

POINTS = pd.DataFrame(
    {
        "line": ["mirrored"] * 3,
        "strategy": ["mirrored"] * 3,
        "baseline": ["one_device"] * 3,
        "devices": [1, 2, 4],
        "value": [10.0, 19.0, 35.0],
        "low": [9.0, 18.0, np.nan],
        "high": [11.0, 20.0, np.nan],
        "status": ["VALID", "SUSPECT", "VALID"],
        "start": [False, False, False],
    }
)


def throughput(name: str, unit: str = "images/s") -> str:
    return scaling.throughput(POINTS, (1, 10.0), unit, name, "spoken <b> & words")


def test_same_input_same_figure() -> None:
    assert throughput("a") == throughput("a")


def test_two_figures_share_no_id() -> None:
    ids = [set(re.findall(r' id="([^"]+)"', throughput(name))) for name in ("a", "b")]
    assert ids[0]
    assert not ids[0] & ids[1]


@pytest.mark.parametrize("unit", ["images/s", "$x$ \\frac <script>", "\x1b[1mimages/s\x00"])
def test_names_are_text(unit: str) -> None:
    figure = throughput("a", unit)
    assert "<script" not in figure
    assert "\x00" not in figure


def test_an_svg_is_clean() -> None:
    figure = throughput("a")
    assert "http" not in figure
    assert "xmlns" not in figure
    assert "<style" not in figure
    assert 'role="img"' in figure
    assert 'aria-label="spoken &lt;b&gt; &amp; words"' in figure
    assert ">throughput, images/s</text>" in figure
    assert len(figure) < 25_000


def test_a_long_axis_is_logarithmic() -> None:
    far = POINTS.assign(devices=[1, 8, 512])
    figure = scaling.efficiency(far.assign(value=[1.0, 0.9, 0.7], low=0.5, high=1.0), "e", "spoken")
    assert all(f">{count}</text>" in figure for count in (1, 8, 512))


def test_an_empty_cell_of_a_heat_map_says_why() -> None:
    cells = pd.DataFrame(
        {
            "precision": ["float32", "float32", "mixed_bfloat16", "mixed_bfloat16"],
            "xla": ["none", "cluster"] * 2,
            "speed": [1.0, np.nan, 1.4, np.nan],
            "below": ["reference", "", "1.35–1.45", ""],
            "why": ["", "pruned", "", "not run"],
        }
    )
    figure = heatmap.heat_map(cells, "m", "spoken")
    for words in ("1.00×", "reference", "1.40×", "1.35–1.45", "pruned", "not run", "xla cluster", "mixed_bfloat16"):
        assert f">{words}</text>" in figure


def test_downsampling_keeps_spikes_and_ends() -> None:
    steps = np.full(10_000, 5.0)
    steps[4321] = 50.0
    frame = pd.DataFrame({"elapsed_s": np.arange(10_000) / 10, "step_ms": steps})
    small = trace.downsample(frame, 200)
    assert len(small) <= 200
    assert small["step_ms"].max() == 50.0
    assert small["elapsed_s"].is_monotonic_increasing


def test_a_trace_draws_cut_and_levels() -> None:
    frame = pd.DataFrame({"elapsed_s": [1.0, 2.0, 3.0], "step_ms": [9.0, 5.0, 5.0]})
    levels = pd.DataFrame({"from_s": [0.0, 1.0], "to_s": [1.0, 3.0], "step_ms": [9.0, 5.0]})
    figure = trace.block_trace([frame], levels, 1.0, 'a "quoted" <label>')
    assert figure.count(f'stroke="{trace.LEVEL}"') == 2
    assert "stroke-dasharray" in figure
    assert "<label>" not in figure
    assert "stroke-dasharray" not in trace.block_trace([frame], levels, None, "spoken")


def test_every_strategy_has_one_colour() -> None:
    assert svg.colour("mirrored") == svg.colour("mirrored") != svg.colour("independent")
    assert svg.colour("mine") in svg.SPARE_COLOURS
