"""nccl-tests' text: layouts of several years, launchers' prefixes, and bandwidths against what nccl-tests printed."""

from pathlib import Path

import pytest

from tfscale.suite.benchforms import BenchCollectives
from tfscale.suite.formats import transfer
from tfscale.suite.formats.base import FormatError
from tfscale.suite.formats.forms import ImportAnswer

NEW = "#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong"
OLD = "#       size         count    type   redop     time   algbw   busbw  error     time   algbw   busbw  error"
OLD_GATHER = "#       size         count    type     time   algbw   busbw  error     time   algbw   busbw  error"
STATS = "    i_min    i_max    i_p99    i_cv%"
NEW_STATS = NEW.replace("#wrong", f"#wrong{STATS}") + "            timestamp"


def ranks(n: int, hosts: int, grouped: bool = True) -> str:
    group = "Group  0 " if grouped else ""
    return "".join(
        f"#  Rank {r:2d} {group}Pid {4000 + r:6d} on node{r * hosts // n:02d} device  {r % 8} [0000:0{r % 8}:00] Test GPU\n"
        for r in range(n)
    )


def head(n: int, hosts: int, program: str | None = "all_reduce", grouped: bool = True) -> str:
    named = f"$ mpirun -np {n} ./build/{program}_perf -b 1M -e 8G\n" if program else ""
    settings = (
        "# nThread 1 nGpus 1 minBytes 8 maxBytes 8589934592 step: 2(factor) warmup iters: 5 iters: 20 agg iters: 1\n"
    )
    return f"{named}{settings}#\n# Using devices\n{ranks(n, hosts, grouped)}#\n"


def import_text(tmp_path: Path, text: str, name: str = "out.txt", **options: str) -> ImportAnswer:
    (tmp_path / name).write_text(text)
    return transfer.import_(tmp_path / name, "nccl-tests", tmp_path / "results", options)


def documents(answer: ImportAnswer) -> list[BenchCollectives]:
    return [BenchCollectives.model_validate_json(Path(file).read_bytes()) for file in answer.files]


# Operation, ranks, size, microseconds and bus bandwidth in GB/s as nccl-tests itself printed them (16 H100, 4 V100).
PRINTED = [("all_reduce", 16, 8589934592, "47535", 338.82), ("all_reduce", 16, 1048576, "203.2", 9.68)]


@pytest.mark.parametrize(("operation", "n", "size", "time", "bus"), PRINTED)
def test_bus_bandwidth_is_what_nccl_tests_prints(
    tmp_path: Path, operation: str, n: int, size: int, time: str, bus: float
) -> None:
    row = f"{size} {size // 4} float sum -1 {time} 1.00 {bus:.2f} 0 {time} 1.00 {bus:.2f} 0"
    answer = import_text(tmp_path, f"{head(n, 2, operation)}{NEW}\n{row}\n")
    found = documents(answer)[0].rows[0]
    assert found.bus_bandwidth.value is not None
    assert found.bus_bandwidth.value / 1e9 == pytest.approx(bus, abs=0.02)
    assert not answer.notes


