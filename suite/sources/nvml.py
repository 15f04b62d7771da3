"""NVIDIA cards through NVML. `nvmlfields` says what is read and in which unit.

Never run here on a real card: a double of the library, loaded by the real binding, stands in.
"""

import ctypes
from collections.abc import Sequence
from typing import Any, ClassVar

from tfscale.suite.sources.base import Answer, Source
from tfscale.suite.sources.nvmlerrors import failure, refusal
from tfscale.suite.sources.nvmlevents import Gpm, Xids
from tfscale.suite.sources.nvmlfields import CALLS, FIELDS, GPM, HOST, XID

LIBRARY = "libnvidia-ml.so.1"
VALUES = ("dVal", "uiVal", "ulVal", "ullVal", "sllVal", "siVal", "usVal")
"""Member of the value union by nvmlValueType_t."""


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
        self._calls: dict[tuple[str, ...], Any] = {}

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
        found = self._values(handle, fields)
        called: dict[str, Any] = {}
        for field in fields:
            if field in found:
                continue
            if field in FIELDS:
                found[field] = self._called(handle, field, called)
            elif field in GPM or field == XID:
                found |= self._told(index, handle, field)
            else:
                found[field] = _unknown(f"{index}/{field}")
        return [found[field] for field in fields]

    def under(self, key: str) -> list[str]:
        count = self.ask("count")
        return sorted((str(index) for index in range(count.value)), key=int) if count.ok and not key else []

    def _called(self, handle: Any, name: str, called: dict[str, Any]) -> Answer:
        """A field that a call of its own answers; `called` keeps what calls have answered so far."""
        field = FIELDS[name]
        if field.call not in called:
            try:
                called[field.call] = CALLS[field.call](self._binding, handle)
            except Exception as error:  # whatever the binding raises
                called[field.call] = failure(self._binding, error)
        result = called[field.call]
        if isinstance(result, Answer):
            return result
        try:
            value = field.pick(result)
            return Answer(value if field.factor is None else value * field.factor)
        except Exception as error:  # an old structure lacks what a new one has
            return failure(self._binding, error)

    def _values(self, handle: Any, fields: Sequence[str]) -> dict[str, Answer]:
        """Those of `fields` that are field ids, in one call; each value comes with a return code of its own."""
        key = tuple(fields)
        if key not in self._calls:
            named = [name for name in fields if name in FIELDS and FIELDS[name].id]
            ids = [(getattr(self._binding, FIELDS[name].id, None), FIELDS[name].scope) for name in named]
            self._calls[key] = (named, ids)
        named, ids = self._calls[key]
        if not named:
            return {}
        if any(number is None for number, _ in ids):
            reason = "the installed pynvml is too old for it: install nvidia-ml-py 12.560 or later"
            return dict.fromkeys(named, Answer(state="unsupported", reason=reason))
        try:
            values = self._binding.nvmlDeviceGetFieldValues(handle, ids)
        except Exception as error:  # whatever the binding raises
            return dict.fromkeys(named, failure(self._binding, error))
        return {name: self._value(name, value) for name, value in zip(named, values, strict=True)}

    def _value(self, name: str, value: Any) -> Answer:
        if value.nvmlReturn:
            return refusal(self._binding, int(value.nvmlReturn))
        if not 0 <= value.valueType < len(VALUES):
            return Answer(state="error", reason=f"NVML gave a value of type {value.valueType}, which is not known here")
        number = getattr(value.value, VALUES[value.valueType])
        factor = FIELDS[name].factor
        return Answer(number if factor is None else number * factor)

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


def _unknown(key: str) -> Answer:
    return Answer(state="unsupported", reason=f"{key} is not something that is read from NVML here")
