"""Just enough of TensorBoard's event files to write scalars and read them back. Knows no callbacks.

record  u64 length | u32 masked CRC-32C of it | an Event in protobuf's encoding | u32 masked CRC-32C of it
Event   1: time (double)  2: step (varint)  3: version (text)  5: Summary of 1: Value of 1: tag, 2: value (float)
"""

import struct
import time
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from typing import Any

from samovar.config.records import as_corrupt


def version_record() -> bytes:
    """The first record of a file."""
    return _record(struct.pack("<Bd", 0x09, 0.0) + _field(0x1A, b"brain.Event:2"))


def scalar_record(tag: str, step: int, value: float, wall_time: float) -> bytes:
    """One point of a curve."""
    scalar = _field(0x0A, tag.encode()) + struct.pack("<Bf", 0x15, value)
    event = struct.pack("<Bd", 0x09, wall_time) + b"\x10" + _varint(step) + _field(0x2A, _field(0x0A, scalar))
    return _record(event)


class ScalarWriter:
    """The only writer of scalars. `append` keeps the bytes: in a result directory, or in a file of its own."""

    def __init__(self, append: Callable[[bytes], None], clock: Callable[[], float] = time.time) -> None:
        self._append = append
        self._clock = clock

    def begin(self) -> None:
        """Write the record that every file starts with."""
        self._append(version_record())

    def write(self, step: int, scalars: Iterable[tuple[str, Any]]) -> None:
        """Write one record per (tag, value). Values that are not numbers are skipped."""
        numbers = [(tag, float(value)) for tag, value in scalars if isinstance(value, int | float)]
        if numbers:
            self._append(b"".join(scalar_record(tag, step, value, self._clock()) for tag, value in numbers))


def read_scalars(data: bytes) -> Iterator[tuple[str, int, float]]:
    """The (tag, step, value) of each record that `scalar_record` made, in order."""
    position = 0
    while position < len(data):
        with as_corrupt(f"event file, the record at byte {position}"):
            position, scalar = _read_record(data, position)
        if scalar is not None:
            yield scalar


def _read_record(data: bytes, position: int) -> tuple[int, tuple[str, int, float] | None]:
    """Where the next record starts, and the scalar of this one, if it has one."""
    (length,) = struct.unpack_from("<Q", data, position)
    if length > len(data) - position - 16:
        raise ValueError(f"it claims {length} bytes")
    event = data[position + 12 : position + 12 + length]
    (expected,) = struct.unpack_from("<I", data, position + 12 + length)
    if _masked(event) != expected:
        raise ValueError("wrong checksum")
    return position + 16 + length, _parse_scalar(event) if event[9:10] == b"\x10" else None


def _parse_scalar(event: bytes) -> tuple[str, int, float]:
    step, place = _read_varint(event, 10)
    for _ in range(2):  # into the summary, into its value
        _, place = _read_varint(event, place + 1)
    size, place = _read_varint(event, place + 1)
    tag = event[place : place + size].decode()
    (value,) = struct.unpack_from("<f", event, place + size + 1)
    return tag, step, value


def _record(event: bytes) -> bytes:
    length = struct.pack("<Q", len(event))
    return length + struct.pack("<I", _masked(length)) + event + struct.pack("<I", _masked(event))


def _field(key: int, data: bytes) -> bytes:
    return bytes([key]) + _varint(len(data)) + data


def _varint(number: int) -> bytes:
    out = bytearray()
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])


def _read_varint(data: bytes, place: int) -> tuple[int, int]:
    number = shift = 0
    while True:
        number |= (data[place] & 0x7F) << shift
        place += 1
        if data[place - 1] < 0x80:
            return number, place
        shift += 7


def _masked(data: bytes) -> int:
    crc = 0xFFFFFFFF
    table = _crc_table()
    for byte in data:
        crc = table[(crc ^ byte) & 0xFF] ^ (crc >> 8)
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


@cache
def _crc_table() -> tuple[int, ...]:
    table = []
    for byte in range(256):
        crc = byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
        table.append(crc)
    return tuple(table)
