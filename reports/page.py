"""The scaling page: a run and its block series in, one HTML text out. Nothing is read, measured or fetched here."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from markupsafe import Markup
from numpy.typing import NDArray

from tfscale.reports import (
    breakdowns,
    case_table,
    changes,
    counters,
    curves,
    details,
    efficiencies,
    exchange_maps,
    exchanges,
    findings,
    frames,
    loads,
    maps,
    phases,
    recoveries,
    summary,
    targets,
    traces,
)
from tfscale.reports.html import hash_of, static, templates
from tfscale.reports.parts import PARTS
from tfscale.suite.monitors.series import Series
from tfscale.suite.record import Run

SECTIONS = (
    ("findings", "Findings"),
    ("cases", "Cases"),
    ("scaling", "Scaling"),
    ("precision", "Precision and XLA"),
    ("breakdown", "Where a step goes"),
    ("blocks", "Block times"),
    ("startup", "Start-up"),
    ("exchanges", "Exchanges"),
    ("recovery", "Failures and checkpoints"),
    ("counters", "Counters"),
    ("failed", findings.TROUBLE),
    ("details", "In full"),
    ("environment", "Environment"),
    ("definitions", "Definitions"),
)


def scaling_report(
    run: Run,
    blocks: Mapping[str, Mapping[str, NDArray[Any]]],
    others: Sequence[str] = (),
    series: Mapping[str, Mapping[str, Series]] | None = None,
    before: tuple[str, Mapping[str, Any]] | None = None,
) -> str:
    """The page of `run` as one self-contained HTML document; the same input gives the same text.

    `blocks`: record id -> the arrays of that record's blocks.npz; a record without any is drawn without a trace.
    `others`: names of further runs in the same results, said in the header and otherwise left alone.
    `series`: record id -> monitor -> its samples, times relative to the start of the steady window.
    `before`: name and environment of the run that this one's environment is compared with.
    Raises KindError for a quantity that does not say how it came about.
    """
    return templates().get_template("page.html").render(_context(run, blocks, others, series or {}, before))


def _context(
    run: Run,
    blocks: Mapping[str, Mapping[str, NDArray[Any]]],
    others: Sequence[str],
    series: Mapping[str, Mapping[str, Series]],
    before: tuple[str, Mapping[str, Any]] | None,
) -> dict[str, Any]:
    cases, quantities, trials = frames.cases(run), frames.quantities(run), frames.trials(run)
    failed, retried, pruned = frames.failed(run), frames.retried(run), frames.pruned(run)
    shares = efficiencies.efficiencies(run)
    made_maps = maps.maps(run)
    travelled = _exchanges(run)
    shown = {"exchanges": travelled["has_exchanges"], "recovery": bool(run.recoveries)}
    return {
        **travelled,
        "run": run,
        "css": Markup(static("style.css")),
        "script": Markup(static("report.js")),
        "script_hash": hash_of(static("report.js")),
        "created": when(run.created),
        "others": others,
        "sections": [each for each in SECTIONS if shown.get(each[0], True)],
        "recoveries": recoveries.recoveries(run),
        "facts": summary.facts(run),
        "tally": summary.tally(cases, failed, pruned),
        "invented": summary.invented(quantities),
        "scaling_findings": findings.scaling(cases, shares),
        "precision_findings": findings.precision(maps.speeds(made_maps)),
        "doubts": findings.doubts(cases, failed, retried, int((cases["trials"] == 1).sum()), len(run.missing)),
        "nothing_to_compare": summary.nothing_to_compare(cases, failed, pruned),
        "cases_lead": summary.cases_lead(quantities),
        "tables": case_table.tables(cases, quantities, shares, summary.reasons(run)),
        "marks": {mark: kind for kind, mark in case_table.MARKS.items()},
        "panels": curves.panels(cases, quantities, shares),
        "no_curves": summary.no_curves(cases),
        "maps": made_maps,
        "traces": traces.traces(run, blocks),
        "bars": breakdowns.bars(run),
        "falls": breakdowns.falls(run, shares),
        "part_colours": PARTS,
        "phase_chart": phases.chart(frames.phases(run)),
        "counter_cards": counters.cards(run, blocks, series),
        "counter_tables": counters.tables(run),
        "failed": summary.failures(failed),
        "retried": summary.failures(retried),
        "pruned": summary.pruned_groups(pruned),
        "pruned_count": len(pruned),
        "details": details.details(run, quantities, trials),
        "environment": changes.captured(run.environment),
        "changes": changes.changes(run.environment, before),
    }


def _exchanges(run: Run) -> dict[str, Any]:
    """The section on exchanges; it is left out of a run that has nothing to compare them by."""
    tables, apart = exchanges.tables(run), targets.apart(run)
    shown = bool(tables or apart)
    return {
        "has_exchanges": shown,
        "exchange_tables": tables,
        "exchange_maps": exchange_maps.maps(run) if shown else [],
        "target_lead": targets.lead(run),
        "apart": apart,
        "drawings": loads.drawings(run) if shown else [],
    }


def when(created: str) -> str:
    """A time stamp of a record for people; as it is where it is not ISO 8601."""
    try:
        moment = datetime.fromisoformat(created)
    except ValueError:
        return created
    zone = " UTC" if moment.tzinfo is None or not moment.utcoffset() else moment.strftime(" %z")
    return f"{moment:%Y-%m-%d %H:%M}{zone}"
