"""What `auto` takes on links that are given, that it exchanges as the one it took, and that real ranks agree."""

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parent.parent / "toy"))
import toy_ranks
from toy_ranks import toy

from tfscale.suite import registry
from tfscale.suite.analysis.communication import Link, seconds
from tfscale.suite.analysis.linkfit import Point, fit
from tfscale.suite.exchange import auto
from tfscale.suite.exchange.auto import Auto
from tfscale.suite.exchange.base import create
from tfscale.suite.spec import Case

pytestmark = [pytest.mark.tensorflow]
RACKS = (0, 0, 1, 1)
LOOPBACK, MBIT_100, GBIT = Link(2e-4, 1e-9), Link(3e-4, 8e-8), Link(2e-4, 8e-9)


def fitted(link: Link, kind: str, ranks: int) -> Any:
    return fit([Point(size, seconds(kind, ranks, size, link)) for size in (1e3, 1e5, 1e7)], kind, ranks)


class Given(Auto):
    """With links, and seconds per element, that are given instead of measured."""

    links: dict[tuple[str, str], Link]
    codecs: dict[str, float]

    def build(self, session: Any, variables: Any) -> None:
        self._session = session
        self._variables = [np.zeros(ELEMENTS, np.float32), np.zeros(3, np.float32)]
        ranks = {"all": session.replicas, "rack": 2, "across": 2}
        self._links = {key: fitted(link, key[1], ranks[key[0]]) for key, link in self.links.items()}
        self._codecs = self.codecs


def given(links: dict[tuple[str, str], Link], lossy: bool = False, **codecs: float) -> Any:
    def make() -> Auto:
        made = Given(lossy=lossy)
        made.links, made.codecs = links, {name.replace("powersgd", "powersgd(rank=4)"): s for name, s in codecs.items()}
        return made

    return make


ELEMENTS = 500_000
FLAT = {("all", "all_reduce"): MBIT_100}
TWO_RACKS = {
    ("all", "all_reduce"): Link(3e-4, 8e-8),
    ("rack", "all_to_all"): GBIT,
    ("rack", "all_gather"): GBIT,
    ("across", "all_reduce"): Link(3e-4, 8e-8),
}


def step(make: Any, racks: Any = ()) -> Any:
    """One step of four replicas with different gradients; the world it leaves."""
    lockstep = pytest.importorskip("lockstep")
    draw = np.random.default_rng(0)
    world = lockstep.Lockstep(make, 4, racks)
    gradients = [[draw.normal(size=ELEMENTS).astype(np.float32), np.float32([replica] * 3)] for replica in range(4)]
    results = world.step(gradients)
    total = np.sum([g[0] for g in gradients], axis=0)
    for means, _ in results:
        np.testing.assert_allclose(means[1], np.full(3, 6.0), rtol=1e-6)
    return world, results, total


def test_two_racks_with_a_slow_core_are_exchanged_on_two_levels() -> None:
    world, results, total = step(given(TWO_RACKS), RACKS)
    assert {each.resolved() for each in world.exchanges} == {"hierarchical"}
    np.testing.assert_allclose(results[0][0][0], total, rtol=1e-4, atol=1e-5)
    told = world.exchanges[0].told()
    assert told["resolved"] == "hierarchical"
    assert "hierarchical is predicted to add" in told["resolved_reason"]
    assert told["probe"]["links"]["across all_reduce"]["seconds_per_byte"] == pytest.approx(8e-8)
    assert set(told["probe"]["predicted_s"]) >= {"none", "hierarchical"}


def test_prediction_of_none_is_that_of_the_model() -> None:
    world, _, _ = step(given(FLAT))
    predicted = world.exchanges[0].told()["probe"]["predicted_s"]
    wanted = seconds("all_reduce", 4, 4 * ELEMENTS + 12 + 16, MBIT_100)
    assert predicted["none"] == pytest.approx(wanted, rel=1e-6)


