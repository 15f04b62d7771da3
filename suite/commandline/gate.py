"""`tfscale gate`: what stands between its options and the answer. The command itself is in harness.py: it may render."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from tfscale.suite import display
from tfscale.suite.commandline.common import FAILED, FINDING, GOOD, answer, fail
from tfscale.suite.display import err

if TYPE_CHECKING:
    from tfscale.suite.nightly.gate import Answer, Options


@dataclass(frozen=True)
class Asked:
    """The options of the command, but for the page."""

    results: Path
    baseline: str | None = None
    baseline_name: str | None = None
    save_baseline: str | None = None
    accept: str | None = None
    reason: str | None = None
    suite: str | None = None
    min_effect: float = 0.02
    false_discovery_rate: float = 0.05
    expect_every: float | None = None
    canary: bool = False
    operations: int = 3
    junit: Path | None = None
    summary: Path | None = None
    csv: Path | None = None
    as_json: bool = False


def judged(asked: Asked) -> "Answer":
    """The answer, decisions of this call included. Raises typer.Exit, with 2 for what cannot be judged."""
    from tfscale.suite.nightly import decisions, gate

    try:
        _fits(asked)
        options = _options(asked)
        found = gate.answer(asked.results, options)
        results = Path(found.gate.results)
        if asked.save_baseline is not None:
            run = options.baseline or found.gate.last_run
            decisions.save_baseline(results, asked.save_baseline, run)
            err.print(f"baseline {asked.save_baseline}: {run}", markup=False, soft_wrap=True)
        if asked.accept is not None:
            for news in gate.accept(found, results, asked.accept, asked.reason or ""):
                err.print(f"accepted: {news.title} since {news.since}", markup=False, soft_wrap=True)
            found = gate.answer(asked.results, options)
    except (ValueError, OSError) as error:
        raise fail(str(error)) from error
    for warning in found.gate.warnings:
        err.print(f"skipped: {warning}", style="yellow", markup=False, soft_wrap=True)
    return found


def _fits(asked: Asked) -> None:
    if (asked.accept is None) != (asked.reason is None):
        raise ValueError("--accept CASE and --reason TEXT go together")
    if asked.reason is not None and not asked.reason.strip():
        raise ValueError("--reason is empty: say why the change is meant")
    if asked.baseline is not None and asked.baseline_name is not None:
        raise ValueError("--baseline and --baseline-name both name what to compare with; name one")


def _options(asked: Asked) -> "Options":
    from tfscale.suite.nightly import decisions, reading
    from tfscale.suite.nightly.gate import Options
    from tfscale.suite.registry import UnknownNameError

    baseline = asked.baseline
    if asked.baseline_name is not None:
        known = decisions.baselines(reading.place(asked.results)[0])
        if asked.baseline_name not in known:
            raise UnknownNameError("--baseline-name", asked.baseline_name, sorted(known))
        baseline = known[asked.baseline_name].run
    return Options(
        min_effect=asked.min_effect,
        false_discovery_rate=asked.false_discovery_rate,
        baseline=baseline,
        suite=asked.suite,
        canary=asked.canary,
        operations=asked.operations,
        stale_hours=asked.expect_every,
    )


def tell(asked: Asked, found: "Answer") -> None:
    """Print the answer and write the files asked for."""
    from tfscale.suite import display_gate, rankfiles
    from tfscale.suite.nightly import outputs

    if asked.as_json:
        answer(found.gate.model_dump(mode="json", by_alias=True))
    else:
        display_gate.gate(found.gate, display.out)
    try:
        if asked.junit is not None:
            rankfiles.write_atomic(asked.junit.resolve(), outputs.junit(found.gate))
        if asked.csv is not None:
            rankfiles.write_atomic(asked.csv.resolve(), outputs.as_csv(found.gate).encode("utf-8", "backslashreplace"))
        if asked.summary is not None:
            _append(asked.summary, found)
    except OSError as error:
        raise fail(str(error), FAILED) from error


def _append(path: Path, found: "Answer") -> None:
    """To what other steps of the job wrote; more than the limit would hide that too."""
    from tfscale.suite.nightly import outputs

    used = path.stat().st_size if path.exists() else 0
    text = outputs.markdown(found.gate, outputs.SUMMARY_LIMIT - used)
    with path.open("ab") as file:
        file.write(text.encode("utf-8", "backslashreplace"))


def code(found: "Answer") -> typer.Exit:
    """The exit to raise: 1 where a series regressed or is missing."""
    return typer.Exit(FINDING if found.gate.alarms else GOOD)