@pytest.mark.parametrize(
    ("program", "ours", "share"),
    [
        ("all_reduce", "all_reduce", 2 * 3 / 4),
        ("all_gather", "all_gather", 3 / 4),
        ("reduce_scatter", "reduce_scatter", 3 / 4),
        ("alltoall", "all_to_all", 3 / 4),
        ("broadcast", "broadcast", 1),
    ],
)
def test_every_operation_in_both_placements(tmp_path: Path, program: str, ours: str, share: float) -> None:
    redop, root = ("sum" if "reduce" in program else "none"), (0 if program == "broadcast" else -1)
    rows = []
    for size in (0, 100_000, 1_000_000, 10_000_000):
        times = (size / 1e4 + 10, size / 1e4 + 20)
        one, other = (f"{time:7.1f}  1.00 {size * share / time / 1e3:.2f}" for time in times)
        rows.append(f"  {size:12d} {size // 4:12d}   float  {redop:>6s}  {root:6d}  {one}  0  {other}  N/A")
    answer = import_text(tmp_path, "\n".join([head(4, 1, program) + NEW, *rows, "# Avg bus bandwidth    : 3"]))
    out, in_place = documents(answer)
    assert (out.out_of_place, in_place.out_of_place) == (True, False)
    assert (out.level, out.ranks, out.hosts, out.launcher) == ("library", 4, 1, "nccl-tests")
    assert out.imported is not None and out.imported.file == "out.txt"
    assert [row.size for row in out.rows] == [100_000, 1_000_000, 10_000_000]
    assert {row.operation for row in out.rows} == {ours}
    assert [row.seconds.value for row in in_place.rows] == pytest.approx([30e-6, 120e-6, 1020e-6])
    last = out.rows[-1]
    assert (last.seconds.kind, last.bus_bandwidth.kind, last.seconds.n_samples) == ("measured", "derived", 20)
    assert last.bus_bandwidth.value == pytest.approx(1e7 / 1010e-6 * share)
    assert last.wrong == 0 and in_place.rows[0].wrong is None
    assert any("1 rows of size 0" in lost for lost in answer.lost)
    assert not answer.notes
    (link,) = out.links
    assert link.latency.value is not None and link.latency.value > 0


def test_old_layouts_have_a_deviation_in_place_of_wrong_elements(tmp_path: Path) -> None:
    text = f"{head(2, 1, 'all_reduce', grouped=False)}{OLD}\n 1024 256 float sum 10.00 0.10 0.10 1e-07 20.00 0.05 0.05 N/A\n"
    out, in_place = documents(import_text(tmp_path, text))
    assert (out.rows[0].deviation, out.rows[0].wrong, in_place.rows[0].deviation) == (1e-07, None, None)
    row = "1024 128 float 10.00 0.10 0.05 0e+00 20.00 0.05 0.03 0e+00"
    text = f"{head(2, 1, 'all_gather', grouped=False)}{OLD_GATHER}\n{row}\n"
    assert documents(import_text(tmp_path, text))[0].rows[0].reduction is None


def test_iteration_columns_and_time_stamps_are_named_as_lost(tmp_path: Path) -> None:
    cells = "1024 256 float sum -1 10.00 0.10 0.10 0 9.00 12.00 11.00 1.20 20.00 0.05 0.05 0 19.00 21.00 20.50 1.10"
    answer = import_text(tmp_path, f"{head(2, 1)}{NEW_STATS}\n{cells} 2026-09-26 10:00:00\n")
    assert [d.rows[0].seconds.value for d in documents(answer)] == pytest.approx([10e-6, 20e-6])
    assert any("i_min" in lost and "timestamp" in lost for lost in answer.lost)


@pytest.mark.parametrize("prefix", ["0: ", "[0] ", "[1,0]<stdout>:", "[1,0]<stdout>: ", "node-01: ", "> "])
def test_a_launchers_prefix_may_stand_before_each_line(tmp_path: Path, prefix: str) -> None:
    row = " 1024 256 float sum -1 10.00 0.10 0.15 0 20.00 0.05 0.08 0"
    lines = f"{head(4, 2)}{NEW}\nnode01:14:19 [0] NCCL INFO Launch mode Parallel\n{row}".splitlines()
    out, _ = documents(import_text(tmp_path, "\n".join(prefix + line for line in lines)))
    assert (out.ranks, out.hosts, out.rows[0].size) == (4, 2, 1024)
    assert out.environment["hosts"] == ["node00", "node01"]


