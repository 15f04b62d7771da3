"""The command line: parse, call the suite or the reports, print. Nothing is measured or decided here.

Exit codes: 0 good, 1 a finding (an invalid or failed case), 2 usage or bad input, 3 something failed while running.
"""

import errno
import os
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from tfscale.suite import catalogue, display
from tfscale.suite.commandline import bench, formats, machine, placing
from tfscale.suite.commandline import compare as comparing
from tfscale.suite.commandline import detect as detecting
from tfscale.suite.commandline import gate as gating
from tfscale.suite.commandline.common import FAILED, FINDING, GOOD, Json, answer, fail
from tfscale.suite.display import err

app = typer.Typer(
    help="Benchmark and profile distributed TensorFlow training.",
    no_args_is_help=True,
    pretty_exceptions_show_locals=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
data_app = typer.Typer(help="Build input files for the workloads.", no_args_is_help=True)
bench_app = typer.Typer(help="Micro-benchmarks of what a train step is made of.", no_args_is_help=True)
app.add_typer(data_app, name="data")
app.add_typer(bench_app, name="bench")

Results = Annotated[Path, typer.Option("--results", help="Folder that keeps the results of all runs.")]


@app.command()
def run(
    suite: Annotated[
        str, typer.Argument(help="A suite file, or the name of a ready suite (see `tfscale list suites`).")
    ],
    results: Results = Path("results"),
    launcher: Annotated[str | None, typer.Option(help="How ranks start; overrides cluster.launcher.")] = None,
    hosts: Annotated[
        str | None, typer.Option(help="Hosts, separated by commas; overrides cluster.hosts (launcher ssh).")
    ] = None,
    only: Annotated[
        str | None, typer.Option(help="Run only cases that match, e.g. 'devices>=2,precision=float32'.")
    ] = None,
    trials: Annotated[int | None, typer.Option(min=1, help="Launches per case; overrides measure.trials.")] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Continue the newest run of this suite: only what is missing.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print the cases, the pruned ones and the device-hours.")
    ] = False,
    render: Annotated[
        bool, typer.Option("--render", help="Print what starts the run elsewhere (kubernetes, tpu_vm); start nothing.")
    ] = False,
    report: Annotated[
        Path | None, typer.Option("--report", "-o", help="Where the report goes (default: in the run folder).")
    ] = None,
    as_json: Json = False,
) -> None:
    """Run a suite and write its report.

    Example: tfscale run suites/quick.yaml --results results
    """
    if render:
        placing.render(suite, launcher, only, trials, resume, as_json)
        return
    from tfscale.suite import preparing

    try:
        plan = preparing.prepare(suite, expression=only, trials=trials, launcher=launcher, hosts=hosts)
    except (ValueError, OSError) as error:
        raise fail(str(error)) from error
    if dry_run:
        if as_json:
            answer(plan.dry_run_document())
        else:
            needed, failing = len(plan.needed), len(plan.recoveries)
            display.dry_run(plan.suite, plan.cases, plan.pruned, plan.device_hours, needed, display.out, failing)
        return
    from tfscale.suite import lanes, lock, running
    from tfscale.suite.launchers.errors import LaunchError

    told = (("--trials", trials), ("--launcher", launcher), ("--hosts", hosts))
    overrides = {option: str(value) for option, value in told if value}
    try:
        passed = {**overrides, **({"--report": str(report.resolve())} if report else {})}
        submitted = running.hand_over(plan, catalogue.find_suite(suite), results, only=only, options=passed)
        if submitted is not None:
            _tell_submitted(submitted.scheduler, submitted.job, results, as_json)
            return
        finished, folder = running.run(plan, results, resume=resume, overrides=overrides)
    except (running.NothingToResumeError, lock.HeldError, lanes.TooSmallError) as error:
        raise fail(str(error)) from error
    except (OSError, LaunchError) as error:
        raise fail(str(error), FAILED) from error
    if as_json:
        answer(finished.model_dump(mode="json", by_alias=True))
    else:
        display.summary(finished, display.out)
    try:
        page = _write_report(folder, report or folder / "report.html")
    except (ValueError, OSError) as error:
        raise fail(f"the results are stored in {folder}, but there is no report: {error}", FAILED) from error
    if not as_json:
        display.out.print(f"report: {page}", soft_wrap=True, highlight=False)
    raise typer.Exit(running.exit_code(finished))


