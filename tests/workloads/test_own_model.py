"""The page on benchmarking one's own model, run as it is written."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.tensorflow

ONE_STEP = """
import numpy as np
exec(open("check_flops.py").read())
assert sum(int(np.prod(v.shape)) for v in model.variables) == workload.parameters("small")
batch = {key: tf.constant(value) for key, value in batch.items()}
losses = []
for _ in range(20):
    loss, gradients = step(batch)
    losses.append(float(loss))
    for variable, gradient in zip(model.variables, gradients, strict=True):
        variable.assign_sub(0.1 * gradient)
assert losses[-1] < losses[0], losses
"""


@pytest.fixture
def example(root: Path, tmp_path: Path) -> Path:
    """The files of the page, in a folder."""
    page = (root / "docs/how-to/your-own-model.md").read_text()
    blocks = dict(re.findall(r'^```\w+ title="([^"]+)"\n(.*?)^```', page, re.DOTALL | re.MULTILINE))
    assert set(blocks) == {"my_package/my_module.py", "my_package/my_model.py", "my-suite.yaml", "check_flops.py"}
    (tmp_path / "my_package").mkdir()
    (tmp_path / "my_package/__init__.py").touch()
    for name, text in blocks.items():
        (tmp_path / name).write_text(text)
    return tmp_path


def _python(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(folder), "TF_CPP_MIN_LOG_LEVEL": "2"}
    return subprocess.run([sys.executable, *arguments], cwd=folder, env=environment, capture_output=True, text=True)


def test_the_spec_imports_no_tensorflow(example: Path) -> None:
    code = "import sys, my_package.my_module; sys.exit(any(m in sys.modules for m in ('tensorflow', 'keras')))"
    done = _python(example, "-c", code)
    assert done.returncode == 0, done.stderr


def test_the_example_steps_and_learns(example: Path) -> None:
    pytest.importorskip("tensorflow")
    done = _python(example, "-c", ONE_STEP)
    assert done.returncode == 0, done.stderr
