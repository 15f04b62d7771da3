"""What the run says, in sentences made from its numbers: how it scaled, what precision and XLA buy, what to doubt."""

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

import pandas as pd

from tfscale.reports import text

MOST = 9
"""Sentences of one sort; the sections below hold the rest."""
STORY = ["workload", "preset", "line"]
"""One sentence each, of the settings that came first in the suite."""
CURVE = ["workload", "preset", "scaling", "batch", "precision", "xla", "math", "other", "line"]
FAR = 0.7
"""Below this efficiency a sentence says which loss is the larger, contention or distribution, where both are known."""


@dataclass(frozen=True)
class Finding:
    """One sentence. `tone`: plain, doubt or bad; `about`: what it is about, said before it; `detail`: said smaller."""

    about: str
    words: str
    detail: str = ""
    tone: str = "plain"


def scaling(cases: pd.DataFrame, efficiencies: pd.DataFrame) -> list[Finding]:
    """For each workload and strategy its case of most devices against one device, in the order of the suite."""
    shown = efficiencies[efficiencies["value"].notna()].merge(cases, on="case_id")
    shown = shown[(shown["devices"] > 1) & (shown["strategy"] != "independent") & (shown["status"] != "INVALID")]
    against = shown[shown["baseline"] == "one_device"]
    most = against.sort_values("devices", ascending=False, kind="stable")
    curves = len(most.drop_duplicates(CURVE))
    told = most.drop_duplicates(STORY).sort_index().head(MOST)
    return [_scaled(row, shown) for row in told.to_dict("records")] + _more(curves - len(told), "curve", "Scaling")


def _more(count: int, what: str, section: str) -> list[Finding]:
    """Where to look for what was not said; nothing where all was."""
    if count <= 0:
        return []
    words = text.plural(count, f"more {what} is", f"more {what}s are")
    return [Finding("", "", f"{words} in the section {section}.", "rest")]


def _scaled(row: dict[Hashable, Any], shown: pd.DataFrame) -> Finding:
    share, devices = row["value"], row["devices"]
    kind = "" if row["kind"] in ("measured", "derived") else f", {row['kind']}"
    words = f"{devices} devices give {share * devices:.2f}× of one device ({text.percent(share)} efficiency{kind})."
    known = pd.notna(row["low"])
    scope = " within one trial" if row["scope"] == "within_trial" else ""
    parts = [f"95 % interval {text.percent_range(row['low'], row['high'])}{scope}" if known else "no interval"]
    parts.append(f"{row['scaling']} scaling, {row['precision']}, xla {row['xla']}")
    if row["other"]:
        parts.append(row["other"])
    beside = shown[(shown["case_id"] == row["case_id"]) & (shown["baseline"] == "independent")]
    if len(beside):
        parts.append(f"{text.percent(beside['value'].iloc[0])} of as many independent replicas" + _cause(share, beside))
    if row["status"] == "SUSPECT":
        parts.append("SUSPECT")
    tone = "doubt" if share > 1 or row["status"] == "SUSPECT" else "plain"
    return Finding(f"{row['workload']} {row['preset']}, {row['line']}", words, "; ".join(parts), tone)


def _cause(share: float, beside: pd.DataFrame) -> str:
    """Which of the two losses is the larger, said only where there is much to explain and both are known."""
    distribution = float(beside["value"].iloc[0])
    contention = share / distribution
    if share >= FAR:
        return ""
    return ", so most is lost to " + ("distribution" if distribution < contention else "contention for the machine")


def precision(cells: pd.DataFrame) -> list[Finding]:
    """For each workload, in its first setting, the fastest precision and XLA against float32 without XLA.

    `cells`: title, about, precision, xla, speed, low, high, scope; a difference whose interval holds 1 is called none.
    """
    known = cells[cells["speed"].notna() & ((cells["precision"] != "float32") | (cells["xla"] != "none"))]
    settings = known.drop_duplicates("about")
    told = settings.drop_duplicates("title").head(MOST)["about"]
    found = []
    for about, group in known[known["about"].isin(told)].groupby("about", sort=False):
        best = group.sort_values("speed", kind="stable").iloc[-1].to_dict()
        name = f"{best['precision']} with xla {best['xla']}"
        if pd.isna(best["low"]):
            words, detail = f"{name} is fastest, {best['speed']:.2f}× of float32 without XLA.", "no interval"
        elif best["low"] > 1:
            words, detail = f"{name} is fastest, {best['speed']:.2f}× of float32 without XLA.", ""
        elif best["high"] < 1:
            words, detail = f"nothing beats float32 without XLA; {name} comes nearest with {best['speed']:.2f}×.", ""
        else:
            words, detail = f"no faster setting than float32 without XLA is shown; {name} has {best['speed']:.2f}×.", ""
        detail = detail or f"95 % interval {best['low']:.2f}–{best['high']:.2f}" + _within(best["scope"])
        found.append(Finding(str(about), words, detail))
    return found + _more(len(settings) - len(told), "setting", "Precision and XLA")


def _within(scope: object) -> str:
    return " within one trial" if scope == "within_trial" else ""


TROUBLE = "Failed and pruned"


def _classes(launches: pd.DataFrame) -> str:
    return ", ".join(f"{name} {count}" for name, count in launches["class"].value_counts(sort=False).items())


def doubts(
    cases: pd.DataFrame, failed: pd.DataFrame, retried: pd.DataFrame, single: int, missing: int = 0
) -> list[Finding]:
    """What a reader must know before trusting the rest. `single`: cases with one trial only; `missing`: never run."""
    found = []
    if missing:
        words = text.plural(missing, "case was", "cases were")
        found.append(Finding("", f"Interrupted: {words} not run; --resume does the rest.", tone="bad"))
    for status, words, tone in (
        ("INVALID", "INVALID: shown in the table, left out of every chart and comparison.", "bad"),
        ("SUSPECT", "SUSPECT: read the reasons before use.", "doubt"),
    ):
        count = int((cases["status"] == status).sum())
        if count:
            found.append(Finding("", f"{text.plural(count, 'case is', 'cases are')} {words}", tone=tone))
    if len(failed):
        words = f"{text.plural(len(failed), 'launch', 'launches')} failed ({_classes(failed)})."
        found.append(Finding("", words, tone="bad"))
    if len(retried):
        words = f"{text.plural(len(retried), 'launch', 'launches')} failed and went again ({_classes(retried)})."
        found.append(Finding("", words, f"listed under {TROUBLE}", tone="doubt"))
    if single:
        whose = "Every case has" if single == len(cases) else f"{text.plural(single, 'case has', 'cases have')}"
        found.append(
            Finding(
                "",
                f"{whose} one trial only: its interval is within that trial and does not show how launches differ.",
                tone="doubt",
            )
        )
    return found
