"""Commands beside the runs: input files for the workloads, and micro-benchmarks."""

from pathlib import Path
from typing import Annotated

import typer

from tfscale.suite import display
from tfscale.suite.commandline.common import FAILED, Json, answer, fail


def data_make(
    workload: Annotated[str, typer.Argument(help="bert, vit or recommender.")],
    source: Annotated[
        Path, typer.Option("--from", help="Text files (bert), images (vit), or a Criteo TSV (recommender).")
    ],
    out: Annotated[Path, typer.Option("--out", help="The folder to write; must not exist yet.")],
    preset: Annotated[
        str | None, typer.Option(help="Preset whose shapes the data must fit (default: the smallest).")
    ] = None,
    option: Annotated[
        list[str] | None, typer.Option(help="NAME=VALUE, an option of the workload's data; may be repeated.")
    ] = None,
    files: Annotated[int, typer.Option(min=1, help="TFRecord files to spread the records over.")] = 16,
    seed: Annotated[int, typer.Option(min=0, help="Seed of every random choice.")] = 0,
    as_json: Json = False,
) -> None:
    """Build TFRecord input for a workload from files of your own.

    Example: tfscale data make bert --from corpus/ --out data/bert --preset small
    """
    from tfscale.suite import workload as workloads
    from tfscale.workloads import make

    options = dict(text.partition("=")[::2] for text in option or ())
    try:
        chosen = preset or next(iter(workloads.load(workload).presets))
        with display.counter(f"{workload} records") as progress:
            manifest = make.make(
                workload, source, out, preset=chosen, options=options, seed=seed, files=files, progress=progress
            )
    except (ValueError, ImportError) as error:
        raise fail(str(error)) from error
    except OSError as error:
        raise fail(str(error), FAILED) from error
    document = manifest.model_dump(mode="json", by_alias=True)
    if as_json:
        answer({"schema": "tfscale.made/1", "folder": str(out), "manifest": document})
    else:
        display.out.print(f"{out}: {document['records']:,} records in {len(document['files'])} files", soft_wrap=True)


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
