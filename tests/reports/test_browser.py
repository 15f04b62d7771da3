"""The example page in a real browser, wide and narrow: nothing sticks out, no script fails, tables sort."""

import html
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
OPTIONS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--disable-quic", "--hide-scrollbars",
)  # fmt: skip
WATCH = "<script>window.faults = []; addEventListener('error', (e) => faults.push(String(e.message)));</script>"
PROBE = """<script>
for (const details of document.querySelectorAll("details")) details.open = true;
const wide = document.documentElement.clientWidth;
const outside = [...document.querySelectorAll("body *")].filter((e) => {
  const box = e.getBoundingClientRect();
  return box.right > wide + 1 && !e.closest(".wide, pre, svg") && box.width > 0 && !e.classList.contains("skip");
});
const table = document.querySelector("table.sortable");
const column = () => [...table.tBodies[0].rows].map((row) => Number(row.cells[2].dataset.sort));
table.tHead.rows[0].cells[2].querySelector("button").click();
const up = column();
table.tHead.rows[0].cells[2].querySelector("button").click();
const answer = document.createElement("pre");
answer.id = "answer";
answer.textContent = JSON.stringify({
  width: innerWidth, scroll: document.documentElement.scrollWidth, faults,
  outside: outside.slice(0, 5).map((e) => e.tagName + "." + e.className + " " + e.textContent.slice(0, 40)),
  up, down: column(), sorted: table.tHead.rows[0].cells[2].getAttribute("aria-sort"),
});
parent.document.body.append(answer);
</script>"""

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed"),
]


def chromium(profile: Path, page: Path, width: int, *more: str) -> "subprocess.CompletedProcess[str]":
    assert CHROMIUM is not None
    command = [CHROMIUM, *OPTIONS, f"--user-data-dir={profile}", f"--window-size={width},1200", *more, page.as_uri()]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)


def framed(page: str, width: int) -> str:
    """The page with a probe at its end, in a frame of that width: the browser's own window is never below 500 pixels.

    The policy, which would not let the probe run, goes.
    """
    free = re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', WATCH, page).replace(
        "</body>", PROBE + "</body>"
    )
    frame = f'<iframe style="width:{width}px;height:1200px;border:0" srcdoc="{html.escape(free)}"></iframe>'
    return f'<!doctype html><meta charset="utf-8"><body style="margin:0">{frame}</body>'


@pytest.mark.parametrize("width", [1400, 390])
def test_nothing_sticks_out_and_no_script_fails(example_page: str, tmp_path: Path, width: int) -> None:
    file = tmp_path / "page.html"
    file.write_text(framed(example_page, width), encoding="utf-8")
    dom = chromium(tmp_path / "profile", file, 1500, "--dump-dom").stdout
    (found,) = re.findall(r'<pre id="answer">(.*?)</pre>', dom, flags=re.S)
    answer: dict[str, Any] = json.loads(html.unescape(found))
    assert answer["width"] == width
    assert answer["scroll"] <= width, answer["outside"]
    assert answer["outside"] == []
    assert answer["faults"] == []
    assert answer["up"] == sorted(answer["up"])
    assert answer["down"] == sorted(answer["up"], reverse=True)
    assert answer["sorted"] == "descending"


def test_the_page_as_it_is_complains_of_nothing(example_page: str, tmp_path: Path) -> None:
    """With its content policy in force: own styles and script are allowed, and nothing is asked of the network."""
    file, picture = tmp_path / "page.html", tmp_path / "page.png"
    file.write_text(example_page, encoding="utf-8")
    done = chromium(tmp_path / "profile", file, 1400, "--enable-logging=stderr", f"--screenshot={picture}")
    assert "CONSOLE" not in done.stderr
    assert picture.read_bytes().startswith(b"\x89PNG")
