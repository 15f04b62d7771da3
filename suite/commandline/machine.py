"""Commands about a machine: what works on it, a first suite for it, its environment and what changed, its GEMM peak."""

import dataclasses
from pathlib import Path
from typing import Annotated, Any

import typer

from tfscale.suite import display
from tfscale.suite.commandline.common import FAILED, FINDING, GOOD, Json, answer, fail


def doctor(
    suite: Annotated[str | None, typer.Argument(help="A suite: can each of its cases run here?")] = None,
    seconds: Annotated[float, typer.Option(min=0, help="Seconds for what is tried; 0 only reads.")] = 25.0,
    record: Annotated[
        Path | None, typer.Option("--record", help="Write what was read, redacted, to this new folder.")
    ] = None,
    clean: Annotated[
        bool, typer.Option("--clean", help="Only remove what crashed netlab runs left, and say what that was.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Say what this machine is, what will work, what will not and why. Exits 1 where training or a case of SUITE fails.

    Example: tfscale doctor suites/quick.yaml
    """
    if clean:
        if suite is not None or record is not None:
            raise fail("--clean does nothing else: leave out the suite and --record")
        _clean(as_json)
        return
    from tfscale.suite import display_doctor
    from tfscale.suite.doctor import command

    try:
        with display_doctor.progress() as tell:
            found = command.run(suite, seconds=seconds, record=record, tell=tell)
    except (ValueError, FileNotFoundError, FileExistsError) as error:
        raise fail(str(error)) from error
    except OSError as error:
        raise fail(str(error), FAILED) from error
    if as_json:
        answer(found.model_dump(mode="json", by_alias=True))
    else:
        display_doctor.examination(found, display.out)
    raise typer.Exit(FINDING if found.failing(("training", "suite")) else GOOD)


def _clean(as_json: bool) -> None:
    from tfscale.suite import display_doctor
    from tfscale.suite.netlab import leftovers

    found = leftovers.clean()
    if as_json:
        answer({"schema": "tfscale.clean/1", **dataclasses.asdict(found)})
    else:
        display_doctor.cleaned(found, display.out)
    if found.failed:
        raise typer.Exit(FAILED)


def init(
    output: Annotated[Path, typer.Option("-o", "--output", help="The suite file to write.")] = Path("suite.yaml"),
    force: Annotated[bool, typer.Option("--force", help="Write over a file that is there.")] = False,
    as_json: Json = False,
) -> None:
    """Write a first suite that fits this machine.

    Example: tfscale init -o suite.yaml
    """
    from tfscale.suite import initial, rankfiles

    if output.exists() and not (force and output.is_file()):
        raise fail(f"{output} is there already; name another file with -o, or --force")
    text = initial.suite(initial.here())
    try:
        rankfiles.write_atomic(output.resolve(), text.encode())
    except OSError as error:
        raise fail(str(error), FAILED) from error
    if as_json:
        answer({"schema": "tfscale.init/1", "file": str(output), "suite": text})
    else:
        display.out.print(f"suite: {output}; look at its cases with `tfscale run {output} --dry-run`", soft_wrap=True)


def diff(
    before: Annotated[Path, typer.Argument(help="A run folder, a results folder (its newest run) or a record.")],
    after: Annotated[Path, typer.Argument(help="What to compare it with.")],
    as_json: Json = False,
) -> None:
    """Show what changed between the environments of two runs, what is likely to matter first.

    Example: tfscale diff results/RUN1 results/RUN2
    """
    from tfscale.suite import display_environment
    from tfscale.suite.environment.diff import Diff, differences

    (one, first), (other, second) = _environment_of(before), _environment_of(after)
    found = Diff(before=one, after=other, changes=tuple(differences(first, second)))
    if as_json:
        answer(found.model_dump(mode="json", by_alias=True))
    else:
        display_environment.difference(found, display.out)


def show_environment(path: Path | None, as_json: bool) -> None:
    """Print the environment of a run or record, of this machine where `path` is None."""
    from tfscale.suite import display_environment

    if path is None:
        from tfscale.suite.environment import capture

        of, found = "this machine", capture()
    else:
        of, found = _environment_of(path)
    document = {"schema": "tfscale.environment/1", "of": of, "environment": found}
    if as_json:
        answer(document)
    else:
        display_environment.environment(document, display.out)


def _environment_of(path: Path) -> tuple[str, dict[str, Any]]:
    from tfscale.suite.environment import stored

    try:
        return stored.environment_of(path)
    except (ValueError, OSError) as error:
        raise fail(str(error)) from error


def bench_gemm(
    budget_s: Annotated[float, typer.Option(min=1, help="Seconds to measure at most.")] = 60.0,
    cores: Annotated[int | None, typer.Option(min=1, help="CPU cores to use (default: all).")] = None,
    as_json: Json = False,
) -> None:
    """Measure the matrix-multiply peak per precision and XLA value.

    Example: tfscale bench gemm --budget-s 30
    """
    from tfscale.suite import microbench

    try:
        document = microbench.gemm(budget_s, cores)
    except ValueError as error:
        raise fail(str(error)) from error
    except RuntimeError as error:
        raise fail(str(error), FAILED) from error
    if as_json:
        answer(document)
    else:
        display.gemm(document, display.out)
