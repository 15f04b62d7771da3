"""Which code of oneDNN multiplies matrices: asked of a child process that multiplies one with oneDNN's log on.

oneDNN reads ONEDNN_VERBOSE at its first primitive and would then print a line for every one that follows, so the rank
itself must not have it. A child forked before the runtime is touched costs 0.3 s and prints one line, such as
`onednn_verbose,v1,primitive,exec,cpu,matmul,brg_matmul:avx10_1_512_amx,...`.
"""

import os
import re
import signal
import sys
import tempfile
import time
from typing import Any

from tfscale.suite.spec import Precision
from tfscale.suite.training.precision import cpu_flags, cpu_math

_LINE = re.compile(
    r"^onednn_verbose,(?:[^,]*,)*?exec,cpu,(?:matmul|inner_product|gemm_api),(?P<implementation>[^,]*),[^,]*,"
    r"src_(?P<type>\w+):",
    re.MULTILINE,
)
_TYPES = {"bfloat16": "bf16", "float16": "f16"}
LIMIT_S = 20.0
"""A child that hangs must not hold up the rank: it is one more thing that is not shown."""
_SIZE = 256
_NATIVE = ("amx", "avx512_core_bf16", "avx10_1_512", "avx512_core_fp16", "avx2_vnni_2", "sve_", "acl")
"""In names of implementations: instruction sets that multiply 16-bit floats (oneDNN, `cpu_isa_t`)."""


def proof_for(precision: Precision, accelerator: str) -> dict[str, Any]:
    """`proof` for a case on CPUs that claim to multiply its 16-bit floats; {} where there is nothing to prove."""
    dtype = {"mixed_bfloat16": "bfloat16", "mixed_float16": "float16"}.get(precision)
    if dtype is None or accelerator != "cpu" or cpu_math(precision, cpu_flags())["math"] != dtype:
        return {}
    return proof(dtype)


def proof(dtype: str) -> dict[str, Any]:
    """`math_proof`, the implementation that multiplies two `dtype` (bfloat16, float16) matrices, or None and a reason.

    Forks: call it before anything has touched TensorFlow's runtime.
    """
    with tempfile.TemporaryFile() as output:
        pid = os.fork()
        if pid == 0:
            _multiply(dtype, output.fileno())
        status = _wait(pid)
        output.seek(0)
        log = output.read().decode(errors="replace")
    if status != 0:
        outcome = f"ended with wait status {status}" if status is not None else f"did not end within {LIMIT_S:g} s"
        return {"math_proof": None, "math_proof_reason": f"the trial product {outcome}"}
    return read(log, dtype)


def _wait(pid: int) -> int | None:
    """The wait status of the child; None where it had to be killed."""
    deadline = time.monotonic() + LIMIT_S
    while time.monotonic() < deadline:
        found, status = os.waitpid(pid, os.WNOHANG)
        if found:
            return status
        time.sleep(0.005)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return None


def read(log: str, dtype: str) -> dict[str, Any]:
    """The same from what oneDNN printed."""
    products = [found for found in _LINE.finditer(log) if found["type"] == _TYPES[dtype]]
    if not products:
        return {"math_proof": None, "math_proof_reason": f"oneDNN printed no product of {dtype} matrices"}
    implementation = products[0]["implementation"] or "gemm"
    if any(name in implementation for name in _NATIVE):
        return {"math_proof": f"oneDNN {implementation}"}
    return {
        "math_proof": None,
        "math_proof_reason": f"oneDNN multiplies {dtype} matrices with {implementation}, which tells no {dtype} instruction",
    }


def _multiply(dtype: str, output: int) -> None:
    """The child: never returns."""
    code = 1
    try:
        os.environ["ONEDNN_VERBOSE"] = "1"
        os.dup2(output, sys.stdout.fileno())
        os.dup2(output, sys.stderr.fileno())
        import tensorflow as tf

        ones = tf.ones((_SIZE, _SIZE), dtype)
        tf.function(tf.linalg.matmul)(ones, ones).numpy()
        code = 0
    finally:
        os._exit(code)
