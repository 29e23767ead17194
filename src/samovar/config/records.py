"""The boundary to files that a stranger may have written: bytes in, typed records out, `CorruptData` for all others.
Knows no file by name: each record is a dataclass beside its reader, and its annotations are what is accepted.

    bytes ─▶ read_json ───▶ plain values: bounded size, depth and digits, no half surrogates
    bytes ─▶ read_record ─▶ a dataclass: strict types, and ranges as the annotations below give them
    a tree ─▶ check_state ─▶ the same, for values with arrays among them, such as the state of a net

No reader of such files parses JSON itself.
"""

import errno
import json
import math
import os
import stat
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from io import BufferedReader
from pathlib import Path
from typing import Annotated, Any, TypeVar, cast

from pydantic import AfterValidator, BeforeValidator, Field, Strict, TypeAdapter, ValidationError
from pydantic_core import from_json

from samovar.errors import CorruptData, NotAResult, SamovarError
from samovar.hours import FIRST_HOUR, LAST_HOUR

T = TypeVar("T")

MAX_BYTES = 64 << 20
"""Of a JSON file; Python needs up to 25 times as much memory for the values in it."""
_MAX_SHOWN = 60
STUMBLES = (
    OSError, ValueError, TypeError, LookupError, AttributeError, ArithmeticError, RuntimeError, MemoryError,
    SyntaxError, struct.error,
)  # fmt: skip
"""What conversions raise; OSError is Arrow's, SyntaxError that of numpy's types."""


def _check_moment(text: str) -> str:
    if datetime.fromisoformat(text).tzinfo is None:
        raise ValueError("a time without its zone")
    return text


def _check_number(value: object) -> object:
    if not isinstance(value, int | float) or isinstance(value, bool):  # pydantic also takes arrays of one number
        raise ValueError("not a number")
    return value


Count = Annotated[int, Field(ge=0, le=2**48)]
"""Of rows, examples, files, versions, lease epochs."""
Size = Annotated[int, Field(ge=0, le=2**60)]
"""In bytes."""
Hour = Annotated[int, Field(ge=FIRST_HOUR, le=LAST_HOUR)]
"""Seconds since 1970 UTC, within the years that a calendar has."""
Moment = Annotated[str, AfterValidator(_check_moment)]
"""ISO 8601, with a time zone."""
Checksum = Annotated[str, Field(pattern="^[0-9a-f]{16}$")]
"""XXH64."""
Text = Annotated[str, Strict()]
Flag = Annotated[bool, Strict()]
Number = Annotated[float, BeforeValidator(_check_number)]
Positive = Annotated[Number, Field(gt=0)]
AtLeastOne = Annotated[int, Strict(), Field(ge=1, le=2**48)]
Natural = Annotated[int, Strict(), Field(ge=0, le=2**48)]
"""These six are for `check_state`, which is strict only where an annotation is."""


