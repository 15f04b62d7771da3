"""`tfscale compare`: from options to the document of the comparison."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from tfscale.suite import display
from tfscale.suite.commandline.common import FAILED, FINDING, GOOD, answer, fail

if TYPE_CHECKING:
    from tfscale.suite.analysis.cost import Price
    from tfscale.suite.compare.contest import Contest
    from tfscale.suite.compare.forms import Comparison

_CSV_BEGINS = b"title,case_a,"


@dataclass(frozen=True)
class Asked:
    """The options, as they were given."""

    a: str
    b: str | None
    by: Sequence[str]
    only_a: str | None
    only_b: str | None
    prices: Sequence[str]
    effect: float
    interleave: bool
    trials: int | None
    launcher: str | None
    hosts: str | None
    results: Path


def compared(asked: Asked) -> "tuple[Comparison, int]":
    """The comparison that was asked for, and the exit code so far; raises typer.Exit where it cannot be had."""
    from tfscale.suite.analysis.cost import parse_prices
    from tfscale.suite.compare.matching import check_by

    try:
        if not 0 < asked.effect < 1:
            raise ValueError(f"--effect {asked.effect!r} is not between 0 and 1; 0.02 asks for 2 %")
        by, prices = check_by(asked.by), parse_prices(asked.prices)
        if not asked.interleave and (asked.trials or asked.launcher or asked.hosts):
            raise ValueError("--trials, --launcher and --hosts are for what is run now; add --interleave")
        if not asked.interleave:
            return _stored(asked, by, prices), GOOD
        planned = _planned(asked, by)
    except (ValueError, OSError) as error:
        raise fail(str(error)) from error
    return _run_now(planned, asked, prices)


def _stored(asked: Asked, by: Sequence[str], prices: "dict[str, Price]") -> "Comparison":
    from tfscale.suite.compare import assembling, sides

    for path in (asked.a, asked.b):
        if path is not None and path.endswith((".yaml", ".yml")):
            raise ValueError(f"{path} is a suite, which is yet to be run: add --interleave, or name its results")
    one = sides.load(Path(asked.a), asked.only_a)
    if asked.b is not None:
        return assembling.results(one, sides.load(Path(asked.b), asked.only_b), by, prices, asked.effect)
    if by:
        return assembling.results(
            one, sides.load(Path(asked.a), asked.only_b or asked.only_a), by, prices, asked.effect
        )
    if one.pairing is None:
        raise ValueError(
            f"{asked.a} stands alone: name B, or --by and the axes in which its own cases are to differ "
            "(a run that was made with --interleave needs neither)"
        )
    return assembling.of_pairs(one, prices, asked.effect)


def _planned(asked: Asked, by: Sequence[str]) -> "Contest":
    from tfscale.suite.compare import contest

    if asked.only_b:
        raise ValueError("--b chooses cases of stored results; with --interleave, --a filters the suites' cases")
    names = [asked.a, *([asked.b] if asked.b is not None else [])]
    return contest.prepare(
        names, by, expression=asked.only_a, trials=asked.trials, launcher=asked.launcher, hosts=asked.hosts
    )


def _run_now(planned: "Contest", asked: Asked, prices: "dict[str, Price]") -> "tuple[Comparison, int]":
    from tfscale.suite.compare import assembling, interleave, sides
    from tfscale.suite.launchers.errors import LaunchError

    told = (("--trials", asked.trials), ("--launcher", asked.launcher), ("--hosts", asked.hosts))
    overrides = {option: str(value) for option, value in told if value}
    try:
        finished, folder = interleave.run(planned, asked.results, overrides)
    except (OSError, LaunchError) as error:
        raise fail(str(error), FAILED) from error
    for failure in finished.failed:
        words = f"failed: {display.brief(failure.case)}: {failure.classification}: {failure.reason}"
        display.err.print(words, markup=False, soft_wrap=True)
    display.err.print(f"results: {folder}", soft_wrap=True, markup=False)
    try:
        found = assembling.of_pairs(sides.load(folder), prices, asked.effect)
    except (ValueError, OSError) as error:
        raise fail(str(error), FAILED) from error
    if not finished.missing:
        return found, GOOD
    note = "the run was interrupted: the pairs that were whole are compared"
    return found.model_copy(update={"notes": (*found.notes, note)}), FAILED


def tell(found: "Comparison", code: int, *, as_json: bool, csv: Path | None, strict: bool) -> typer.Exit:
    """Print the comparison, write its CSV file, and give the exit to raise."""
    from tfscale.suite import display_compare

    if csv is not None:
        _write_csv(csv, display_compare.as_csv(found))
    if as_json:
        answer(found.model_dump(mode="json", by_alias=True))
    else:
        display_compare.comparison(found, display.out)
    comparable = found.comparability.fair and any(row.verdict != "not_compared" for row in found.rows)
    return typer.Exit(code or (FINDING if strict and not comparable else GOOD))


def check_csv(path: Path) -> None:
    """Only a table of ours is replaced: a record that was named by mistake is not. Raises ValueError."""
    if not path.exists():
        return
    if not path.is_file():
        raise ValueError(f"--csv {path} is not a file that can be replaced; name a CSV file")
    with path.open("rb") as stream:
        begin = stream.read(len(_CSV_BEGINS))
    if begin and begin != _CSV_BEGINS:
        raise ValueError(f"--csv {path} is not a table of a comparison, and only those are replaced; name another file")


def _write_csv(path: Path, text: str) -> None:
    from tfscale.suite import rankfiles

    try:
        rankfiles.write_atomic(path.resolve(), text.encode("utf-8", "backslashreplace"))
    except OSError as error:
        raise fail(str(error), FAILED) from error
    display.err.print(f"table: {path}", soft_wrap=True, markup=False)
