"""The page of a comparison: comparability first, one file, nothing evaluated, the same every time, in a browser too."""

import html
import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parent.parent / "reports"))
import made
import test_browser as browser

from tfscale.reports.comparison_page import comparison_report
from tfscale.suite.analysis.cost import parse_prices
from tfscale.suite.compare import assembling, sides
from tfscale.suite.compare.forms import Comparison
from tfscale.suite.record import Check

PRICES = ("A=2.5EUR@2026-12", "B=3.1EUR@2026-11-15")


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Comparison:
    """Four cases: B faster, nothing shown, one trial, INVALID; on other cards, with another Keras and a hostile host."""
    cases = [made.case(devices=devices) for devices in (1, 2, 4, 8)]
    wrong = Check(name="self_check", status="INVALID", detail="not averaged")
    new = made.environment(
        gpus=made.gpus("H200 <script>alert(1)</script>", 8), host="</td>\u202e\x1b[31m", packages={"keras": "3.16.0"}
    )
    old = made.environment(gpus=made.gpus("A100", 8))
    a, b = [], []
    for case, speeds in zip(cases, ([130, 131, 129], [101, 99, 100], [120], [200, 200, 201]), strict=True):
        kind: dict[str, Any] = {"checks": (wrong,)} if case.devices == 8 else {}
        a += made.trials(case, [100, 101, 99][: len(speeds)], facts=old, joules=0.5)
        b += made.trials(case, speeds, facts=new, joules=0.4, **kind)
    folder = tmp_path_factory.mktemp("results")
    loaded = [sides.load(made.stored(folder / name, records)) for name, records in (("a", a), ("b", b))]
    return assembling.results(loaded[0], loaded[1], (), parse_prices(PRICES))


def test_one_file_in_order_with_nothing_that_could_run(found: Comparison) -> None:
    page = comparison_report(found)
    assert page == comparison_report(found)
    order = [
        page.index(f'<section id="{name}"') for name in ("comparability", "answer", "cases", "cost", "systems", "apart")
    ]
    assert order == sorted(order)
    assert "Not a fair comparison." in page and page.index("Not a fair") < order[0]
    assert not re.search(r"https?:|//[a-z]", page)
    assert "<script>alert" not in page and "\u202e" not in page and "\x1b" not in page
    assert page.count("<svg") == 1


def test_numbers_kinds_and_words_of_each_verdict(found: Comparison) -> None:
    page = comparison_report(found)
    text = re.sub(r"<[^>]+>", " ", html.unescape(page))
    for words in (
        "B is faster",
        "no difference shown; seeing 2 % would need",
        "trials: 1 of A, 1 of B",
        "B is INVALID",
    ):
        assert words in text, words
    assert "2.5 EUR a device and hour, as of 2026-12" in text
    assert "1.300" in text and 'title="kind: derived"' in page
    assert "is cheaper" in text


def test_without_prices_there_is_no_section_on_cost(found: Comparison) -> None:
    assert 'id="cost"' not in comparison_report(found.model_copy(update={"money": None}))


@pytest.mark.browser
@pytest.mark.skipif(browser.CHROMIUM is None, reason="Chromium is not installed")
@pytest.mark.parametrize("width", [1400, 390])
def test_nothing_sticks_out_in_a_browser(found: Comparison, tmp_path: Path, width: int) -> None:
    file = tmp_path / "page.html"
    file.write_text(browser.framed(comparison_report(found), width), encoding="utf-8")
    dom = browser.chromium(tmp_path / "profile", file, 1500, "--dump-dom").stdout
    (answer,) = re.findall(r'<pre id="answer">(.*?)</pre>', dom, flags=re.S)
    told = json.loads(html.unescape(answer))
    assert told["outside"] == [] and told["scroll"] <= width and told["faults"] == []
    assert told["up"] == sorted(told["up"])
