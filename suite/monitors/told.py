"""A monitor of what another vendor's program prints about its devices: one command tells all columns of all devices."""

import time
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

from tfscale.suite.monitors.base import Column, Monitor, Target
from tfscale.suite.sources.base import Answer, Sources

EVERY_S = 10.0
"""Such a program is a Python process of its own, which costs as much of a core as a hundred readings of a file."""

Told = Mapping[str, Mapping[str, float | None]]
"""Device -> field -> value in base units, None where the program has none (`N/A`)."""


@dataclass(frozen=True, slots=True)
class Figure:
    """A column that each device has."""

    name: str
    unit: str
    kind: Literal["gauge", "counter"] = "gauge"
    wraps_at: float = 2.0**64


class Telling(Monitor):
    """Asks `command` when sampling begins and every 10 s; where that is not there, never again."""

    command: ClassVar[str]
    figures: ClassVar[Sequence[Figure]]

    def __init__(self, sources: Sources, target: Target) -> None:
        super().__init__(sources, target)
        self._asked: float | None = None

    @abstractmethod
    def parse(self, output: str) -> Told:
        """What the program printed. Raises ValueError where it is of another shape."""

    def columns(self) -> Sequence[Column]:
        answer, told = self._ask()
        if not told:
            state = "unsupported" if answer.ok else answer.state
            reason = answer.reason or f"`{self.command}` names no device"
            return [replace(self._column(self.figures[0], None), state=state, reason=reason)]
        return [self._with_state(figure, device, found) for device, found in told.items() for figure in self.figures]

    def sample(self, columns: Sequence[Column]) -> list[float | None]:
        if self._asked is not None and time.monotonic() - self._asked < EVERY_S:
            return [None] * len(columns)
        _, told = self._ask()
        return [told.get(str(column.device), {}).get(column.name) for column in columns]

    def _ask(self) -> tuple[Answer, Told]:
        self._asked = time.monotonic()
        answer = self.sources.commands.ask(self.command)
        if not answer.ok:
            return answer, {}
        if answer.value["rc"] != 0:
            last = (answer.value["stderr"].strip().splitlines() or ["no message"])[-1]
            why = f"`{self.command}` ended with code {answer.value['rc']}: {last[:200]}"
            return Answer(state="error", reason=why), {}
        try:
            return answer, self.parse(answer.value["stdout"])
        except ValueError as error:
            return Answer(state="error", reason=f"what `{self.command}` printed is not understood: {error}"), {}

    def _column(self, figure: Figure, device: str | None) -> Column:
        return Column(figure.name, figure.unit, figure.kind, device, slow=True, wraps_at=figure.wraps_at)

    def _with_state(self, figure: Figure, device: str, found: Mapping[str, float | None]) -> Column:
        column = self._column(figure, device)
        if found.get(figure.name) is not None:
            return column
        reason = f"`{self.command}` does not tell it of this device"
        return replace(column, state="unsupported", reason=reason)
