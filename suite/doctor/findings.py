"""What doctor answers with: one finding a question, and the document of all."""

from collections.abc import Sequence
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field

from tfscale.suite.record import Strict

SCHEMA: Literal["tfscale.doctor/1"] = "tfscale.doctor/1"

Topic = Literal[
    "training",
    "strategy",
    "precision",
    "xla",
    "collective",
    "profiler",
    "counters",
    "fabric",
    "limits",
    "suite",
    "security",
]
Answer = Literal["works", "fails", "unknown", "shown"]
"""shown: a fact that is for the reader to judge."""


class Finding(Strict):
    """One answer. `basis`: measured, it was tried just now; derived, it follows from what the machine is."""

    topic: Topic
    name: str
    answer: Answer
    basis: Literal["measured", "derived"]
    detail: str
    fix: str | None = None
    """What to do where it fails or is unknown, or about what is shown."""
    evidence: dict[str, Any] = Field(default_factory=dict)


class Examination(Strict):
    """The document of `tfscale doctor`."""

    model_config = ConfigDict(populate_by_name=True)

    schema_: Annotated[Literal["tfscale.doctor/1"], Field(alias="schema")] = SCHEMA
    environment: dict[str, Any]
    findings: tuple[Finding, ...]
    seconds: float
    """Wall time of the examination."""

    def failing(self, topics: Sequence[Topic]) -> list[Finding]:
        return [finding for finding in self.findings if finding.topic in topics and finding.answer == "fails"]
