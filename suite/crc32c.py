"""CRC-32C (Castagnoli, reflected polynomial 0x82F63B78) of many byte rows at once, in numpy.

TFRecord files, and so TensorBoard's event files, carry it twice a record. One row after the other in Python would take
seconds a megabyte, so every row is cut into pieces whose checksums advance together, and the pieces are joined with the
rule that a checksum is linear:
crc(A B) = shift(crc(A), bytes of B) xor crc(B), where shift advances a state over zero bytes.
"""

from functools import cache

import numpy as np
from numpy.typing import NDArray

POLYNOMIAL = 0x82F63B78
PIECE = 64
"""Bytes of a piece: even, and long enough that joining costs little beside the pieces themselves."""
_MASK_DELTA = np.uint32(0xA282EAD8)

Words = NDArray[np.uint32]
Bytes = NDArray[np.uint8]


@cache
def _two_byte_table() -> Words:
    """State after two bytes, for each of the 65536 values of (state xor bytes) & 0xffff."""
    state = np.arange(65536, dtype=np.uint32)
    for _ in range(16):
        state = (state >> np.uint32(1)) ^ np.where(state & np.uint32(1), np.uint32(POLYNOMIAL), np.uint32(0))
    return state.astype(np.uint32)


def _advance(state: Words, pairs: NDArray[np.uint16]) -> Words:
    """The states after the columns of `pairs` (rows x byte pairs, little endian), one state a row."""
    table = _two_byte_table()
    for column in pairs.T:
        state = table[(state & np.uint32(0xFFFF)) ^ column] ^ (state >> np.uint32(16))
    return state


@cache
def _shift_tables(length: int) -> tuple[Words, Words]:
    """Tables of the linear map "advance over `length` zero bytes", for the low and high half of a state.

    `length` is PIECE times a power of two, so each map is the one of half the length applied twice.
    """
    halves = np.arange(65536, dtype=np.uint32)
    low, high = halves, halves << np.uint32(16)
    if length == PIECE:
        zeros = np.zeros((65536, PIECE // 2), np.uint16)
        return _advance(low, zeros), _advance(high, zeros)
    return _shift(_shift(low, length // 2), length // 2), _shift(_shift(high, length // 2), length // 2)


def _shift(state: Words, length: int) -> Words:
    low, high = _shift_tables(length)
    shifted: Words = low[state & np.uint32(0xFFFF)] ^ high[state >> np.uint32(16)]
    return shifted


def crc32c_rows(rows: Bytes) -> Words:
    """Checksum of each row of `rows` (n x length, uint8). Rows shorter than 4 bytes go through their own short loop."""
    count, length = rows.shape
    if length < 4:
        return np.array([_crc32c_short(row.tobytes()) for row in rows], np.uint32)
    pieces = 1 << max(0, -(-length // PIECE) - 1).bit_length()
    # Leading zeros leave a zero state at zero, so padding goes in front; the initial state of all ones is the same as
    # a zero state with the first four bytes inverted.
    padded = np.zeros((count, pieces * PIECE), np.uint8)
    padded[:, pieces * PIECE - length :] = rows
    padded[:, pieces * PIECE - length : pieces * PIECE - length + 4] ^= np.uint8(0xFF)
    pairs = padded.reshape(count * pieces, PIECE).view("<u2")
    state = _advance(np.zeros(count * pieces, np.uint32), pairs).reshape(count, pieces)
    width = PIECE
    while state.shape[1] > 1:
        state = _shift(state[:, 0::2], width) ^ state[:, 1::2]
        width *= 2
    return ~state[:, 0]


def _crc32c_short(data: bytes) -> int:
    state = 0xFFFFFFFF
    for byte in data:
        state ^= byte
        for _ in range(8):
            state = (state >> 1) ^ (POLYNOMIAL if state & 1 else 0)
    return state ^ 0xFFFFFFFF


def crc32c(data: bytes) -> int:
    """Checksum of one byte string."""
    return int(crc32c_rows(np.frombuffer(data, np.uint8)[None, :])[0])


def masked(crc: Words) -> Words:
    """The rotation and offset that TFRecord applies, so that a checksum of data with checksums in it stays sound."""
    return ((crc >> np.uint32(15)) | (crc << np.uint32(17))) + _MASK_DELTA