def _tell_submitted(scheduler: str, job: str, results: Path, as_json: bool) -> None:
    if as_json:
        answer({"schema": "tfscale.submitted/1", "scheduler": scheduler, "job": job, "results": str(results.resolve())})
    else:
        display.out.print(f"{scheduler} job {job} will run it; results: {results}", soft_wrap=True, highlight=False)


@app.command()
def report(
    results: Annotated[Path, typer.Argument(help="A results folder, one run folder, or one record.")],
    output: Annotated[Path, typer.Option("-o", "--output", help="The HTML file to write.")] = Path("report.html"),
    as_json: Json = False,
) -> None:
    """Write one self-contained HTML page about the newest run in RESULTS.

    Example: tfscale report results -o report.html
    """
    try:
        page = _write_report(results, output)
    except (ValueError, FileNotFoundError) as error:
        raise fail(str(error)) from error
    except OSError as error:
        raise fail(str(error), FAILED) from error
    if as_json:
        answer({"schema": "tfscale.report/1", "file": str(page)})
    else:
        display.out.print(f"report: {page}", soft_wrap=True, highlight=False)


def _write_report(results: Path, output: Path) -> Path:
    from tfscale.reports import page
    from tfscale.suite import counters, rankfiles, store

    _check_page("-o", output)
    loaded = store.load_run(results)
    for warning in loaded.warnings:
        err.print(f"skipped: {warning}", style="yellow", markup=False, soft_wrap=True)
    series, unread = counters.kept(loaded.run.records, loaded.folders)
    for warning in unread:
        err.print(f"skipped: {warning}", style="yellow", markup=False, soft_wrap=True)
    others, before = store.other_runs(loaded.folder), store.run_before(loaded.folder)
    html = page.scaling_report(loaded.run, loaded.blocks, others, series, before)
    rankfiles.write_atomic(output.resolve(), html.encode())
    return output


def _check_page(option: str, output: Path) -> None:
    """Only a page is replaced: a trace or a record that was named by mistake is not. Raises ValueError."""
    if not output.exists():
        return
    if not output.is_file():
        raise ValueError(f"{option} {output} is not a file that can be replaced; name an HTML file")
    with output.open("rb") as stream:
        begin = stream.read(64).lstrip().lower()
    if begin and not begin.startswith((b"<!doctype html", b"<html")):
        raise ValueError(f"{option} {output} is not a page, and only pages are replaced; name an HTML file")


