"""Lines as oneDNN prints them (its documentation, Verbose Mode); AVX2 ones were recorded, those of AMX were not."""

import json
import subprocess
import sys
import time

import pytest

from tfscale.suite.training import onednn

AMX = (
    "onednn_verbose,v1,info,oneDNN v3.7.3 (commit N/A)\n"
    "onednn_verbose,v1,primitive,exec,cpu,matmul,brg_matmul:avx10_1_512_amx,undef,src_bf16::blocked:ab::f0 "
    "wei_bf16::blocked:ab::f0 dst_bf16::blocked:ab::f0,,,256x256:256x256,0.04\n"
)
AVX2 = (
    "onednn_verbose,v1,primitive,exec,cpu,gemm_api,,undef,src_f32::blocked:ab:f0 wei_f32::blocked:ab:f0 "
    "dst_f32::blocked:ab:f0,,,256x256:256x256,65.6\n"
)


def test_an_amx_product_is_a_proof() -> None:
    assert onednn.read(AMX, "bfloat16") == {"math_proof": "oneDNN brg_matmul:avx10_1_512_amx"}


@pytest.mark.parametrize(
    ("log", "dtype"),
    [
        ("", "bfloat16"),
        (AVX2, "bfloat16"),
        (AMX, "float16"),
        (AVX2.replace("f32", "bf16"), "bfloat16"),
        (AMX.replace("brg_matmul:avx10_1_512_amx", "ref:any"), "bfloat16"),
    ],
)
def test_anything_else_is_none(log: str, dtype: str) -> None:
    told = onednn.read(log, dtype)
    assert told["math_proof"] is None
    assert told["math_proof_reason"]


def test_nothing_is_tried_where_the_device_claims_nothing() -> None:
    assert onednn.proof_for("float32", "cpu") == {}
    assert onednn.proof_for("mixed_bfloat16", "gpu") == {}


@pytest.mark.tensorflow
def test_the_trial_product_ends_and_says_what_it_found() -> None:
    """In a process of its own: a fork of one whose runtime has started would wait for threads that it does not have."""
    pytest.importorskip("tensorflow")
    program = "import json, tensorflow\nfrom tfscale.suite.training import onednn\nprint(json.dumps(onednn.proof('bfloat16')))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    told = json.loads(done.stdout)
    assert told["math_proof"] or "oneDNN" in told["math_proof_reason"], done.stderr[-500:]


def test_a_child_that_hangs_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(onednn, "LIMIT_S", 0.3)
    monkeypatch.setattr(onednn, "_multiply", lambda dtype, output: time.sleep(60))
    began = time.monotonic()
    assert "did not end" in onednn.proof("bfloat16")["math_proof_reason"]
    assert time.monotonic() - began < 5
