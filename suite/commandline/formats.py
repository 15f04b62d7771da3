"""`tfscale export` and `tfscale import`: options, and what is printed."""

from pathlib import Path
from typing import Annotated

import typer

from tfscale.suite import display
from tfscale.suite.commandline.common import FAILED, Json, answer, fail

Name = Annotated[str, typer.Option("--format", "-f", help="One of `tfscale list formats`.")]


def export(
    results: Annotated[Path, typer.Argument(help="A results folder, one run folder, or one record.")],
    format_: Name,
    output: Annotated[Path, typer.Option("-o", "--output", help="The file to write; for tensorboard, the folder.")],
    as_json: Json = False,
) -> None:
    """Write results in another tool's format, and say what that cannot hold.

    Example: tfscale export results --format google-benchmark -o night.json
    """
    from tfscale.suite.formats import transfer

    try:
        done = transfer.export(results, format_, output)
    except (ValueError, FileNotFoundError) as error:
        raise fail(str(error)) from error
    except OSError as error:
        raise fail(str(error), FAILED) from error
    for warning in done.skipped:
        display.err.print(f"skipped: {warning}", style="yellow", markup=False, soft_wrap=True)
    _tell_lost(done.lost)
    if as_json:
        answer(done.model_dump(mode="json", by_alias=True))
    else:
        what = f"{len(done.records)} records of {len(done.runs)} run(s) in {done.files} file(s)"
        display.out.print(f"{done.file}: {what}", markup=False, soft_wrap=True)


def import_(
    file: Annotated[Path, typer.Argument(help="A file that another tool wrote.")],
    format_: Name,
    results: Annotated[
        Path, typer.Option("--results", help="Results folder; imports go to its folder `imported`.")
    ] = Path("results"),
    option: Annotated[
        list[str] | None, typer.Option("--option", help="NAME=VALUE, what the file does not say; may be repeated.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Read another tool's file into documents that say where their numbers come from.

    Example: tfscale import all_reduce.txt --format nccl-tests --results results
    """
    from tfscale.suite.formats import transfer

    try:
        done = transfer.import_(file, format_, results, dict(_pair(text) for text in option or ()))
    except (ValueError, FileNotFoundError) as error:
        raise fail(str(error)) from error
    except OSError as error:
        raise fail(str(error), FAILED) from error
    for note in done.notes:
        display.err.print(f"note: {note}", style="yellow", markup=False, soft_wrap=True)
    _tell_lost(done.lost)
    if as_json:
        answer(done.model_dump(mode="json", by_alias=True))
        return
    for path in done.files:
        display.out.print(path, markup=False, soft_wrap=True)
    display.out.print(f"{done.rows} rows from {done.origin.file}", markup=False, soft_wrap=True)
    if done.series:
        display.out.print(f"{done.series}: the values over time, for `tfscale detect`", markup=False, soft_wrap=True)


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise ValueError(f"--option {text!r} is not of the form NAME=VALUE")
    return name, value


def _tell_lost(lost: tuple[str, ...]) -> None:
    if lost:
        display.err.print(f"not in it: {'; '.join(lost)}", markup=False, soft_wrap=True)