@app.command()
def compare(
    a: Annotated[str, typer.Argument(metavar="A", help="A results folder, run folder or record; a suite to run now.")],
    b: Annotated[
        str | None,
        typer.Argument(metavar="[B]", help="What to hold against it (default: A itself).", show_default=False),
    ] = None,
    by: Annotated[
        list[str] | None,
        typer.Option("--by", help="Axes in which cases are to differ, or hardware, clocks, software; may be repeated."),
    ] = None,
    only_a: Annotated[str | None, typer.Option("--a", help="Only cases of A that match, e.g. 'exchange=none'.")] = None,
    only_b: Annotated[str | None, typer.Option("--b", help="Only cases of B that match.")] = None,
    price: Annotated[
        list[str] | None,
        typer.Option("--price", help="Of a device and hour: A=2.50EUR/device-hour@2026-12; one a side."),
    ] = None,
    effect: Annotated[
        float, typer.Option("--effect", help="The difference to count trials for, where none is shown.")
    ] = 0.02,
    interleave: Annotated[
        bool,
        typer.Option("--interleave", help="Run the settings of suite A, or of A and B, now and in turns: A B B A."),
    ] = False,
    trials: Annotated[int | None, typer.Option(min=1, help="Pairs to run; overrides measure.trials.")] = None,
    launcher: Annotated[str | None, typer.Option(help="How ranks start; overrides cluster.launcher.")] = None,
    hosts: Annotated[
        str | None, typer.Option(help="Hosts, separated by commas; overrides cluster.hosts (launcher ssh).")
    ] = None,
    results: Results = Path("results"),
    csv: Annotated[Path | None, typer.Option("--csv", help="Write one line a case to this file.")] = None,
    report: Annotated[Path | None, typer.Option("--report", help="Write one self-contained page here.")] = None,
    strict: Annotated[bool, typer.Option("--strict", help="Exit 1 where the two are not comparable.")] = False,
    as_json: Json = False,
) -> None:
    """Compare two results or two settings: what differs, ratios with intervals, cost, energy, memory.

    Example: tfscale compare results/RUN1 results/RUN2 --price A=2.50EUR/device-hour@2026-12 --price B=3EUR/device-hour@2026-12
    """
    try:
        if csv is not None:
            comparing.check_csv(csv)
        if report is not None:
            _check_page("--report", report)
    except ValueError as error:
        raise fail(str(error)) from error
    found, code = comparing.compared(
        comparing.Asked(
            a, b, by or (), only_a, only_b, price or (), effect, interleave, trials, launcher, hosts, results
        )
    )
    if report is not None:
        _write_comparison_page(found, report)
    raise comparing.tell(found, code, as_json=as_json, csv=csv, strict=strict)


def _write_comparison_page(found: Any, output: Path) -> None:
    from tfscale.reports import comparison_page
    from tfscale.suite import rankfiles

    page = comparison_page.comparison_report(found)
    try:
        rankfiles.write_atomic(output.resolve(), page.encode("utf-8", "backslashreplace"))
    except OSError as error:
        raise fail(str(error), FAILED) from error
    err.print(f"page: {output}", soft_wrap=True, markup=False)


def _serve_trace(paths: list[Path], port: int) -> int:
    from tfscale.suite.profiling import plugin

    try:
        return FAILED if plugin.serve(paths, port) else GOOD
    except ValueError as error:
        raise fail(str(error)) from error


def _write_trace_page(found: Any, document: dict[str, Any], output: Path) -> None:
    from tfscale.reports import trace_page
    from tfscale.suite import rankfiles
    from tfscale.suite.profiling.strip import strips

    page = trace_page.trace_report(document, strips(found.analysed))
    try:
        rankfiles.write_atomic(output.resolve(), page.encode("utf-8", "backslashreplace"))
    except OSError as error:
        raise fail(str(error), FAILED) from error
    err.print(f"page: {output}", soft_wrap=True, markup=False)


@app.command("list")
def list_(
    what: Annotated[str, typer.Argument(help=f"One of {', '.join(catalogue.WHAT)}.")],
    as_json: Json = False,
) -> None:
    """List what a suite may name.

    Example: tfscale list workloads
    """
    try:
        rows = catalogue.rows(what)
    except ValueError as error:
        raise fail(str(error)) from error
    if as_json:
        answer({"schema": "tfscale.list/1", what: rows})
        return
    headings = list(rows[0]) if rows else ["name"]
    display.names(what, [[display.listed(row[h]) for h in headings] for row in rows], headings, display.out)


