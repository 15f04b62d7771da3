"""The gcloud commands of a run on Cloud TPU VMs, from making the slice to removing it."""

import shlex
from pathlib import Path

from tfscale.suite.launchers.tpu_vm.settings import TpuVm
from tfscale.suite.rendering import Rendered, Wanted, not_for_tpu

NOTES = (
    "Never run on a TPU pod: these commands are written from documentation.",
    "One process on worker 0 drives all hosts of the slice; the others run the TPU runtime of their image.",
    "Before the run, install tfscale with its extra `tpu` on worker 0 (Python 3.11 or later), with the TensorFlow "
    "version that `version` names: it must be the runtime's.",
)


def render(wanted: Wanted) -> Rendered:
    """Make a slice, copy the suite, run it on worker 0, fetch the results, remove the slice.

    Raises ValueError where the suite has no `cluster.tpu_vm`, or cases that are not for a TPU.
    """
    settings = wanted.suite.cluster.tpu_vm
    if settings is None:
        raise ValueError("launcher tpu_vm needs cluster.tpu_vm with zone, accelerator_type and version")
    if (reason := not_for_tpu(wanted.suite)) is not None:
        raise ValueError(reason)
    return Rendered(launcher="tpu_vm", notes=NOTES, commands=_commands(settings, wanted))


def _commands(settings: TpuVm, wanted: Wanted) -> tuple[tuple[str, ...], ...]:
    def gcloud(verb: str, *words: str) -> tuple[str, ...]:
        project = ("--project", settings.project) if settings.project else ()
        return ("gcloud", "compute", "tpus", "tpu-vm", verb, *words, "--zone", settings.zone, *project)

    suite = wanted.suite.name + ".yaml"
    run = ["tfscale", "run", suite, "--launcher", "local", "--results", "results", *wanted.options]
    # The value of --command goes through the shell of the VM, so its words are quoted; the tuple itself needs none.
    remote = shlex.join(["env", f"TPU_NAME={settings.name}", "TPU_LOAD_LIBRARY=0", *run])
    kind = ("--accelerator-type", settings.accelerator_type, "--version", settings.version)
    return (
        gcloud("create", settings.name, *kind),
        gcloud("scp", _local(wanted.path), f"{settings.name}:{suite}", "--worker", "0"),
        gcloud("ssh", settings.name, "--worker", "0", "--command", remote),
        gcloud("scp", "--recurse", f"{settings.name}:results", ".", "--worker", "0"),
        gcloud("delete", settings.name),
    )


def _local(path: str) -> str:
    """`path` as `scp` takes it for a file of this machine, whatever its name begins with or holds."""
    return path if Path(path).is_absolute() else f"./{path}"
