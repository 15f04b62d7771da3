"""Twenty failures of two real ranks at moments that their seeds draw: the training always goes on, and ends the same."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent / "toy"))
sys.path.insert(0, str(Path(__file__).parent.parent / "system"))
from test_recovery_tensorflow import recovered
from toy_ranks import toy

from tfscale.suite.spec import Recovery

pytestmark = [pytest.mark.system, pytest.mark.tensorflow]


def test_twenty_seeds(tmp_path: Path) -> None:
    case = toy(workload="toy_workload:ADAMW", preset="wide", strategy="multi_worker_mirrored", devices=2)
    result = recovered(case, tmp_path / "results", Recovery(steps=24, period_steps=4, seeds=tuple(range(20))))
    for failure in result.failures:
        print(failure.model_dump_json(exclude_none=True))
    print({name: (q.value, q.unit, q.ci95) for name, q in result.quantities.items()})
    assert len(result.failures) == 20 and all(failure.resumed for failure in result.failures)
    assert result.validity.status == "VALID", result.validity