@app.command()
def show(
    path: Annotated[Path | None, typer.Argument(help="A record, or a folder that holds records.")] = None,
    schema: Annotated[bool, typer.Option("--schema", help="Print the JSON Schemas of all documents instead.")] = False,
    environment: Annotated[
        bool, typer.Option("--environment", help="Show the environment: of PATH, or without one of this machine.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Show records, or an environment.

    Example: tfscale show results
    """
    if schema:
        from tfscale.suite.schemas import schemas

        answer(schemas())
        return
    if environment:
        machine.show_environment(path, as_json)
        return
    if path is None:
        raise fail("show needs a record or a folder (or --schema)")
    from tfscale.suite import store

    try:
        found = store.find_records(path)
    except (ValueError, OSError) as error:
        raise fail(str(error)) from error
    for warning in found.warnings:
        err.print(f"skipped: {warning}", style="yellow", markup=False, soft_wrap=True)
    if not found.records:
        raise fail(f"no record in {path}")
    documents = [record.model_dump(mode="json", by_alias=True) for record in found.records]
    if as_json:
        answer(documents[0] if len(documents) == 1 else {"schema": "tfscale.records/1", "records": documents})
        return
    for record in found.records:
        display.record(record, display.out)


@app.command()
def trace(
    paths: Annotated[
        list[Path],
        typer.Argument(help="Trace files (.xplane.pb, Kineto .json[.gz]), profile folders, log folders, runs."),
    ],
    against: Annotated[Path | None, typer.Option("--against", help="A trace to compare with.")] = None,
    html: Annotated[Path | None, typer.Option("--html", help="Write one self-contained page here.")] = None,
    csv: Annotated[bool, typer.Option("--csv", help="Print one row a device and step.")] = False,
    strict: Annotated[
        bool, typer.Option("--strict", help="Exit 1 where more than 5 % of the device time is unclassified.")
    ] = False,
    drop_edges: Annotated[
        bool, typer.Option("--drop-edge-steps", help="Leave out the first and the last step of each device.")
    ] = False,
    sync_only: Annotated[
        bool, typer.Option("--no-async-windows", help="TPU: count asynchronous operations by start and done only.")
    ] = False,
    top: Annotated[int, typer.Option(min=1, help="Operations listed for each device.")] = 15,
    cross_check: Annotated[
        bool, typer.Option("--cross-check", help="Show XProf's own numbers beside ours (extra `profile`).")
    ] = False,
    open_: Annotated[
        bool, typer.Option("--open", help="Serve the traces in TensorBoard's profile plugin (extra `profile`).")
    ] = False,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port for --open.")] = 6006,
    as_json: Json = False,
) -> None:
    """Break every step of a trace into its parts.

    Example: tfscale trace logs/plugins/profile/2026_01_31_10_00_00
    """
    from tfscale.suite import display_trace
    from tfscale.suite.profiling import answer as tracing
    from tfscale.suite.profiling.honesty import UNCLASSIFIED_LIMIT

    if open_:
        raise typer.Exit(_serve_trace(paths, port))
    if as_json and csv:
        raise fail("--json and --csv both write to stdout; name one of them")
    options = tracing.Options(async_windows=not sync_only, edge_steps=not drop_edges, top=top)
    try:
        if html is not None:
            _check_page("--html", html)
        found = tracing.answer(paths, options)
        document = dict(found.document)
        if against is not None:
            document["against"] = tracing.compared(tracing.answer([against], options), found, top)
        if cross_check:
            from tfscale.suite.profiling import plugin

            document["xprof"] = plugin.cross_check(paths)
    except (ValueError, OSError) as error:
        raise fail(str(error)) from error
    if html is not None:
        _write_trace_page(found, document, html)
    if as_json:
        answer(document)
    elif csv:
        display.out.file.write(display_trace.as_csv(document))
    else:
        display_trace.show(document, display.out)
    share = document["honesty"]["unclassified_share"]
    if strict and share is not None and share > UNCLASSIFIED_LIMIT:
        raise typer.Exit(FINDING)


@app.command()
def gate(
    results: Annotated[Path, typer.Argument(help="A results folder; or a run in one, which is then the last night.")],
    baseline: Annotated[
        str | None, typer.Option("--baseline", help="A run to compare with, instead of each case's own history.")
    ] = None,
    baseline_name: Annotated[
        str | None, typer.Option("--baseline-name", help="A run that --save-baseline gave a name.")
    ] = None,
    save_baseline: Annotated[
        str | None, typer.Option("--save-baseline", help="Give the newest run, or that of --baseline, a name.")
    ] = None,
    accept: Annotated[
        str | None, typer.Option("--accept", help="Id of a case whose change is meant; no longer reported.")
    ] = None,
    reason: Annotated[str | None, typer.Option("--reason", help="Why it is meant; goes with --accept.")] = None,
    suite: Annotated[str | None, typer.Option("--suite", help="Judge the runs of this suite only.")] = None,
    min_effect: Annotated[
        float, typer.Option(min=0.0, max=1.0, help="Least change of throughput that matters, as a fraction.")
    ] = 0.02,
    false_discoveries: Annotated[
        float, typer.Option(min=0.0001, max=0.5, help="False-discovery rate over the cases of a machine.")
    ] = 0.05,
    expect_every: Annotated[
        float | None, typer.Option(min=0.0, help="Hours after which a history without a new result is missing.")
    ] = None,
    canary: Annotated[
        bool, typer.Option("--canary", help="Measure the gate's own false alarms on pairs that differ in seed alone.")
    ] = False,
    operations: Annotated[int, typer.Option(min=0, help="Findings whose profiles are read for what grew.")] = 3,
    junit: Annotated[Path | None, typer.Option("--junit", help="Write JUnit XML here.")] = None,
    summary: Annotated[Path | None, typer.Option("--summary", help="Append a Markdown summary to this file.")] = None,
    csv: Annotated[Path | None, typer.Option("--csv", help="Write one row a series here.")] = None,
    report: Annotated[Path | None, typer.Option("--report", "-o", help="Write the nightly page here.")] = None,
    as_json: Json = False,
) -> None:
    """Say whether last night got slower, where, since when, and what changed. Exits 1 on a regression or a missing case.

    Example: tfscale gate results --junit gate.xml --summary summary.md
    """
    asked = gating.Asked(
        results, baseline, baseline_name, save_baseline, accept, reason, suite, min_effect, false_discoveries,
        expect_every, canary, operations, junit, summary, csv, as_json,
    )  # fmt: skip
    if report is not None:
        try:
            _check_page("--report", report)
        except ValueError as error:
            raise fail(str(error)) from error
    found = gating.judged(asked)
    gating.tell(asked, found)
    if report is not None:
        _write_gate_page(found, report)
    raise gating.code(found)


def _write_gate_page(found: Any, output: Path) -> None:
    from tfscale.reports import nightly_page
    from tfscale.suite import rankfiles
    from tfscale.suite.nightly.charted import charted

    page = nightly_page.nightly_report(found.gate, charted(found))
    try:
        rankfiles.write_atomic(output.resolve(), page.encode("utf-8", "backslashreplace"))
    except OSError as error:
        raise fail(str(error), FAILED) from error
    err.print(f"page: {output}", soft_wrap=True, markup=False)


@data_app.command("make")
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


app.command()(machine.doctor)
app.command()(detecting.detect)
app.command()(machine.init)
app.command()(machine.diff)
app.command()(formats.export)
app.command("import")(formats.import_)
bench_app.command("gemm")(machine.bench_gemm)
bench_app.command("collectives")(bench.collectives)


def main() -> None:
    """Entry point of the console script; a closed pipe (`tfscale list workloads | head`) is no error."""
    try:
        try:
            app(prog_name="tfscale")
        finally:
            sys.stdout.flush()
    except OSError as error:
        if not isinstance(error, BrokenPipeError) and error.errno != errno.ENOSPC:
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # or the interpreter complains when it ends
        if isinstance(error, BrokenPipeError):
            raise SystemExit(GOOD) from None
        raise SystemExit(fail(f"standard output: {error.strerror}", FAILED).exit_code) from None


if __name__ == "__main__":
    main()
