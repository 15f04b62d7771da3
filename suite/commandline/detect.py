"""`tfscale detect`: change points of any series in a file."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from tfscale.suite import display
from tfscale.suite.commandline.common import FINDING, GOOD, Json, answer, fail


def detect(
    series: Annotated[Path, typer.Argument(help="CSV (one series a column) or JSON (a list, or name: list).")],
    direction: Annotated[
        Literal["lower_is_better", "higher_is_better"] | None,
        typer.Option(help="Which way is better; without it a change is neither regressed nor improved."),
    ] = None,
    min_effect: Annotated[float, typer.Option(min=0.0, max=0.99, help="Smallest relative change that matters.")] = 0.02,
    as_json: Json = False,
) -> None:
    """Find the points at which a series moved to another level; exit code 1 where one did recently.

    Example: tfscale detect step-times.csv --direction lower_is_better
    """
    from tfscale.suite import detecting

    try:
        found = detecting.detect(series, min_effect=min_effect, direction=direction)
    except detecting.SeriesError as error:
        raise fail(str(error)) from error
    if as_json:
        answer(found.model_dump(mode="json", by_alias=True))
    else:
        for one in found.series:
            display.out.print(f"{one.name}: {one.verdict} ({one.reason})", markup=False, soft_wrap=True)
            for step in one.changes:
                change = "" if step.ratio is None else f" ({step.ratio - 1:+.1%})"
                told = f", {step.outcome}" if step.outcome else ""
                line = f"  from point {step.index}: {step.before:.6g} -> {step.after:.6g}{change}{told}, p {step.p:.1g}"
                display.out.print(line, markup=False, soft_wrap=True)
            if one.outliers:
                places = ", ".join(map(str, one.outliers[:20])) + (", ..." if len(one.outliers) > 20 else "")
                display.out.print(f"  outliers: {places}", markup=False, soft_wrap=True)
    raise typer.Exit(FINDING if any(one.verdict == "changed" for one in found.series) else GOOD)
