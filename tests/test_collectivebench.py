"""The document of `tfscale bench collectives`, from cells whose numbers are known; one real run of two ranks."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tfscale.suite import collectivebench, collectiverows
from tfscale.suite.analysis import communication as cost
from tfscale.suite.analysis.communication import Link
from tfscale.suite.benchforms import BenchCollectives, Cell, PairCell, RankCells
from tfscale.suite.commandline.bench import bytes_of
from tfscale.suite.topology import Topology

LINK = Link(2e-4, 8e-8)


def cells(rank: int, kind: str = "all_reduce", ranks: int = 4, wrong: int = 0) -> tuple[Cell, ...]:
    """What a rank sees on LINK; the ranks differ by a microsecond, which a mean over them takes out."""
    made = []
    for size in collectivebench.sizes(2**22):
        seconds = cost.seconds(kind, ranks, size, LINK) + (rank - (ranks - 1) / 2) * 1e-6
        made.append(
            Cell.model_validate(
                {
                    "operation": kind, "size": size, "count": size // 4, "origin": "sweep", "chain": 4,
                    "seconds": [seconds] * 8, "wrong": wrong if size == 1024 else 0,
                }
            )
        )  # fmt: skip
    return tuple(made)


def answer(left: list[RankCells], ranks: int = 4, hosts: int = 4) -> BenchCollectives:
    operations = tuple(dict.fromkeys(cell.operation for cell in left[0].cells))
    return collectiverows.document(
        left, operations=operations, ranks=ranks, hosts=hosts, launcher="local", topology=None, collective="auto",
        cores=((0,),) * ranks, environment={},
    )  # fmt: skip


def test_sizes_are_powers_of_the_factor() -> None:
    assert collectivebench.sizes(2**20, 4) == (2**10, 2**12, 2**14, 2**16, 2**18, 2**20)
    assert collectivebench.sizes(2**20 - 1, 4)[-1] == 2**18
    assert collectivebench.sizes(2**12, 2) == (2**10, 2**11, 2**12)


@pytest.mark.parametrize(
    ("text", "size"), [("64MiB", 2**26), ("64m", 2**26), ("1K", 2**10), ("4096", 4096), ("1GB", 2**30)]
)
def test_bytes_as_people_write_them(text: str, size: int) -> None:
    assert bytes_of(text) == size


def test_rows_hold_means_over_ranks_and_bandwidths_of_nccl_tests() -> None:
    found = answer([RankCells(rank=rank, cells=cells(rank, wrong=rank), effective={}) for rank in range(4)])
    assert len(found.rows) == 7
    for row in found.rows:
        seconds = cost.seconds("all_reduce", 4, row.size, LINK)
        assert row.seconds.value == pytest.approx(seconds)
        assert row.algorithm_bandwidth.value == pytest.approx(row.size / seconds)
        assert row.bus_bandwidth.value == pytest.approx(1.5 * row.size / seconds)
    assert [row.wrong for row in found.rows] == [0 + 1 + 2 + 3] + [0] * 6
    (link,) = found.links
    assert link.latency.value == pytest.approx(LINK.latency_s)
    assert link.inverse_bandwidth.value == pytest.approx(LINK.seconds_per_byte)
    document = found.model_dump(mode="json", by_alias=True)
    assert document["schema"] == "tfscale.bench_collectives/1"
    assert document["level"] == "framework"
    assert BenchCollectives.model_validate(json.loads(json.dumps(document))) == found


def test_what_was_not_measured_is_null_with_the_reason() -> None:
    none: Any = {"operation": "reduce_scatter", "size": 1024, "count": 64, "origin": "sweep", "reason": "no kernel"}
    found = answer([RankCells(rank=rank, cells=(Cell(**none),), effective={}) for rank in range(4)])
    (row,), (link,) = found.rows, found.links
    assert (row.seconds.value, row.seconds.reason, row.wrong) == (None, "no kernel", None)
    assert (row.bus_bandwidth.reason, link.latency.reason) == ("no kernel", "no kernel")


def paired(bandwidths: dict[tuple[int, int], float]) -> BenchCollectives:
    """Four ranks with such links between them."""
    pairs = tuple(
        PairCell(
            pair=pair,
            points=tuple(
                (size, cost.seconds("all_reduce", 2, size, Link(2e-4, 1 / rate))) for size in (2**10, 2**18, 2**22)
            ),
        )
        for pair, rate in bandwidths.items()
    )
    return answer([RankCells(rank=rank, cells=(), pairs=pairs, effective={}) for rank in range(4)])


def test_pairs_become_racks_and_a_topology() -> None:
    near, far = 125e6, 25e6
    found = paired({(0, 1): far, (0, 2): near, (0, 3): far, (1, 2): far, (1, 3): near, (2, 3): far})
    assert found.racks == (0, 1, 0, 1)
    assert [row.bandwidth.value for row in found.pairs] == pytest.approx([far, near, far, far, near, far])
    text = collectiverows.topology_of(found, "lab")
    import yaml

    made = Topology.model_validate(yaml.safe_load(text))
    assert made.hosts == ("a", "b", "a", "b")
    assert (made.racks["a"].link, made.racks["a"].uplink) == (10**9, 2 * 10**8)


def test_no_topology_without_a_host_a_rank() -> None:
    found = paired({(0, 1): 1e8, (0, 2): 1e8, (0, 3): 1e8, (1, 2): 1e8, (1, 3): 1e8, (2, 3): 1e8})
    with pytest.raises(ValueError, match="4 ranks on 1 host"):
        collectiverows.topology_of(found.model_copy(update={"hosts": 1}), "lab")
    with pytest.raises(ValueError, match="--pairs"):
        collectiverows.topology_of(found.model_copy(update={"pairs": ()}), "lab")


@pytest.mark.system
@pytest.mark.tensorflow
def test_two_real_ranks(root: Path) -> None:
    command = [sys.executable, "harness.py", "bench", "collectives", "--json", "--ranks", "2", "--max-bytes", "16KiB"]
    command += ["--factor", "16", "--budget", "10", "--pairs", "--sizes-of", "vit/micro"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=root, timeout=120)
    assert done.returncode == 0, done.stderr
    found = BenchCollectives.model_validate(json.loads(done.stdout))
    by_operation: dict[str, list[Any]] = {}
    for row in found.rows:
        by_operation.setdefault(row.operation, []).append(row)
    assert set(by_operation) == {"all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast"}
    for operation, rows in by_operation.items():
        swept = [row for row in rows if row.origin == "sweep"]
        assert [row.size for row in swept] == [2**10, 2**14]
        assert [row for row in rows if row.origin == "vit/micro"]
        if operation == "reduce_scatter":
            assert all("no reduce-scatter" in (row.seconds.reason or "") for row in rows)
            continue
        assert [row.wrong for row in swept] == [0, 0]
        assert all(1e-6 < (row.seconds.value or 0) < 1 for row in swept)
    assert found.effective["collective"] == "ring"
    ((first, second),) = [row.ranks for row in found.pairs]
    assert (first, second) == (0, 1)
    assert (found.pairs[0].bandwidth.value or 0) > 1e7
