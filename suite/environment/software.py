"""Versions of driver, CUDA libraries and the code itself."""

import re
import shlex
from collections.abc import Mapping
from typing import Any

from tfscale.suite.environment.process import Process
from tfscale.suite.environment.reading import text, told
from tfscale.suite.sources.base import Answer, Sources

_LIBRARIES = {"cuda": ("cuda-runtime", "cuda_version"), "cudnn": ("cudnn", "cudnn_version"), "nccl": ("nccl", None)}
"""Library -> its Python package without `nvidia-` and `-cu12`, and its name in TensorFlow's build flags."""
_MODULE = re.compile(r"Kernel Module\s+(?:for \S+\s+)?(\d+\.\d+(?:\.\d+)?)")


def driver(sources: Sources) -> dict[str, Any]:
    """NVIDIA driver and the CUDA version that it supports; null with a reason where there is none."""
    version = sources.nvml.ask("driver")
    module = _MODULE.search(text(sources.files, "proc/driver/nvidia/version") or "")
    if not version.ok and module:
        version = Answer(module[1])
    cuda = sources.nvml.ask("cuda_driver")
    if cuda.ok:  # 1000 x major + 10 x minor
        cuda = Answer(f"{int(cuda.value) // 1000}.{int(cuda.value) % 1000 // 10}")
    return told(version=version, cuda=cuda)


def libraries(process: Process) -> dict[str, Any]:
    """CUDA, cuDNN and NCCL: as installed (Python packages), and as TensorFlow was built for.

    TensorFlow's wheels link an NCCL of their own; which one ran stands in its log.
    """
    return told(
        **{name: _installed(process.packages, package) for name, (package, _) in _LIBRARIES.items()},
        **{
            f"{name}_built_for": _built(process.tensorflow_build, flag)
            for name, (_, flag) in _LIBRARIES.items()
            if flag
        },
    )


def _installed(packages: Mapping[str, str], package: str) -> Answer:
    pattern = re.compile(rf"nvidia-{package}(-cu\d+)?")
    found = [version for name, version in packages.items() if pattern.fullmatch(name)]
    reason = f"no Python package nvidia-{package}-cu* is installed; a system library is not looked for"
    return Answer(found[0]) if found else Answer(state="absent", reason=reason)


def _built(flags: Mapping[str, Any], name: str) -> Answer:
    if name in flags:
        return Answer(str(flags[name]))
    return Answer(state="absent", reason=flags.get("reason") or f"this TensorFlow was built without {name}")


def git_state(sources: Sources, folder: str) -> Answer:
    """`git describe --always --dirty` of the checkout whose top is `folder`.

    A folder that merely lies inside somebody's repository (an environment in a project) has none.
    """
    if sources.files.ask(f"{folder.lstrip('/')}/.git").state == "absent":
        return Answer(state="absent", reason="no git checkout")
    return _describe(sources, folder)


def directory_state(sources: Sources, folder: str) -> Answer:
    """The same of the repository that `folder` lies in, which holds the user's own models and suites."""
    return _describe(sources, folder) if folder else Answer(state="absent", reason="the working directory is gone")


def _describe(sources: Sources, folder: str) -> Answer:
    answer = sources.commands.ask(shlex.join(["git", "-C", folder, "describe", "--always", "--dirty"]))
    if not answer.ok:
        return answer
    described = str(answer.value["stdout"]).strip()
    if answer.value["rc"] or not described:
        first = (str(answer.value["stderr"]).splitlines() or ["git says nothing"])[0]
        return Answer(state="absent", reason=first)
    return Answer(described)
