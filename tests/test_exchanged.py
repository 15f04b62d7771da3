"""What ranks tell of their exchange, as quantities that say what they are or why they are not."""

import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent / "toy"))
import toy_bench as toy
import toy_worker

from tfscale.suite import exchanged
from tfscale.suite.rankfiles import RankResult

TOLD = {"bytes": 100, "none_bytes": 400, "handed": {"gather": 100}, "exact": False, "repeats": 9, "reason": None}


def rank(tmp_path: Path, **told: Any) -> RankResult:
    plan = toy.plans(toy.case(), tmp_path)[0]
    return toy_worker.result(plan).model_copy(update={"exchange": told})


def test_the_slowest_rank_holds_up_the_step(tmp_path: Path) -> None:
    ranks = [rank(tmp_path, **TOLD, encode_s=e, decode_s=d) for e, d in ((0.01, 0.05), (0.02, 0.03))]
    found = exchanged.quantities(ranks, "topk(ratio=0.1)")
    assert [found[name].value for name in exchanged.NAMES] == [100, 4.0, 0.02, 0.05]
    assert {each.kind for each in found.values()} == {"derived"}
    assert found["encode_time"].n_samples == 18
    assert exchanged.effective(ranks) == {"exchange_exact": False, "exchange_handed": {"gather": 100}}


def test_unknown_has_its_reason(tmp_path: Path) -> None:
    nothing = exchanged.quantities([rank(tmp_path)], "none")
    assert [nothing[name].value for name in exchanged.NAMES] == [None] * 4
    assert {each.reason for each in nothing.values()} == {"no gradient is exchanged"}
    assert exchanged.effective([rank(tmp_path)]) == {}
    plain = exchanged.quantities([rank(tmp_path, bytes=400, none_bytes=400, exact=True, handed={})], "none(pack_mib=4)")
    assert plain["exchange_ratio"].value == 1
    assert plain["encode_time"].reason == "none sends gradients as they are"
    failing = {**TOLD, "encode_s": 0.1, "decode_s": None, "reason": "too little"}
    told = exchanged.quantities([rank(tmp_path, **TOLD, encode_s=0.1, decode_s=0.1), rank(tmp_path, **failing)], "topk")
    assert told["encode_time"].value == 0.1
    assert told["decode_time"].reason == "too little"
