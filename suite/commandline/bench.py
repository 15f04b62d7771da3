"""`tfscale bench collectives`: options, and what is printed of the answer."""

import re
from pathlib import Path
from typing import Annotated, Any, get_args

import typer

from tfscale.suite import display
from tfscale.suite.commandline.common import FAILED, FINDING, Json, answer, fail

_BYTES = re.compile(r"(?P<number>\d+)\s*(?P<unit>[KMG]i?)?B?", re.IGNORECASE)
_UNITS = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30}


def collectives(
    ranks: Annotated[int | None, typer.Option(help="Processes, a core each (default: one a host, else 2).")] = None,
    launcher: Annotated[
        str | None, typer.Option(help="How ranks start (default: netlab with a topology, else local).")
    ] = None,
    topology: Annotated[
        str | None, typer.Option(help="A described network: a file, or one of suites/topologies.")
    ] = None,
    collective: Annotated[str, typer.Option(help="Implementation to ask TensorFlow for: auto, ring or nccl.")] = "auto",
    operation: Annotated[
        list[str] | None, typer.Option("--operation", help="One of them only; may be repeated (default: all five).")
    ] = None,
    max_bytes: Annotated[str, typer.Option("--max-bytes", help="Largest size, such as 64MiB.")] = "64MiB",
    factor: Annotated[int, typer.Option(min=2, help="From one size to the next.")] = 4,
    sizes_of: Annotated[
        str | None, typer.Option("--sizes-of", help="WORKLOAD/PRESET: the sizes of its gradients too.")
    ] = None,
    budget_s: Annotated[float, typer.Option("--budget", min=1, help="Seconds to measure at most.")] = 60.0,
    pairs: Annotated[bool, typer.Option("--pairs", help="Measure the link between every two ranks too.")] = False,
    write_topology: Annotated[
        Path | None, typer.Option("--write-topology", help="Write the topology that --pairs found to this file.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Time TensorFlow's collectives between ranks, as nccl-tests does NCCL's. Exits 1 where a result was wrong.

    Example: tfscale bench collectives --ranks 2 --max-bytes 16MiB
    """
    from tfscale.suite import collectivebench, collectiverows, display_bench

    try:
        if write_topology is not None and not pairs:
            raise ValueError("--write-topology writes what --pairs measures; add --pairs")
        wanted = _wanted(ranks, launcher, topology, collective, operation, max_bytes, factor, sizes_of, budget_s, pairs)
        with display_bench.progress() as tell:
            found = collectivebench.run(wanted, tell)
        if write_topology is not None:
            write_topology.write_text(collectiverows.topology_of(found, write_topology.stem))
    except ValueError as error:
        raise fail(str(error)) from error
    except (RuntimeError, OSError) as error:
        raise fail(str(error), FAILED) from error
    if as_json:
        answer(found.model_dump(mode="json", by_alias=True))
    else:
        display_bench.collectives(found, display.out)
    if any(row.wrong for row in found.rows):
        raise typer.Exit(FINDING)


def _wanted(
    ranks: int | None,
    launcher: str | None,
    topology: str | None,
    collective: str,
    operations: list[str] | None,
    max_bytes: str,
    factor: int,
    sizes_of: str | None,
    budget_s: float,
    pairs: bool,
) -> Any:
    """The options as what is to be measured. Raises ValueError naming the option."""
    from tfscale.suite import collectivebench, matrix, registry
    from tfscale.suite.benchforms import Operation, Settings
    from tfscale.suite.spec import Collective
    from tfscale.suite.topology import load

    network = load(topology, Path(), matrix.TOPOLOGIES) if topology else None
    placed = launcher or ("netlab" if network else "local")
    registry.check("launchers", placed)
    count = ranks if ranks is not None else len(network.hosts) if network else 2
    if count < 2:
        raise ValueError(f"--ranks {count}: nothing is exchanged; 2 or more are wanted")
    for option, value, known in (
        ("--collective", collective, get_args(Collective)),
        *(("--operation", name, get_args(Operation)) for name in operations or ()),
    ):
        if value not in known:
            raise registry.UnknownNameError(option, value, list(known))
    return collectivebench.Wanted(
        settings=Settings(
            operations=tuple(operations or get_args(Operation)),
            sizes=collectivebench.sizes(bytes_of(max_bytes), factor),
            sizes_of=_model(sizes_of),
            budget_s=budget_s,
            pairs=pairs,
        ),
        ranks=count,
        launcher=placed,
        topology=network,
        collective=collective,  # type: ignore[arg-type]
    )


def bytes_of(text: str) -> int:
    """`64MiB`, `1K` or `4096`; K, M and G are powers of 1024, as nccl-tests has them. Raises ValueError."""
    match = _BYTES.fullmatch(text.strip())
    size = int(match["number"]) * _UNITS[(match["unit"] or "")[:1].upper()] if match else 0
    if size < 1024:
        raise ValueError(f"--max-bytes {text!r}: a size from 1 KiB on is wanted, such as 64MiB")
    return size


def _model(text: str | None) -> tuple[str, str] | None:
    if text is None:
        return None
    from tfscale.suite import workload

    name, slash, preset = text.rpartition("/")
    if not slash or not name or not preset:
        raise ValueError(f"--sizes-of {text!r} is not of the form WORKLOAD/PRESET, such as bert/mini")
    workload.check(name, preset)
    return name, preset
