"""Mutated traces: a TraceError or an answer, never another exception, never more than two seconds.

TFSCALE_SOAK_MUTATIONS mutations (default 100,000) of synthetic seeds, and of recorded files where they are there.
"""

import gzip
import json
import os
import random
import resource
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent / "toy"))
from toy_timeline import E, Ref, Timeline

from tfscale.suite.profiling import document, stragglers
from tfscale.suite.profiling.analysed import analyse
from tfscale.suite.profiling.clocks import Clock
from tfscale.suite.profiling.collectives import collectives
from tfscale.suite.profiling.readers import kineto, xplane
from tfscale.suite.profiling.table import TraceError

MUTATIONS = int(os.environ.get("TFSCALE_SOAK_MUTATIONS", "100000"))
LONGEST_S = 2.0
MOST_BYTES = 2**31
"""Of the whole test process: mutated lengths must not make it allocate what they say."""


def seeds() -> dict[str, bytes]:
    host = Timeline(host="a").line("/host:CPU", "python", [E("train", 10 * n, 9, step_num=n, _r=1) for n in range(4)])
    host.line("/host:CPU", "collective_ops/1", [E("x:CollectiveReduceV2", 3, 4, group_key=1, instance_key=2)])
    host.line("/host:CPU", "tf_Compute/1", [E("a/MatMul:MatMul", 1, 2), E("ThreadpoolListener::StartRegion", 1, 0)])
    gpu = Timeline(host="g").line(
        "/host:CPU", "launcher", [E("cuLaunchKernel", 1, 1, correlation_id=n) for n in (1, 2)]
    )
    gpu.line(
        "/device:GPU:0", "Stream #1(Kernel)", [E("ncclDevKernel_AllReduce", 5, 9, correlation_id=1, buffer_size=64)]
    )
    gpu.line("/device:GPU:0", "Stream #2(MemcpyH2D)", [E("MemcpyH2D", 5, 2, memcpy_details="size:4 dest:0")])
    of_name = {"%ar = f32[8]{0} all-reduce(f32[8] %p), replica_groups={{0,1}}": {"hlo_category": Ref("all-reduce")}}
    tpu = Timeline(host="t").line("/device:TPU:0", "XLA Ops", [E(next(iter(of_name)), 0, 5)], of_name=of_name)
    tpu.line("/device:TPU:0", "XLA Modules", [E("jit_f(1)", 0, 6, run_id=3)])
    events = [
        {
            "ph": "X",
            "name": "ncclKernel",
            "cat": "kernel",
            "pid": 0,
            "tid": 7,
            "ts": 1.25,
            "dur": 3,
            "args": {"stream": 7},
        },
        {"ph": "X", "name": "ProfilerStep#1", "pid": 1, "tid": 1, "ts": 0, "dur": 9.5},
    ]
    return {
        "host": host.bytes(),
        "gpu": gpu.bytes(),
        "tpu": tpu.bytes(),
        "json": json.dumps({"traceEvents": events, "distributedInfo": {"rank": 0}}).encode(),
    }


def recorded() -> dict[str, bytes]:
    folder = Path(os.environ.get("TFSCALE_TEST_DATA", "/nowhere")) / "traces"
    small = [*folder.glob("tf221_cpu/mw_*.xplane.pb"), *folder.glob("kineto/hta_sampled*.json.gz")]
    return {p.name: gzip.decompress(p.read_bytes()) if p.suffix == ".gz" else p.read_bytes() for p in small}


def mutated(data: bytes, draw: random.Random) -> bytes:
    """A few changes: bits, bytes, cuts, copies, integers at their limits."""
    out = bytearray(data)
    for _ in range(draw.choice((1, 1, 1, 2, 3, 8))):
        if not out:
            break
        at, kind = draw.randrange(len(out)), draw.choice((0, 0, 0, 1, 1, 1, 2, 3, 4, 5))
        if kind == 0:
            out[at] ^= 1 << draw.randrange(8)
        elif kind == 1:
            out[at] = draw.choice((0, 1, 0x7F, 0x80, 0xFF, draw.randrange(256)))
        elif kind == 2:
            del out[at : at + draw.randint(1, 40)]
        elif kind == 3:
            out[at:at] = out[max(0, at - draw.randint(1, 60)) : at]
        elif kind == 4:
            out[at : at + 10] = b"\xff" * 9 + bytes([draw.choice((0, 1, 0x7F))])
        else:
            del out[at:]
    return bytes(out)


def analysed(data: bytes, read: Callable[..., object]) -> None:
    """The whole way of `tfscale trace` for one host, and joined with itself as a second host."""
    trace = read(data, "fuzzed")
    found = analyse([trace])  # type: ignore[list-item]
    joined = collectives(found, 0)
    told = document.document(found, joined, stragglers.find(found, joined), notes=(), clock=Clock("one file", 0))
    json.dumps(told, allow_nan=False)


def cases() -> Iterator[tuple[str, bytes, int]]:
    small, large = seeds(), recorded()
    each = MUTATIONS // len(small)
    yield from ((name, data, each) for name, data in small.items())
    yield from ((name, data, max(each // 50, 1)) for name, data in large.items())


@pytest.mark.parametrize(("name", "data", "count"), list(cases()), ids=[name for name, _, _ in cases()])
def test_mutations(name: str, data: bytes, count: int) -> None:
    read = kineto.read if "json" in name else xplane.read
    draw = random.Random(f"{name} 1")
    refused, slowest = 0, 0.0
    for number in range(count):
        changed = mutated(data, draw)
        began = time.perf_counter()
        try:
            analysed(changed, read)
        except TraceError:
            refused += 1
        except Exception as error:
            Path(f"crash-{name}-{number}").write_bytes(changed)
            raise AssertionError(f"mutation {number} of {name}: {type(error).__name__}: {error}") from error
        slowest = max(slowest, time.perf_counter() - began)
    assert slowest < LONGEST_S, f"the slowest took {slowest:.2f} s"
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 < MOST_BYTES
    print(f"{name}: {count} mutations, {refused} refused, slowest {slowest * 1e3:.0f} ms")
