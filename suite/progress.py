"""The progress of a run on stderr: one bar, the running case with its phase, a line for each case that ended."""

from types import TracebackType

from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn
from rich.progress import Progress as Bar

from tfscale.suite.display import brief, err, quantity
from tfscale.suite.notices import Notice


class Progress:
    """Shows notices. On a terminal a bar moves; into a file only the lines go."""

    def __init__(self, cases: int) -> None:
        columns = (
            TextColumn("[bold]{task.fields[running]}"),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TextColumn("{task.fields[left]}"),
        )
        self._bar = Bar(*columns, console=err, transient=True)
        self._task = self._bar.add_task("run", total=cases, running="starting", left="")
        self._number = 0
        self._total = cases

    def __enter__(self) -> "Progress":
        self._bar.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._bar.stop()

    def tell(self, notice: Notice) -> None:
        """Show one notice."""
        left = "" if notice.left_s is None else f"about {_duration(notice.left_s)} left"
        self._bar.update(self._task, running=escape(self._running(notice)), left=left)
        if notice.kind == "case_started":
            self._number += 1
        elif notice.kind == "case_done":
            self._bar.advance(self._task)
        line = _line(notice)
        if line:
            err.print(f"[{self._number}/{self._total}] {line}", markup=False, soft_wrap=True)

    def _running(self, notice: Notice) -> str:
        event = notice.detail.get("event", {})
        step = event.get("step")
        phase = event.get("name") or (f"step {step}" if step is not None else notice.kind.replace("_", " "))
        return f"{notice.case.workload} {notice.case.strategy} x{notice.case.devices}: {phase}"


def _line(notice: Notice) -> str | None:
    """What stays on the screen of a notice, if anything does."""
    case = brief(notice.case.axes())
    if notice.kind == "trial_done":
        record = notice.detail["record"]
        return f"{case}: {quantity(record.quantities['step_time'])} a step, {record.validity.status}"
    if notice.kind == "trial_failed":
        failure = notice.detail["failure"]
        return f"{case}: failed: {failure.classification}: {failure.reason}"
    if notice.kind in ("profile_retry", "profile_failed"):
        return f"{case}: {notice.kind.replace('_', ' ')}: {notice.detail['reason']}"
    if notice.kind == "training_done":
        curve = notice.detail["curve"]
        to = f"{curve.reached} steps to a loss of {curve.target:.4g}" if curve.reached else "did not come to its target"
        return f"{case}: {to}, {curve.steps} trained"
    if notice.kind == "recovery_done":
        told = notice.detail["recovery"]
        resumed = sum(failure.resumed for failure in told.failures)
        return f"{case}: resumed after {resumed} of {len(told.failures)} failures, {told.validity.status}"
    if notice.kind in ("training_failed", "recovery_failed"):
        return f"{case}: failed: {notice.detail['failure'].reason}"
    if notice.kind == "port_retry":
        return f"{case}: a port was taken meanwhile, launched again with others"
    return f"{case}: stopped; `--resume` does the rest" if notice.kind == "stopping" else None


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest:02d} s" if minutes else f"{rest} s"
