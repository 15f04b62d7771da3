"""What only this process knows: its Python and packages, its variables, where it stands."""

import ast
import os
import platform
import re
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from tfscale.suite.environment.scheduling import CONTAINER_VARIABLES, scheduler_variables
from tfscale.suite.spec import recordable

_RELEVANT = re.compile(
    r"^(tensorflow|tf[-_]|tfscale|keras|nvidia[-_]|cuda[-_]|libtpu|jax|torch$|torch_xla|horovod|mpi4py|numpy$|scipy$|"
    r"pandas$|protobuf$|grpcio$|h5py$|ml_dtypes$|onednn|intel[-_]|mkl|pydantic$|duckdb$|psutil$|xprof|tensorboard)"
)
_DIST_INFO = re.compile(r"^(?P<name>.+)-(?P<version>[^-]+)\.dist-info$")
_PASSWORD = re.compile(r"(?<=://)[^/@\s]+(?=@)")


@dataclass(frozen=True)
class Process:
    """Plain data, so that a bundle can carry it beside what its sources answered."""

    python: str
    machine: str
    libc: str
    packages: dict[str, str] = field(default_factory=dict)
    variables: dict[str, str] = field(default_factory=dict)
    """Allow-listed by `suite.spec.recordable`."""
    placed: dict[str, str] = field(default_factory=dict)
    """Variables of scheduler and container."""
    tensorflow_build: dict[str, Any] = field(default_factory=dict)
    tfscale_folder: str = ""
    working_directory: str = ""

    @classmethod
    def here(cls, environ: Mapping[str, str] = os.environ) -> "Process":
        return cls(
            python=platform.python_version(),
            machine=platform.machine(),
            libc=_libc(),
            packages={name: version for name, version in distributions().items() if _RELEVANT.match(name)},
            variables={name: hushed(value) for name, value in sorted(environ.items()) if recordable(name)},
            placed=_placed(environ),
            tensorflow_build=build_info(),
            tfscale_folder=str(Path(__file__).resolve().parents[2]),
            working_directory=_working_directory(),
        )

    def document(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> "Process":
        """The process that `document()` describes. Raises ValueError for anything else."""
        try:
            return cls(**document)
        except TypeError as error:
            raise ValueError(f"these are not the facts of a process: {error}") from error


def _placed(environ: Mapping[str, str]) -> dict[str, str]:
    present = {name: environ[name] for name in CONTAINER_VARIABLES if name in environ}
    return {name: hushed(value) for name, value in {**scheduler_variables(environ), **present}.items()}


def hushed(value: str) -> str:
    """A variable's value without user and password of a URL in it."""
    return _PASSWORD.sub("***", value)


def _libc() -> str:
    try:
        return os.confstr("CS_GNU_LIBC_VERSION") or "unknown"
    except (ValueError, OSError):  # not glibc
        return "unknown"


def _working_directory() -> str:
    try:
        return str(Path.cwd())
    except FileNotFoundError:  # it was removed under us
        return ""


def distributions() -> dict[str, str]:
    """Name -> version of every installed distribution, by the names of the .dist-info folders (PEP 376 and 427).

    The first on sys.path counts, as for imports. Metadata files are not opened: there may be hundreds.
    """
    found: dict[str, str] = {}
    for entry in sys.path:
        try:
            names = sorted(path.name for path in Path(entry or ".").iterdir())
        except OSError:
            continue  # zip files and folders that do not exist are legal entries
        for name in names:
            match = _DIST_INFO.match(name)
            if match:
                found.setdefault(match["name"].lower().replace("_", "-"), match["version"])
    return dict(sorted(found.items()))


def build_info() -> dict[str, Any]:
    """TensorFlow's build flags, read from its generated `build_info.py` as text: importing it would import TensorFlow.

    Null `cuda_version`, ... of a CPU build are simply not in it; {"reason"} where the file cannot be read.
    """
    spec = find_spec("tensorflow")
    if spec is None or not spec.submodule_search_locations:
        return {"reason": "TensorFlow is not installed"}
    path = Path(spec.submodule_search_locations[0]) / "python/platform/build_info.py"
    try:
        return parse_build_info(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, SyntaxError) as error:
        return {"reason": f"TensorFlow's build_info.py tells nothing: {error}"}


def parse_build_info(source: str) -> dict[str, Any]:
    """The flags in the text of build_info.py: one assignment of pairs of literals. ValueError where there is none."""
    for node in ast.parse(source).body:
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call) and node.value.args:
            names = [target.id for target in node.targets if isinstance(target, ast.Name)]
            if "build_info" in names:
                return dict(ast.literal_eval(node.value.args[0]))
    raise ValueError("no assignment of build_info")
