"""The progress of a run on stderr: on a terminal a table of the cases that fits it, elsewhere a line for what ended."""

import os
import threading
import time
from collections.abc import Sequence
from types import TracebackType

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from tfscale.suite.board import Board, Row, reached
from tfscale.suite.display import brief, err, quantity, visible
from tfscale.suite.interrupt import FIRST
from tfscale.suite.notices import Notice
from tfscale.suite.spec import Case

MOST_ROWS = 20
BESIDE_ROWS = 4
"""Lines of a terminal that are not rows of the table: the counts, what is left out, and the prompt before and after."""
REFRESHES_A_SECOND = 2
"""Drawing takes a few milliseconds of a core that ranks may be timed on."""
STYLES = {"waiting": "dim", "running": "bold", "done": "green", "failed": "red"}


class Progress:
    """Shows notices. On a terminal a table moves and is gone in the end; into a file lines go."""

    def __init__(self, name: str, cases: Sequence[Case], console: Console = err) -> None:
        self._name, self._console = name, console
        self._board, self._lock = Board(cases), threading.Lock()
        self._number, self._total = 0, len(cases)
        self._told_s = time.monotonic()
        self._ending = False
        # FORCE_COLOR makes rich call a log file a terminal: a table that moves would fill it.
        moves = console.is_terminal and not console.is_dumb_terminal and console.file.isatty()
        options = {"console": console, "refresh_per_second": REFRESHES_A_SECOND, "transient": True}
        self._live = Live(get_renderable=self._table, **options) if moves else None  # type: ignore[arg-type]

    def __enter__(self) -> "Progress":
        if self._live:
            self._live.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._live:
            self._live.stop()

    def tell(self, notice: Notice) -> None:
        """Show one notice."""
        with self._lock:
            self._board.take(notice)
            self._told_s = time.monotonic()
            self._number += notice.kind == "case_started"
        if self._live is None and (line := _line(notice)):
            self._console.print(f"[{self._number}/{self._total}] {line}", markup=False, soft_wrap=True)

    def ending(self) -> None:
        """Say that the run ends after this case. Called by a signal handler: it takes no lock and prints nothing itself
        where the table will."""
        self._ending = True
        if self._live is None:
            os.write(2, FIRST)

    def _table(self) -> RenderableType:
        height = self._console.size.height
        with self._lock:
            rows, hidden = self._board.window(max(1, min(MOST_ROWS, height - BESIDE_ROWS)))
            lines: list[RenderableType] = [_one_line(self._heading()), _rows(rows)]
        if hidden:
            states = ", ".join(f"{hidden[state]} {state}" for state in STYLES if hidden[state])
            lines.append(_one_line(f"and {states}", "dim"))
        return Group(*lines)

    def _heading(self) -> str:
        counts = self._board.counts()
        words = [f"{counts['done'] + counts['failed']} of {len(self._board.rows)} ended"]
        words += [f"{counts[what]} {what}" for what in ("failed", "retried") if counts[what]]
        if self._board.left_s is not None:
            left = max(0.0, self._board.left_s - (time.monotonic() - self._told_s))
            words.append(f"about {duration(left)} left")
        if self._ending:
            words = ["ending after this case (Ctrl-C: now)"]
        return f"{self._name}: {', '.join(words)}"


def _one_line(text: str, style: str = "") -> Text:
    return Text(visible(text), style=style, no_wrap=True, overflow="ellipsis")


def _rows(rows: Sequence[Row]) -> Table:
    table = Table.grid(padding=(0, 2, 0, 0), expand=True)
    table.add_column(no_wrap=True)
    table.add_column(ratio=2)
    table.add_column(ratio=3)
    for row in rows:
        style = STYLES[row.state]
        table.add_row(Text(row.state, style), _one_line(row.label, style), _one_line(row.told, style))
    return table


def _line(notice: Notice) -> str | None:
    """What a log keeps of a notice, if anything."""
    case = brief(notice.case.axes())
    left = "" if not notice.left_s else f" (about {duration(notice.left_s)} left)"
    if notice.kind == "trial_done":
        record = notice.detail["record"]
        return f"{case}: {quantity(record.quantities['step_time'])} a step, {record.validity.status}{left}"
    if notice.kind == "trial_failed":
        failure = notice.detail["failure"]
        return f"{case}: failed: {failure.classification}: {failure.reason}{left}"
    if notice.kind == "trial_retry":
        retry = notice.detail["retry"]
        return f"{case}: {retry.classification}: {retry.reason}; launched again"
    if notice.kind in ("profile_retry", "profile_failed"):
        return f"{case}: {notice.kind.replace('_', ' ')}: {notice.detail['reason']}"
    if notice.kind == "training_done":
        curve = notice.detail["curve"]
        return f"{case}: {reached(curve.reached, curve.target)}, {curve.steps} trained"
    if notice.kind == "recovery_done":
        told = notice.detail["recovery"]
        resumed = sum(failure.resumed for failure in told.failures)
        return f"{case}: resumed after {resumed} of {len(told.failures)} failures, {told.validity.status}"
    if notice.kind in ("training_failed", "recovery_failed"):
        return f"{case}: failed: {notice.detail['failure'].reason}"
    if notice.kind == "port_retry":
        return f"{case}: a port was taken meanwhile, launched again with others"
    return f"{case}: stopped; `--resume` does the rest" if notice.kind == "stopping" else None


def duration(seconds: float) -> str:
    """`75` -> `1 min 15 s`; hours where there are some."""
    minutes, rest = divmod(round(seconds), 60)
    if minutes >= 60:
        return f"{minutes // 60} h {minutes % 60:02d} min"
    return f"{minutes} min {rest:02d} s" if minutes else f"{rest} s"
