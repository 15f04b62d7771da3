"""What doctor reads without trying: counters, profiling rights, and what the installed TensorFlow is."""

from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from tfscale.suite import registry
from tfscale.suite.doctor.findings import Finding
from tfscale.suite.monitors.base import Column, Monitor, Target
from tfscale.suite.sources.base import Sources

PACKAGES = ("tensorflow", "tensorflow-cpu", "tensorflow-tpu")
PROFILING = "proc/driver/nvidia/params"


def tensorflow() -> Finding:
    """Whether TensorFlow is installed, without importing it."""
    found = {name: told for name in PACKAGES if (told := _version(name))}
    if not found:
        return Finding(
            topic="training",
            name="tensorflow",
            answer="fails",
            basis="derived",
            detail="no TensorFlow is installed for this Python; reading, reports and traces work without",
            fix="pip install 'tfscale[cpu]' or 'tfscale[gpu]', or the tensorflow of your cluster into this environment",
        )
    detail = ", ".join(f"{name} {told}" for name, told in found.items())
    return Finding(topic="training", name="tensorflow", answer="works", basis="derived", detail=detail, evidence=found)


def counters(sources: Sources) -> Iterator[Finding]:
    """Each monitor and what it can sample here."""
    for name in registry.names("monitors"):
        monitor: Monitor = registry.load("monitors", name)(sources, Target(folder=Path(), visible={}))
        try:
            columns = list(monitor.columns())
        finally:
            monitor.close()
        yield of_columns(name, columns)


def of_columns(name: str, columns: list[Column]) -> Finding:
    """What a monitor with these columns can do."""
    good = [column for column in columns if column.state == "ok"]
    missing = {
        column.key: {"state": column.state, "reason": column.reason} for column in columns if column.state != "ok"
    }
    reasons = list(dict.fromkeys(f"{column.reason}" for column in columns if column.state != "ok"))
    evidence = {"sampled": [column.key for column in good], "unsampled": missing}
    if not good:
        detail = reasons[0] if reasons else "there is nothing of this kind here"
        return Finding(
            topic="counters", name=name, answer="unknown", basis="measured", detail=detail, evidence=evidence
        )
    detail = f"{len(good)} series" + (f", {len(missing)} not: {reasons[0]}" if missing else "")
    return Finding(topic="counters", name=name, answer="works", basis="measured", detail=detail, evidence=evidence)


def profiler(sources: Sources) -> Iterator[Finding]:
    """Whether the NVIDIA driver lets everybody profile; nothing to say where there is no such driver."""
    answer = sources.files.ask(PROFILING)
    if answer.state == "absent":
        return
    admin_only = answer.ok and "RmProfilingAdminOnly: 1" in answer.value
    yield Finding(
        topic="profiler",
        name="gpu counters",
        answer="unknown" if not answer.ok else "fails" if admin_only else "works",
        basis="derived",
        detail="the NVIDIA driver keeps profiling to administrators: GPU planes of a profile stay empty for others"
        if admin_only
        else answer.reason or "the NVIDIA driver lets every user profile",
        fix="options nvidia NVreg_RestrictProfilingToAdminUsers=0 in /etc/modprobe.d, or CAP_SYS_ADMIN"
        if admin_only
        else None,
    )


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
