"""NVIDIA cards through NVML. `nvmlfields` says what is read and in which unit.

Never run here on a real card: a double of the library, loaded by the real binding, stands in.
"""

import ctypes
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from tfscale.suite.sources.base import Answer, Source
from tfscale.suite.sources.nvmlerrors import OLD_BINDING, failure, refusal
from tfscale.suite.sources.nvmlevents import Gpm, Xids
from tfscale.suite.sources.nvmlfields import CALLS, FIELDS, GPM, HOST, XID, Call, Field

LIBRARY = "libnvidia-ml.so.1"
VALUE_TYPES = "dIQQqiH"
"""Format of the value by nvmlValueType_t; an unsigned long has 64 bits where there is NVML but not Windows."""
_FIELD_VALUE = struct.Struct("=IIqqII8s")
"""nvmlFieldValue_t: field id, scope, timestamp, latency, value type, return code, value. The binding's own way into its
structures runs Python for each member, which ten times a second for eight cards would be half of the monitor's cost."""
_NOT_AVAILABLE = {1: 2**32 - 1, 2: 2**64 - 1, 3: 2**64 - 1}
"""Type -> the number that stands for none: NVML_VALUE_NOT_AVAILABLE, -1 in an unsigned number."""
_UNPACK = [struct.Struct(f"={letter}").unpack_from for letter in VALUE_TYPES]


@dataclass(frozen=True)
class _Plan:
    """How some fields are read; numbers are places among them."""

    ids: list[tuple[int, int]]
    """(field id, scope) of those that one call reads."""
    valued: list[tuple[int, float | None]]
    """(place, factor) of each id."""
    called: list[tuple[Call, list[tuple[int, Field]]]]
    """Calls, each with the fields that it answers."""
    rest: list[tuple[int, str]]
    """Those that are told over time, and those that nobody knows."""
    missing: list[int]
    """Those whose id the binding lacks."""


def ask_many(source: Source, index: int, fields: Sequence[str]) -> list[Answer]:
    """Fields of one card, in one go where the source can."""
    if isinstance(source, Nvml):
        return source.ask_many(index, fields)
    return [source.ask(f"{index}/{field}") for field in fields]


