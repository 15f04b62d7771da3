"""The transport that was asked for against NCCL's logs in the folders of the ranks."""

from pathlib import Path

import judged

from tfscale.suite.validity.transported import transported

_LINES = "\n".join(
    f"h:1:2 [0] NCCL INFO {line}"
    for line in ("Channel 00/0 : 1[0] -> 0[0] [receive] via NET/Socket/0", "comm 0x1 rank 0 nranks 2 - Init COMPLETE")
)


def _evidence(folder: Path) -> object:
    logged = {"NCCL_DEBUG_FILE": str(folder / "rank0/nccl.log")}
    return judged.evidence(folder, transport="rdma", collective="nccl", env=logged)


def test_a_fall_back_to_tcp_is_invalid(tmp_path: Path) -> None:
    (tmp_path / "rank0").mkdir()
    (tmp_path / "rank0/nccl.log").write_text(_LINES)
    check = judged.only(transported(_evidence(tmp_path)))
    assert (check.name, check.status) == ("transport", "INVALID")
    assert check.evidence["channels"] == {"NET/Socket": 1}
    assert check.evidence["logs"] == 1
    assert "NCCL_IB_HCA" in (check.advice or "")


def test_no_log_is_unknown_and_no_question_is_no_answer(tmp_path: Path) -> None:
    assert judged.only(transported(_evidence(tmp_path))).status == "UNKNOWN"
    assert list(transported(judged.evidence(tmp_path))) == []
