"""From two loaded results, or a run of pairs, to the document of the comparison. Reads nothing."""

from collections.abc import Sequence
from typing import Literal

from tfscale.suite.analysis.comparison import EFFECT
from tfscale.suite.compare import rows
from tfscale.suite.compare.comparability import comparability
from tfscale.suite.compare.forms import Comparison, Unmatched
from tfscale.suite.compare.matching import Matched, differing, match, names_of, nothing_matches, pairs
from tfscale.suite.compare.rows import Prices
from tfscale.suite.compare.sides import Loaded, side
from tfscale.suite.display import brief
from tfscale.suite.record import Failure


def results(a: Loaded, b: Loaded, by: Sequence[str], prices: Prices, effect: float = EFFECT) -> Comparison:
    """Two results, or the cases of one that differ in the axes `by`. Raises ValueError where no case matches."""
    same = a.path.resolve() == b.path.resolve()
    matched = match(a.cases, b.cases, by, same=same)
    if not matched:
        raise ValueError(nothing_matches(a.cases, b.cases, by, same=same))
    names = names_of([differing(one.a[0].case, one.b[0].case) for one in matched]) if same else (None, None)
    where = "the result" if same else "the other side"
    alone = f"no case of {where} differs from it in exactly {', '.join(by)}" if by else f"{where} has no such case"
    return _document(a, b, names, tuple(by), matched, prices, effect, alone)


def of_pairs(run: Loaded, prices: Prices, effect: float = EFFECT) -> Comparison:
    """The two settings of a run that was made in turns. Raises ValueError where no pair is whole."""
    assert run.pairing is not None, "only a run of pairs has a pairing"
    matched, notes = pairs(run.cases, run.pairing)
    if not matched:
        raise ValueError(f"{run.path}: no pair has both launches on record" + "".join(f"; {note}" for note in notes))
    names = (run.pairing.a, run.pairing.b)
    found = _document(run, run, names, run.pairing.by, matched, prices, effect, "its pairs lack the other setting")
    return found.model_copy(update={"notes": (*found.notes, *notes)})


def _document(
    a: Loaded,
    b: Loaded,
    names: tuple[str | None, str | None],
    by: tuple[str, ...],
    matched: Sequence[Matched],
    prices: Prices,
    effect: float,
    alone: str,
) -> Comparison:
    curves = (a.curves, b.curves)
    trained = {case for side_ in curves for curve in side_ for case in curve.stands_for}
    made = [rows.row(one, prices, curves, effect) for one in matched]
    return Comparison(
        a=side(_part(a, [one.a[0].case_id for one in matched]), names[0]),
        b=side(_part(b, [one.b[0].case_id for one in matched]), names[1]),
        by=by,
        comparability=comparability(matched, by, trained),
        rows=tuple(made),
        means=tuple(rows.means(made, matched)),
        money=rows.money(made, matched, prices),
        unmatched=tuple(_unmatched(a, b, matched, alone)),
        notes=tuple(dict.fromkeys([*a.notes, *b.notes])),
    )


def _part(loaded: Loaded, ids: Sequence[str]) -> Loaded:
    """Only the cases that are in the comparison: in one result, A and B are parts of it."""
    return Loaded(loaded.path, {case: trials for case, trials in loaded.cases.items() if case in ids})


def _unmatched(a: Loaded, b: Loaded, matched: Sequence[Matched], alone: str) -> list[Unmatched]:
    same = a.path.resolve() == b.path.resolve()
    used = {"A": {one.a[0].case_id for one in matched}, "B": {one.b[0].case_id for one in matched}}
    if same:
        used["A"] = used["B"] = used["A"] | used["B"]
    sides: list[tuple[Literal["A", "B"], Loaded, Loaded]] = [("A", a, b)] if same else [("A", a, b), ("B", b, a)]
    found = []
    for name, mine, other in sides:
        failed = {failure.case_id: failure for failure in other.failures}
        for case, trials in mine.cases.items():
            if case not in used[name]:
                reason = _failed(failed[case]) if case in failed else alone
                found.append(Unmatched(side=name, case_id=case, title=brief(trials[0].case), reason=reason))
        ended = {case: failure for failure in mine.failures if (case := failure.case_id) not in mine.cases}
        for case, failure in ended.items():
            found.append(Unmatched(side=name, case_id=case, title=brief(failure.case), reason=_failed(failure)))
    return found


def _failed(failure: Failure) -> str:
    return f"failed: {failure.classification}: {failure.reason}"