class Nvml(Source):
    """Keys: `driver`, `cuda_driver`, `count`, and `<index>/<field>` for the fields of FIELDS and GPM, and `xid`.

    Values are in the units of those tables. `xid` empties what it tells: each event is answered once.
    """

    name: ClassVar[str] = "nvml"

    def __init__(self) -> None:
        self._binding: Any = None
        self._missing: Answer | None = None
        self._handles: dict[int, Any] = {}
        self._over_time: dict[tuple[type[Gpm | Xids], int], Gpm | Xids | Answer] = {}
        self._plans: dict[tuple[str, ...], _Plan] = {}

    def ask(self, key: str) -> Answer:
        closed = self._open()
        if closed is not None:
            return closed
        index, _, field = key.rpartition("/")
        if index.isdecimal():
            return self.ask_many(int(index), [field])[0]
        if index or field not in HOST:
            return _unknown(key)
        try:
            return Answer(HOST[field](self._binding))
        except Exception as error:  # the binding raises what it likes; asking never does
            return failure(self._binding, error)

    def ask_many(self, index: int, fields: Sequence[str]) -> list[Answer]:
        """The fields of one card: field ids in one call, and each other call made once for all fields that it answers."""
        closed = self._open()
        if closed is not None:
            return [closed] * len(fields)
        handle = self._handle(index)
        if isinstance(handle, Answer):
            return [handle] * len(fields)
        plan = self._plan(fields)
        answers = [Answer()] * len(fields)
        self._read_values(handle, plan, answers)
        for call, asked in plan.called:
            self._read_call(handle, call, asked, answers)
        told: dict[str, Answer] = {}
        for place, name in plan.rest:
            if name not in told:
                known = name in GPM or name == XID
                told |= self._told(index, handle, name) if known else {name: _unknown(f"{index}/{name}")}
            answers[place] = told[name]
        return answers

    def under(self, key: str) -> list[str]:
        count = self.ask("count")
        return sorted((str(index) for index in range(count.value)), key=int) if count.ok and not key else []

    def _plan(self, fields: Sequence[str]) -> _Plan:
        key = tuple(fields)
        if key not in self._plans:
            self._plans[key] = _planned(self._binding, key)
        return self._plans[key]

    def _read_values(self, handle: Any, plan: _Plan, answers: list[Answer]) -> None:
        """Field ids, in one call; each value comes with a return code of its own."""
        for place in plan.missing:
            answers[place] = Answer(state="unsupported", reason=OLD_BINDING)
        if not plan.ids:
            return
        try:
            values = bytes(self._binding.nvmlDeviceGetFieldValues(handle, plan.ids))
        except Exception as error:  # whatever the binding raises
            for place, _ in plan.valued:
                answers[place] = failure(self._binding, error)
            return
        for (place, factor), value in zip(plan.valued, _FIELD_VALUE.iter_unpack(values), strict=True):
            _, _, _, _, kind, code, raw = value
            if code:
                answers[place] = refusal(self._binding, code)
            elif kind >= len(_UNPACK):
                why = f"NVML gave a value of type {kind}, which is not known here"
                answers[place] = Answer(state="error", reason=why)
            else:
                (number,) = _UNPACK[kind](raw)
                if number == _NOT_AVAILABLE.get(kind):
                    answers[place] = Answer(state="unsupported", reason="the driver has no value for this at present")
                    continue
                answers[place] = Answer(number if factor is None else number * factor)

    def _read_call(self, handle: Any, call: Call, asked: list[tuple[int, Field]], answers: list[Answer]) -> None:
        """Fields that one call answers."""
        try:
            result = call(self._binding, handle)
        except Exception as error:  # whatever the binding raises
            for place, _ in asked:
                answers[place] = failure(self._binding, error)
            return
        for place, field in asked:
            try:
                value = field.pick(result)
                answers[place] = Answer(value if field.factor is None else value * field.factor)
            except Exception as error:  # an old structure lacks what a new one has
                answers[place] = failure(self._binding, error)

    def _told(self, index: int, handle: Any, field: str) -> dict[str, Answer]:
        """GPM's metrics, all at once, or the Xid events of a card."""
        kind: type[Gpm | Xids] = Xids if field == XID else Gpm
        names = [XID] if field == XID else list(GPM)
        if (kind, index) not in self._over_time:
            try:
                self._over_time[kind, index] = kind(self._binding, handle)
            except Exception as error:  # whatever the binding raises
                self._over_time[kind, index] = failure(self._binding, error)
        told = self._over_time[kind, index]
        if isinstance(told, Answer):
            return dict.fromkeys(names, told)
        try:
            read = told.read()
        except Exception as error:  # whatever the binding raises
            return dict.fromkeys(names, failure(self._binding, error))
        if isinstance(read, list):
            return {XID: Answer(read)}
        return {name: refusal(self._binding, code) if code else Answer(value) for name, (code, value) in read.items()}

    def _handle(self, index: int) -> Any:
        if index not in self._handles:
            try:
                self._handles[index] = self._binding.nvmlDeviceGetHandleByIndex(index)
            except Exception as error:  # whatever the binding raises
                return failure(self._binding, error)
        return self._handles[index]

    def _open(self) -> Answer | None:
        """None once NVML is initialised, else the answer to everything."""
        if self._binding is not None or self._missing is not None:
            return self._missing
        try:
            ctypes.CDLL(LIBRARY)  # asked first: the binding takes longer to import than most commands run
        except OSError:
            self._missing = Answer(state="absent", reason=f"{LIBRARY} is not there: no NVIDIA driver")
            return self._missing
        try:
            import pynvml
        except ImportError as error:
            reason = f"the NVML binding cannot be imported ({error}): install nvidia-ml-py"
            self._missing = Answer(state="absent", reason=reason)
            return self._missing
        try:
            pynvml.nvmlInit()
        except Exception as error:  # whatever the binding raises
            self._missing = failure(pynvml, error)
            return self._missing
        self._binding = pynvml
        return None


def _planned(nvml: Any, fields: Sequence[str]) -> _Plan:
    plan = _Plan([], [], [], [], [])
    called: dict[str, list[tuple[int, Field]]] = {}
    for place, name in enumerate(fields):
        field = FIELDS.get(name)
        if field is None:
            plan.rest.append((place, name))
        elif field.call:
            called.setdefault(field.call, []).append((place, field))
        elif (number := getattr(nvml, field.id, None)) is None:
            plan.missing.append(place)
        else:
            plan.ids.append((number, field.scope))
            plan.valued.append((place, field.factor))
    plan.called.extend((CALLS[call], asked) for call, asked in called.items())
    return plan


def _unknown(key: str) -> Answer:
    return Answer(state="unsupported", reason=f"{key} is not something that is read from NVML here")
