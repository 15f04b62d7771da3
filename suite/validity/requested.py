"""Is what was asked for what ran: the collective, the arithmetic, XLA? What cannot be read back is unknown, not assumed."""

from collections.abc import Iterator

from tfscale.suite.record import Check
from tfscale.suite.spec import Precision
from tfscale.suite.validity.base import Evidence

MATH: dict[Precision, str] = {
    "float32": "float32",
    "tf32": "tf32",
    "mixed_bfloat16": "bfloat16",
    "mixed_float16": "float16",
}
"""The arithmetic of matrix products that each precision asks for."""


def collective(evidence: Evidence) -> Iterator[Check]:
    """NCCL asked for on CPUs runs as something else without an error."""
    case, effective = evidence.case, evidence.effective
    if case.collective == "auto" or "collective" not in effective:
        return
    got, reason = effective["collective"], effective.get("collective_reason")
    asked = {"requested": case.collective, "effective": got}
    if got is None:
        yield Check(
            name="collective",
            status="UNKNOWN",
            detail=f"{case.collective} was asked for; what ran is unknown: {reason or 'no reason given'}",
            evidence=asked,
            advice="a profile shows the kernels of the collective that ran",
        )
        return
    same = got == case.collective
    yield Check(
        name="collective",
        status="VALID" if same else "INVALID",
        detail=f"{case.collective} was asked for, {got} ran" + (f" ({reason})" if reason else ""),
        evidence=asked,
        advice=None if same else "ask for the collective that this hardware has",
    )


def precision(evidence: Evidence) -> Iterator[Check]:
    """The arithmetic that was asked for: proved where something shows it, else only taken from the device's features.

    A precision that the device multiplies in another format keeps a valid time; the case is labelled, not refused.
    """
    effective, wanted = evidence.effective, MATH[evidence.case.precision]
    math, proof = effective.get("math"), effective.get("math_proof")
    told = {"requested": wanted, "effective": math, "proof": proof}
    why = effective.get("math_reason") or effective.get("math_proof_reason")
    if math is None:
        detail = f"whether matrices are multiplied as {wanted} is unknown: {why or 'no reason given'}"
        yield Check(name="precision", status="UNKNOWN", detail=detail, evidence=told)
    elif math != wanted:
        yield Check(
            name="precision",
            status="SUSPECT",
            detail=f"{wanted} products were asked for, the device multiplies as {math}" + (f": {why}" if why else ""),
            evidence=told,
            advice=f"compare this case with {math} cases only, or run it where {wanted} is in hardware",
        )
    elif proof is not None or wanted == "float32":
        shown = f", shown by {proof}" if proof else ""
        yield Check(name="precision", status="VALID", detail=f"matrices are multiplied as {math}{shown}", evidence=told)
    else:
        yield Check(
            name="precision",
            status="UNKNOWN",
            detail=f"the device can multiply as {math}; that it did is not shown" + (f": {why}" if why else ""),
            evidence=told,
            advice="a profile shows the names of the kernels",
        )


def xla(evidence: Evidence) -> Iterator[Check]:
    """XLA compiled what it was asked to, and nothing where it was not asked."""
    asked, effective = evidence.case.xla, evidence.effective
    if "xla" not in effective:
        return
    got, reason = effective["xla"], effective.get("xla_reason")
    told = {"requested": asked, "effective": got, "clusters": effective.get("xla_clusters")}
    if got == asked:
        yield Check(name="xla", status="VALID", detail=f"xla {asked}, as asked for", evidence=told)
    elif got is None and asked == "auto":
        yield Check(name="xla", status="SUSPECT", detail=f"xla auto compiled nothing: {reason}", evidence=told)
    else:
        yield Check(
            name="xla",
            status="INVALID",
            detail=f"xla {asked} was asked for, {got or 'nothing'} was in force" + (f": {reason}" if reason else ""),
            evidence=told,
            advice="take XLA flags out of the environment (TF_XLA_FLAGS), and ask for XLA with the xla axis",
        )
