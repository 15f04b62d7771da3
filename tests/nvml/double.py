"""Builds the C library that stands in for libnvidia-ml.so.1, and says what a process needs to load it.

The library's cards are described by a scenario (scenarios/*.txt; the format is at the head of scenario.h).
"""

import os
import shutil
import subprocess
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
SCENARIOS = FOLDER / "scenarios"
_FLAGS = ["-std=gnu11", "-O1", "-Wall", "-Wextra", "-shared", "-fPIC"]


def compiler() -> str | None:
    """The C compiler's path, None where there is none."""
    return shutil.which("gcc") or shutil.which("cc")


def build(folder: Path) -> Path:
    """Build the library into `folder`; its path. Raises CalledProcessError with the compiler's words in its output."""
    found = compiler()
    if found is None:
        raise FileNotFoundError("no C compiler (gcc or cc) on the PATH: install one to build the NVML double")
    library = folder / "libnvidia-ml.so.1"
    command = [found, *_FLAGS, "-o", str(library), str(FOLDER / "nvml_double.c")]
    subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    return library


def environment(library: Path, scenario: str | Path) -> dict[str, str]:
    """The variables under which a new process loads `library` with a scenario: a name in scenarios/, or a file.

    The loader reads LD_LIBRARY_PATH when a process starts, so setting it in this one has no effect.
    """
    path = SCENARIOS / f"{scenario}.txt" if isinstance(scenario, str) else scenario
    if not path.is_file():
        known = ", ".join(sorted(file.stem for file in SCENARIOS.glob("*.txt")))
        raise FileNotFoundError(f"scenario {scenario}: {path} is no file; there are {known}")
    paths = [str(library.parent), os.environ.get("LD_LIBRARY_PATH", "")]
    return {"LD_LIBRARY_PATH": ":".join(filter(None, paths)), "TFSCALE_NVML_SCENARIO": str(path.resolve())}
