"""What two settings that are to run in turns come to: their cases, who stands against whom, and every pair of launches."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import yaml

from tfscale.suite import preparing
from tfscale.suite.compare.forms import PARTS, Pair, Pairing
from tfscale.suite.compare.matching import against_first, differing, names_of
from tfscale.suite.preparing import Prepared
from tfscale.suite.spec import Case, Suite

Opponents = tuple[Case, Case]
MEASURED_ALIKE = ("measure", "profile", "monitors", "target_loss", "cluster")


@dataclass(frozen=True)
class Contest:
    """What is to be run: the cases, who stands against whom, and what the two sides are called."""

    prepared: Prepared
    opponents: list[Opponents]
    names: tuple[str, str]
    by: tuple[str, ...]

    @property
    def pairing(self) -> Pairing:
        """The launches, a pair after the other; A is first in every other pair, so that their number is made even."""
        trials = self.prepared.suite.measure.trials
        return Pairing(a=self.names[0], b=self.names[1], by=self.by, pairs=tuple(pairs(self.opponents, trials)))


def pairs(opponents: Sequence[Opponents], trials: int) -> list[Pair]:
    """`trials` pairs, one more where that is odd, of each two opponents: A B, B A, A B, ...

    A case's launches are numbered as they come; of a case that stands against itself, A and B take numbers in turn.
    """
    used: dict[str, int] = {}

    def number(case: Case) -> int:
        used[case.id] = used.get(case.id, -1) + 1
        return used[case.id]

    made = []
    for a, b in opponents:
        for turn in range(trials + trials % 2):
            first, second = number(a), number(b)
            made.append(Pair(first="BA"[turn % 2 == 0], case_a=a.id, trial_a=first, case_b=b.id, trial_b=second))
    return made


def prepare(
    names: Sequence[str],
    by: Sequence[str],
    *,
    expression: str | None,
    trials: int | None,
    launcher: str | None,
    hosts: str | None = None,
) -> Contest:
    """One suite whose cases differ in the axes `by`, or two suites; a case alone, or a suite twice, is an A/A comparison.

    Raises ValueError or OSError saying what is wrong.
    """
    if named := [name for name in by if name in PARTS]:
        raise ValueError(f"--by {named[0]}: both settings run on this machine; name axes of the cases")
    suites = [
        preparing.prepare(name, expression=expression, trials=trials, launcher=launcher, hosts=hosts)
        for name in dict.fromkeys(names)
    ]
    if len(names) == 2 and len(suites) == 1:  # the same suite twice: every case against itself
        return Contest(suites[0], [(case, case) for case in suites[0].cases], ("A", "B"), tuple(by))
    if len(suites) == 1:
        opponents = _within(suites[0], by)
        return Contest(
            _only_those(suites[0], opponents), opponents, names_of([_differing(a, b) for a, b in opponents]), tuple(by)
        )
    return _of_two(suites[0], suites[1], by)


def _within(prepared: Prepared, by: Sequence[str]) -> list[Opponents]:
    cases = prepared.cases
    if not by and len(cases) <= 2 and cases:
        return [(cases[0], cases[-1])]
    found = against_first([case.model_dump(mode="json") for case in cases], set(by)) if by else []
    if found:
        return [(cases[a], cases[b]) for a, b in found]
    pruned = f"; {len(prepared.pruned)} were pruned: {prepared.pruned[0].reason}" if prepared.pruned else ""
    varying = sorted({axis for a in cases for b in cases for axis in _differing(a, b)})
    asked = (
        f"no two differ in exactly {', '.join(by)}"
        if by
        else "two are wanted, or --by with the axes that set A and B apart"
    )
    raise ValueError(
        f"{prepared.suite.name} has {len(cases)} cases that differ in {', '.join(varying) or 'nothing'}: {asked}{pruned}"
    )


def _of_two(a: Prepared, b: Prepared, by: Sequence[str]) -> Contest:
    """The cases of two suites against each other: those that differ in exactly `by`, else the n-th against the n-th."""
    for what in MEASURED_ALIKE:
        one, other = (_alike(prepared.suite, what) for prepared in (a, b))
        if one != other:
            raise ValueError(
                f"A and B must be measured alike: {what} is {one} in {a.suite.name}, {other} in {b.suite.name}"
            )
    if by:
        opponents = [(one, other) for one in a.cases for other in b.cases if set(_differing(one, other)) == set(by)]
        if not opponents:
            raise ValueError(f"no case of {a.suite.name} and {b.suite.name} differ in exactly {', '.join(by)}")
    elif a.pruned or b.pruned or len(a.cases) != len(b.cases) or not a.cases:
        reasons = "".join(
            f"; {len(p.pruned)} of {p.suite.name} were pruned: {p.pruned[0].reason}" for p in (a, b) if p.pruned
        )
        raise ValueError(
            f"{a.suite.name} has {len(a.cases)} cases that can run here, {b.suite.name} has {len(b.cases)}: the n-th "
            f"stands against the n-th; make them as many, or name the axes that set them apart with --by{reasons}"
        )
    else:
        opponents = list(zip(a.cases, b.cases, strict=True))
    names = (a.suite.name, b.suite.name) if a.suite.name != b.suite.name else ("A", "B")
    return Contest(_joined(a, opponents, names), opponents, names, tuple(by))


def _only_those(prepared: Prepared, opponents: Sequence[Opponents]) -> Prepared:
    """The suite as it is, with the cases that stand against another."""
    wanted = {case.id for both in opponents for case in both}
    return replace(prepared, cases=[case for case in prepared.cases if case.id in wanted])


def _joined(prepared: Prepared, opponents: Sequence[Opponents], names: tuple[str, str]) -> Prepared:
    """One suite of all the cases, with a text that `tfscale run` would take."""
    cases = list({case.id: case for both in opponents for case in both}.values())
    name = f"{names[0]}-vs-{names[1]}"[:100]
    suite = prepared.suite.model_copy(update={"name": name, "cases": tuple(cases)})
    return Prepared(suite, _text(suite), cases, [])


def _text(suite: Suite) -> str:
    include = [{**case.axes(), **({"hosts": case.hosts} if case.topology else {})} for case in suite.cases]
    document = {
        "name": suite.name,
        "description": "Two settings that were run in turns.",
        "include": include,
        "measure": suite.measure.model_dump(mode="json", exclude_defaults=True),
        "profile": suite.profile.model_dump(mode="json") if suite.profile else False,
        "target_loss": suite.target_loss.model_dump(mode="json") if suite.target_loss else False,
        "monitors": list(suite.monitors) or False,
        "cluster": suite.cluster.model_dump(mode="json", exclude_defaults=True, exclude={"topology"}),
    }
    return yaml.safe_dump(document, sort_keys=False)


def _alike(suite: Suite, what: str) -> object:
    value = getattr(suite, what)
    return value.model_copy(update={"topology": None}) if what == "cluster" else value  # a topology is the cases' own


def _differing(a: Case, b: Case) -> Mapping[str, tuple[object, object]]:
    return differing(a.model_dump(mode="json"), b.model_dump(mode="json"))
