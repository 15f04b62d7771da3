"""What the text of an HLO instruction says: bytes of its shape, replica groups. Pure.

Syntax: https://openxla.org/xla/operation_semantics and xla/hlo/ir (iota replica groups).
"""

import math
import re

import numpy as np

_BITS = {
    "pred": 8, "s2": 2, "u2": 2, "s4": 4, "u4": 4, "s8": 8, "u8": 8, "s16": 16, "u16": 16, "s32": 32, "u32": 32,
    "s64": 64, "u64": 64, "f4e2m1fn": 4, "f8e5m2": 8, "f8e4m3": 8, "f8e4m3fn": 8, "f8e4m3b11fnuz": 8, "f8e3m4": 8,
    "f8e5m2fnuz": 8, "f8e4m3fnuz": 8, "f8e8m0fnu": 8, "bf16": 16, "f16": 16, "f32": 32, "f64": 64, "c64": 64,
    "c128": 128,
}  # fmt: skip
_SHAPE = re.compile(r"\b([a-z][a-z0-9]{0,15})\[([0-9,]{0,200})\]")
_IOTA = re.compile(r"replica_groups=\[([0-9,]{1,200})\]<=\[([0-9,]{1,200})\](?:T\(([0-9,]{1,200})\))?")
_LISTED = re.compile(r"replica_groups=\{((?:\{[0-9, ]*\},? *)+)\}")
_START = re.compile(r"-start(?=$|[._])")
_DONE = re.compile(r"-done(?=$|[._])")
_WAITED = re.compile(r"-done\([^%]{0,1000}%([\w.-]+)")
_LARGEST = 2**50
"""Bytes of a shape that may be true."""


def shape_bytes(text: str) -> int | None:
    """Bytes of the first shape in `text` (`f32[5,1024]{1,0}`), of all parts where it is a tuple; None without one."""
    head = text.partition(" = ")[2] or text
    head = head.lstrip()
    if head.startswith("("):
        inner = head[1 : _closing(head)]
        found = [_one(match) for match in _SHAPE.finditer(inner)]
    else:
        match = _SHAPE.search(head)
        found = [_one(match)] if match else []
    known = [size for size in found if size is not None]
    return sum(known) if known and len(known) == len(found) else None


def _closing(text: str) -> int:
    depth = 0
    for at, letter in enumerate(text):
        depth += (letter == "(") - (letter == ")")
        if depth == 0:
            return at
    return len(text)


def _one(match: re.Match[str]) -> int | None:
    bits = _BITS.get(match[1])
    if bits is None:
        return None
    size = -(-math.prod(_numbers(match[2])) * bits // 8)
    return size if size <= _LARGEST else None


def replica_groups(text: str) -> list[tuple[int, ...]] | None:
    """The replica groups of a collective instruction, listed or in iota form; None where it names none."""
    if match := _IOTA.search(text):
        shape, dims = _numbers(match[1]), _numbers(match[2])
        if math.prod(shape) != math.prod(dims) or len(shape) != 2 or math.prod(dims) > 10**6:
            return None
        ids = np.arange(math.prod(dims)).reshape(dims)
        if match[3]:
            order = _numbers(match[3])
            if sorted(order) != list(range(ids.ndim)):
                return None
            ids = ids.transpose(order)
        return [tuple(int(i) for i in group) for group in ids.reshape(shape)]
    if match := _LISTED.search(text):
        groups = [tuple(_numbers(group)) for group in re.findall(r"\{([0-9, ]*)\}", match[1])]
        return [group for group in groups if group] or None
    return None


def instruction(text: str) -> str:
    """The name of an instruction, `%all-reduce.3 = ...` or alone, without its `%`."""
    return text.partition(" = ")[0].strip().removeprefix("%")


def is_start(text: str) -> bool:
    """Whether an instruction only starts what its done ends."""
    return _START.search(instruction(text)) is not None


def is_done(text: str) -> bool:
    return _DONE.search(instruction(text)) is not None


def started_by(text: str) -> str:
    """The name of the start that a done waits for: its first operand, else its own name as the start's."""
    if match := _WAITED.search(text):
        return match[1]
    return _DONE.sub("-start", instruction(text))


def _numbers(text: str) -> list[int]:
    return [int(part) for part in re.findall(r"[0-9]{1,9}", text)]