def test_compression_is_taken_where_it_pays_and_allowed_only() -> None:
    slow = {"fp16": 1e-10}
    world, _, _ = step(given(FLAT, lossy=True, **slow))
    names = registry.names("exchanges")
    if not {"int8", "topk", "powersgd"} & set(names):
        assert world.exchanges[0].resolved() == "fp16"
    assert not world.exchanges[0].exact
    exact, _, _ = step(given(FLAT))
    assert exact.exchanges[0].exact and exact.exchanges[0].resolved() not in ("fp16", "int8")
    costly = dict.fromkeys(("fp16", "int8", "topk", "powersgd"), 1.0)
    world, _, _ = step(given({("all", "all_reduce"): LOOPBACK}, lossy=True, **costly))
    assert world.exchanges[0].exact


@pytest.mark.parametrize(
    ("racks", "wanted"),
    [
        ((), {"all": [(0, 1, 2, 3)]}),
        ((0, 0, 0, 0), {"all": [(0, 1, 2, 3)]}),
        ((0, 0, 0, 1), {"all": [(0, 1, 2, 3)]}),
        ((0, 1, 0, 1), {"all": [(0, 1, 2, 3)], "rack": [(0, 2), (1, 3)], "across": [(0, 1), (2, 3)]}),
        ((0, 1, 2, 3), {"all": [(0, 1, 2, 3)], "across": [(0, 1, 2, 3)]}),
    ],
)
def test_levels_that_are_measured(racks: tuple[int, ...], wanted: dict[str, Any]) -> None:
    assert auto.levels(4, racks) == wanted


def test_encoding_is_tried_on_the_largest_gradients() -> None:
    assert auto.sample_of([(10, 10), (100, 50), (7,)], most=10_000) == [(100, 50), (10, 10), (7,)]
    assert auto.sample_of([(30522, 256), (256,)], most=2**20) == [(4096, 256)]
    assert auto.sample_of([(5000,), ()], most=1000) == [(1000,)]


def test_where_it_is_refused() -> None:
    case = {"workload": "bert", "preset": "tiny", "per_replica_batch": 8, "devices": 2, "exchange": "auto"}
    assert "parameter_server has no links" in str(create("auto").refuses(Case(**case, strategy="parameter_server")))
    assert create("auto").refuses(Case(**case, strategy="mirrored")) is None
    with pytest.raises(ValueError, match="lossy"):
        create("auto(lossy=3)")


@pytest.mark.system
@pytest.mark.parametrize("strategy", ["multi_worker_mirrored", "mirrored"])
def test_real_ranks_agree_and_train_as_with_the_exact_exchange(strategy: str, tmp_path: Path) -> None:
    axes = {"preset": "pool", "strategy": strategy, "devices": 2}
    exact = toy_ranks.run(toy(**axes), tmp_path / "exact").assert_clean()
    chose = toy_ranks.run(toy(**axes, exchange="auto"), tmp_path / "auto").assert_clean()
    toy_ranks.assert_same_loss(exact, chose)
    told = [chose.result(rank).effective for rank in range(len(chose.plans))]
    assert told[0]["resolved"] in auto.EXACT
    assert all(other["probe"] == told[0]["probe"] and other["resolved"] == told[0]["resolved"] for other in told)
    link = told[0]["probe"]["links"]["all all_reduce"]
    assert 0 <= link["latency_s"] < 0.1 and 0 < link["seconds_per_byte"] < 1e-6
    assert chose.result().self_check.passed
    assert chose.result().phases["build"] < exact.result().phases["build"] + 15.0, "3 s on an idle machine"


@pytest.mark.system
def test_lossy_candidates_are_timed_on_real_ranks(tmp_path: Path) -> None:
    case = toy(preset="wide", strategy="multi_worker_mirrored", devices=2, exchange="auto(lossy=true)")
    ran = toy_ranks.run(case, tmp_path).assert_clean()
    told = [ran.result(rank).effective for rank in (0, 1)]
    assert told[0]["probe"] == told[1]["probe"]
    assert told[0]["probe"]["codec_s_per_element"]["fp16"] > 0
    assert ran.result().self_check.passed