def open_regular(path: Path) -> BufferedReader:
    """Open a file that a user names, for reading; `OSError` if it cannot be. A pipe could block, and a device never
    end."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    mode = os.fstat(descriptor).st_mode
    if not stat.S_ISREG(mode):
        os.close(descriptor)
        raise OSError(errno.EISDIR if stat.S_ISDIR(mode) else errno.EINVAL, "not a regular file")
    return open(descriptor, "rb")


def read_regular(path: Path, max_bytes: int = MAX_BYTES) -> bytes:
    """Read a whole file that a user names; `OSError` if it cannot be read."""
    with open_regular(path) as file:
        if os.fstat(file.fileno()).st_size > max_bytes:
            raise OSError(errno.EFBIG, f"it has more than {max_bytes:,} bytes")
        return file.read(max_bytes)


def read_json(data: bytes | memoryview, where: str, max_bytes: int = MAX_BYTES) -> Any:
    """Plain values from the bytes of a file; `where` is its name in errors."""
    if len(data) > max_bytes:
        raise _damaged(where, f"it has {len(data):,} bytes, more than the limit of {max_bytes:,}")
    try:
        return from_json(bytes(data))
    except ValueError as error:
        raise _damaged(where, f"not JSON: {error}") from None


def read_object(data: bytes | memoryview, where: str, max_bytes: int = MAX_BYTES) -> dict[str, Any]:
    """As `read_json`, for a file that has a JSON object."""
    found = read_json(data, where, max_bytes)
    if not isinstance(found, dict):
        raise _damaged(where, f"not a JSON object: {_shorten(repr(found))}")
    return found


def read_record(kind: type[T], data: bytes | memoryview, where: str, max_bytes: int = MAX_BYTES) -> T:
    """A record from the bytes of a JSON file. Keys that the record does not have are ignored.

    Args:
        kind: A dataclass, or another annotation such as `dict[str, FileRecord]`.
        data: The bytes.
        where: The name of the file in errors.
        max_bytes: The largest size that is accepted.

    Raises:
        CorruptData: A value is missing, or has another type, or is out of range.

    Example:
        >>> read_record(Holder, b'{"host": "worker-3", "pid": 17, "since": "2024-05-01T10:00:00+00:00"}', "holder.json")
        Holder(host='worker-3', pid=17, since='2024-05-01T10:00:00+00:00')
    """
    if len(data) > max_bytes:
        raise _damaged(where, f"it has {len(data):,} bytes, more than the limit of {max_bytes:,}")
    try:
        found: T = _adapter(cast("Any", kind)).validate_json(bytes(data), strict=True)
    except ValidationError as error:
        raise _damaged(where, _explain(error)) from None
    return found


@dataclass(frozen=True)
class _Format:
    format: int


def read_format(data: bytes | memoryview, where: str, max_bytes: int = MAX_BYTES) -> int:
    """The number of a file's format, before `read_record` reads what another format may not have."""
    return read_record(_Format, data, where, max_bytes).format


def check_record(kind: type[T], value: object, where: str) -> T:
    """As `read_record`, for a value that was read from JSON before, such as an attribute."""
    return read_record(kind, json.dumps(value).encode(), where)


def check_state(kind: type[T], state: object, where: str) -> T:
    """As `read_record`, for a tree of values that are in memory, with arrays among them.

    Args:
        kind: A dataclass. Its values must be annotated as strict ones, such as `Text`, and arrays as `InstanceOf[…]`.
        state: The tree.
        where: Where it comes from, in errors.

    Raises:
        CorruptData: A value is missing, or has another type, or is out of range.
    """
    try:
        found: T = _adapter(cast("Any", kind)).validate_python(state)
    except ValidationError as error:
        raise _damaged(where, _explain(error)) from None
    return found


@contextmanager
def as_corrupt(where: str) -> Iterator[None]:
    """For readers of what is not a record, such as a tree of values: whatever they stumble on is damage."""
    try:
        yield
    except SamovarError:
        raise
    except STUMBLES as error:
        raise _damaged(where, _shorten(f"{type(error).__name__}: {error}")) from error


@contextmanager
def in_file(path: str | Path) -> Iterator[None]:
    """Name the file in errors about a state that was read from it."""
    try:
        yield
    except (CorruptData, NotAResult) as error:
        raise type(error)(f"{path}: {error}") from None


def as_finite(value: object) -> float | None:
    """A number as a float; None for anything else, for infinities and for integers that are too large."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


@cache
def _adapter(kind: Any) -> TypeAdapter[Any]:
    return TypeAdapter(kind)


def _explain(error: ValidationError) -> str:
    first = error.errors(include_url=False, include_context=False)[0]
    place = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in first["loc"]).removeprefix(".")
    if first["type"] in ("json_invalid", "missing"):
        return f"{_shorten(place)}: {first['msg']}" if place else first["msg"]
    return f"{_shorten(place)}: {first['msg']}, got {_shorten(repr(first['input']))}".removeprefix(": ")


def _shorten(text: str) -> str:
    return text if len(text) <= _MAX_SHOWN else f"{text[: _MAX_SHOWN - 1]}…"


def _damaged(where: str, reason: str) -> CorruptData:
    return CorruptData(f"{where} is damaged ({reason}). Restore it from a copy")
