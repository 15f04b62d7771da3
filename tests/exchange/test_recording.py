"""A recording hands the wire what a step hands it, and predicts what it moves."""

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))
tf = pytest.importorskip("tensorflow")

from lockstep import Lockstep  # noqa: E402

from tfscale.suite.analysis.communication import Moved  # noqa: E402
from tfscale.suite.exchange import recording  # noqa: E402
from tfscale.suite.exchange.recording import Job  # noqa: E402
from tfscale.suite.exchange.shapes import GradientShape, shapes_of  # noqa: E402
from tfscale.suite.exchange.wire import MIB  # noqa: E402

pytestmark = [pytest.mark.tensorflow]
SHAPES = ([64, 50], [7], [3000], [40, 40, 2])
RACKS = (0, 0, 1, 1)
NAMES = ["none", "fp16", "hierarchical", "hierarchical(cross=fp16)", "pack(mib=1)", "int8", "powersgd(rank=4)", "topk"]


def handed_in(moved: list[Moved]) -> float:
    """Bytes that one replica hands to those collectives: its part of what is gathered, all of the rest."""
    return sum(each.size / (each.ranks if each.kind == "all_gather" else 1) for each in moved)


@pytest.mark.parametrize(
    ("name", "sparse"), [*((name, False) for name in NAMES), ("none", True), ("hierarchical", True)]
)
def test_bytes_are_those_of_a_step_in_lockstep(name: str, sparse: bool) -> None:
    gradients = [tf.constant(np.full(shape, 0.5, np.float32)) for shape in SHAPES]
    if sparse:
        rows = tf.IndexedSlices(tf.ones([5, 3]), tf.constant([1, 2, 2, 0, 4]), tf.constant([9, 3], tf.int64))
        gradients.insert(1, rows)
    world = Lockstep(name, len(RACKS), RACKS)
    world.step([gradients] * len(RACKS))
    variables = [tf.Variable(tf.zeros([9, 3] if hasattr(g, "indices") else g.shape)) for g in gradients]
    found = recording.moved(name, Job(len(RACKS), RACKS), variables, shapes_of(gradients, variables))
    assert handed_in(found) == world.payload_bytes[0]


def test_what_none_moves_by_hand() -> None:
    shapes = [GradientShape((MIB,)), GradientShape((10,)), GradientShape((20,))]
    found = recording.moved("none(pack_mib=1)", Job(2), [], shapes)
    # Last first, riders (16 bytes) at the end; a pack is closed once it is larger than the limit.
    assert found == [Moved("all_reduce", 80 + 40 + 4 * MIB, 2, "all"), Moved("all_reduce", 16, 2, "all")]


def test_levels_of_two_racks() -> None:
    found = recording.moved("hierarchical(chunks=4)", Job(4, RACKS), [], [GradientShape((2 * MIB,))])
    by_level = {level: [each for each in found if each.level == level] for level in ("rack", "across", "all")}
    assert {(each.kind, each.ranks) for each in by_level["rack"]} == {("all_to_all", 2), ("all_gather", 2)}
    assert [(each.kind, each.ranks, each.size) for each in by_level["across"]] == [("all_reduce", 2, MIB)] * 4
    assert [each.size for each in by_level["all"]] == [16], "the riders"


def test_encoding_is_timed_on_real_work() -> None:
    """A cast of 2 million elements takes longer than one of 20,000, and neither takes nothing."""
    small, large = (recording.seconds("fp16", Job(2), [GradientShape((size,))]) for size in (20_000, 4_000_000))
    assert 0 < small < large < 5