def test_several_tests_in_one_file_are_kept_apart(tmp_path: Path) -> None:
    row = " 1024 256 float sum -1 10.00 0.10 0.10 0 20.00 0.05 0.05 0"
    gather = " 1024 128 float none -1 10.00 0.10 0.05 0 20.00 0.05 0.03 0"
    text = f"{head(2, 1)}{NEW}\n{row}\n{head(2, 1, 'all_gather')}{NEW}\n{gather}\n{head(4, 2)}{NEW}\n{row}\n"
    found = documents(import_text(tmp_path, text))
    assert [(d.ranks, len(d.rows)) for d in found] == [(2, 2), (2, 2), (4, 1), (4, 1)]
    assert [row.operation for row in found[0].rows] == ["all_reduce", "all_gather"]


def test_a_bus_bandwidth_of_another_operation_is_noted(tmp_path: Path) -> None:
    text = f"{head(4, 1)}{NEW}\n1000000 250000 float sum -1 100.0 10.00 7.50 0 100.0 10.00 7.50 0\n"
    assert "is the operation or the number of ranks another?" in import_text(tmp_path, text).notes[0]


def test_wrong_results_are_noted(tmp_path: Path) -> None:
    text = f"{head(2, 1)}{NEW}\n1000 250 float sum -1 100.0 0.01 0.01 7 100.0 0.01 0.01 0\n"
    answer = import_text(tmp_path, text)
    assert documents(answer)[0].rows[0].wrong == 7 and "7 wrong elements" in answer.notes[0]


ROW = "1024 256 float sum -1 10.00 0.10 0.10 0 20.00 0.05 0.05 0"


def test_what_the_text_does_not_say_may_be_given(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match=r"--option operation="):
        import_text(tmp_path, f"{NEW}\n{ROW}\n")
    with pytest.raises(FormatError, match=r"--option ranks= and --option hosts="):
        import_text(tmp_path, f"{NEW}\n{ROW}\n", operation="all_reduce")
    out, _ = documents(import_text(tmp_path, f"{NEW}\n{ROW}\n", operation="all_reduce", ranks="2", hosts="1"))
    assert (out.ranks, out.rows[0].operation) == (2, "all_reduce")
    named, _ = documents(import_text(tmp_path, f"{NEW}\n{ROW}\n", name="all_reduce.txt", ranks="2", hosts="1"))
    assert named.rows[0].operation == "all_reduce"


@pytest.mark.parametrize(
    ("text", "options", "said"),
    [
        ("", {}, "empty"),
        ("hello\n", {}, "no table of nccl-tests"),
        (f"{head(2, 1)}{NEW}\n", {}, "no row of a size above 0"),
        (f"{head(2, 1)}{NEW}\n1024 256 float sum -1 10.00 0.10\n", {}, "7 values where the header"),
        (f"{head(2, 1)}{NEW}\n{ROW.replace('10.00', 'nan')}\n", {}, "'nan' is not a finite number"),
        (f"{head(2, 1)}{NEW}\n{ROW.replace('10.00', '-3')}\n", {}, "a time of -3 us"),
        (f"{head(2, 1)}{NEW}\n{ROW.replace('sum', 'xor')}\n", {}, "redop 'xor'"),
        (f"{head(2, 1)}{NEW.replace(' time', ' cputime')}\n{ROW}\n", {}, "times of the CPU"),
        (f"{head(1, 1)}{NEW}\n{ROW}\n", {}, "one rank exchanges nothing"),
        (f"{head(2, 1, 'sendrecv')}{NEW}\n{ROW}\n", {}, "'sendrecv' was timed"),
        (f"{head(2, 1)}{NEW}\n{ROW}\n", {"ranks": "two"}, "--option ranks=two"),
        (f"{head(2, 1)}{NEW}\n{ROW}\n", {"rank": "2"}, "did you mean 'ranks'"),
    ],
    ids=range(12),
)
def test_what_cannot_be_understood_is_named_and_nothing_is_written(
    tmp_path: Path, text: str, options: dict[str, str], said: str
) -> None:
    with pytest.raises(ValueError, match=said):
        import_text(tmp_path, text, **options)
    assert not (tmp_path / "results").exists()
