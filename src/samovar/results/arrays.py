"""Arrays in one file that any safetensors reader opens; written as a stream, read back as a memory map. Knows no trees.

    u64 header size | JSON header, padded to 8 bytes | the bytes of all arrays, end to end, widest elements first

Element types that safetensors lacks are stored as raw bytes (U8); the JSON of the state has the true type.
"""

import json
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from io import BufferedReader
from typing import Any, Protocol, Self

import numpy as np

from samovar.config.records import Size, read_record
from samovar.errors import BadInput, CorruptData, StoreError

CHUNK_BYTES = 8 << 20
MAX_HEADER_BYTES = 1 << 30
_NUMPY_NAME = re.compile(r"[<>|=][a-zA-Z]\d+(\[\w+\])?")  # as `dtype.str` is, for types without objects and fields
METADATA = "__metadata__"  # safetensors stores strings under this name
_ITEM_TYPES = {
    "bool": "BOOL", "int8": "I8", "uint8": "U8", "int16": "I16", "uint16": "U16", "float16": "F16",
    "bfloat16": "BF16", "int32": "I32", "uint32": "U32", "float32": "F32", "int64": "I64", "uint64": "U64",
    "float64": "F64",
}  # fmt: skip


@dataclass(frozen=True)
class StreamedArray:
    """An array that is produced in pieces while it is written, so it is never in memory as a whole.

    Read back from a file it is an ordinary numpy array.

    Args:
        dtype: The numpy name of the element type.
        shape: The shape of the whole array.
        read: Returns the bytes in row-major order, in pieces.

    Example:
        >>> array = StreamedArray("uint8", (4,), lambda: iter([memoryview(b"ab"), memoryview(b"cd")]))
    """

    dtype: str
    shape: tuple[int, ...]
    read: Callable[[], Iterator[memoryview]]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> "np.ndarray[Any, Any]":
        whole = np.frombuffer(b"".join(self.read()), dtype=self.dtype).reshape(self.shape)
        return whole if dtype is None else whole.astype(dtype)

    def __deepcopy__(self, memo: dict[int, Any]) -> "np.ndarray[Any, Any]":
        return np.array(self)


class StreamedState(dict[str, Any]):
    """A part of a state with streamed arrays. It is stored as an ordinary dict.

    Args:
        view: The part, which may change while it is not written.
        copy: Returns the part with ordinary arrays, as it is at one moment: what `copy.deepcopy` gives.

    Example:
        >>> whole = StreamedArray("uint8", (4,), lambda: iter([memoryview(b"abcd")]))
        >>> state = StreamedState({"letters": whole}, lambda: {"letters": np.array(whole)})
        >>> bytes(copy.deepcopy(state)["letters"])
        b'abcd'
    """

    def __init__(self, view: Mapping[str, Any], copy: Callable[[], dict[str, Any]]) -> None:
        super().__init__(view)
        self._copy = copy

    def __deepcopy__(self, memo: dict[int, Any]) -> dict[str, Any]:
        return self._copy()


@dataclass(frozen=True)
class Array:
    """An array or tensor to store. `dtype` and `shape` are what a reader gets back."""

    value: Any
    kind: str
    dtype: str
    shape: tuple[int, ...]
    item_bytes: int

    @property
    def size_bytes(self) -> int:
        return self.item_bytes * int(np.prod(self.shape, dtype=np.int64))

    def chunks(self) -> Iterator[memoryview]:
        """The bytes in row-major order. Copies only an array that is in another order or on another device."""
        if self.size_bytes == 0:
            return
        if isinstance(self.value, StreamedArray):
            yield from self.value.read()
            return
        flat = memoryview(_flat_bytes(self.value, self.kind))
        for start in range(0, len(flat), CHUNK_BYTES):
            yield flat[start : start + CHUNK_BYTES]

    def header(self, start: int) -> dict[str, Any]:
        item_type = _ITEM_TYPES.get(self.dtype)
        shape = list(self.shape) if item_type else [self.size_bytes]
        return {"dtype": item_type or "U8", "shape": shape, "data_offsets": [start, start + self.size_bytes]}


def as_array(value: object) -> Array | None:
    """What to store for a numpy array, a streamed array or a torch tensor; None for anything else."""
    if isinstance(value, StreamedArray):
        return Array(value, "numpy", value.dtype, value.shape, np.dtype(value.dtype).itemsize)
    if isinstance(value, np.ndarray):
        if value.dtype.hasobject or value.dtype.names is not None:
            raise BadInput(
                f"cannot store an array of dtype {value.dtype}: it has Python objects or fields. Convert it to "
                "numbers, fixed-length strings or times in state_dict()"
            )
        name = value.dtype.name if value.dtype.isnative and value.dtype.name in _ITEM_TYPES else value.dtype.str
        return Array(value, "numpy", name, value.shape, value.dtype.itemsize)
    torch = sys.modules.get("torch")  # without torch there is no tensor
    if torch is None or not isinstance(value, torch.Tensor):
        return None
    if value.layout != torch.strided or value.is_quantized:
        raise BadInput(f"cannot store a quantized tensor, or one of layout {value.layout}. Convert it in state_dict()")
    return Array(value, "torch", str(value.dtype).removeprefix("torch."), tuple(value.shape), value.element_size())


def _flat_bytes(value: Any, kind: str) -> Any:
    if kind == "torch":
        torch = sys.modules["torch"]
        value = value.detach().resolve_conj().resolve_neg().cpu().contiguous()
        return value.reshape(-1).view(torch.uint8).numpy()
    return np.ascontiguousarray(value).reshape(-1).view(np.uint8)


class Sink(Protocol):
    """Anything that takes bytes."""

    def write(self, data: bytes | memoryview, /) -> object: ...


def write_arrays(writer: Sink, arrays: Mapping[str, Array], metadata: Mapping[str, str] | None = None) -> None:
    """Stream all arrays into one file, widest elements first, so that each is aligned in a memory map."""
    names = sorted(arrays, key=lambda name: -_alignment(arrays[name]))
    header: dict[str, Any] = {} if metadata is None else {METADATA: dict(metadata)}
    position = 0
    for name in names:
        header[name] = arrays[name].header(position)
        position += arrays[name].size_bytes
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    writer.write(len(text).to_bytes(8, "little") + text)
    for name in names:
        _write_array(writer, arrays[name])


def _write_array(writer: Sink, array: Array) -> None:
    """A separate function, so that a copy of one array is freed before the next is made."""
    num_bytes = 0
    for chunk in array.chunks():
        num_bytes += chunk.nbytes
        writer.write(chunk)
    assert num_bytes == array.size_bytes, f"a streamed array gave {num_bytes} bytes instead of {array.size_bytes}"


def _alignment(array: Array) -> int:
    return array.item_bytes if array.item_bytes in (1, 2, 4, 8, 16) else 1


@dataclass(frozen=True)
class _Entry:
    data_offsets: tuple[Size, Size]


@dataclass(frozen=True)
class _Header:
    """What a file says about itself, compared with its size."""

    metadata: dict[str, str]
    places: dict[str, tuple[int, int]]
    end: int
    """Where the last array ends, from the end of the header."""

    @classmethod
    def parse(cls, text: bytes | memoryview, num_bytes: int, where: str) -> "_Header":
        """Of a file that has `num_bytes` behind its header."""
        header = read_record(dict[str, _Entry | dict[str, str]], text, where, max_bytes=len(text))
        metadata = header.pop(METADATA, {})
        places = {name: entry.data_offsets for name, entry in header.items() if isinstance(entry, _Entry)}
        last = 0
        for start, stop in sorted(places.values()):
            if not last <= start <= stop <= num_bytes:
                raise CorruptData(
                    f"{where} is damaged (an array at bytes {start} to {stop} overlaps or is cut). Restore it from a "
                    "copy"
                )
            last = stop
        return cls(metadata if isinstance(metadata, dict) else {}, places, last)


def _header_bytes(prefix: bytes | memoryview, num_bytes: int, where: str) -> int:
    size = int.from_bytes(prefix, "little")
    if len(prefix) < 8 or size > min(num_bytes - 8, MAX_HEADER_BYTES):
        raise CorruptData(
            f"{where} is damaged (no safetensors header in its {num_bytes:,} bytes). Restore it from a copy"
        )
    return size


class ArraysFile:
    """The arrays of a file in memory, or in a memory map."""

    def __init__(self, data: memoryview, where: str = "arrays file", header: _Header | None = None) -> None:
        size = _header_bytes(data[:8], len(data), where)
        self._data = data[8 + size :]
        self._header = header or _Header.parse(data[8 : 8 + size], len(self._data), where)

    @classmethod
    def read(cls, file: BufferedReader, where: str) -> Self:
        """Read a file into memory that is taken only once the header fits the file's size: a file of holes can have any
        size."""
        num_bytes = os.fstat(file.fileno()).st_size
        prefix = file.read(8)
        size = _header_bytes(prefix, num_bytes, where)
        text = file.read(size)
        header = _Header.parse(text, num_bytes - 8 - size, where)
        if 8 + size + header.end != num_bytes:
            raise CorruptData(
                f"{where} is damaged (its arrays end at byte {8 + size + header.end:,} of {num_bytes:,}). Restore it "
                "from a copy"
            )
        try:
            data = memoryview(bytearray(num_bytes))
        except MemoryError:
            raise StoreError(
                f"{where} does not fit in memory: it has {num_bytes:,} bytes. Free memory, or use a larger machine"
            ) from None
        data[: 8 + size] = prefix + text
        if file.readinto(data[8 + size :]) != header.end:
            raise CorruptData(f"{where} was cut while it was read. Try again")
        return cls(data, where, header)

    @property
    def metadata(self) -> dict[str, str]:
        return self._header.metadata

    @property
    def names(self) -> list[str]:
        return sorted(self._header.places)

    def raw(self, name: str) -> memoryview:
        """The bytes of an array."""
        start, stop = self._header.places[name]
        return self._data[start:stop]

    def load(self, node: Mapping[str, Any]) -> object:
        """An array as it was stored, with the same kind, type and shape, in private writable memory. `node` is its
        place in a state tree."""
        data, dtype, shape = self.raw(node["$array"]), node["dtype"], node["shape"]
        if not isinstance(dtype, str) or any(type(length) is not int or length < 0 for length in shape):
            raise CorruptData(
                f"array {node['$array']!r} has no valid type or shape: {dtype!r}, {shape!r}. Restore its file from a "
                "copy"
            )
        if node["kind"] == "numpy":
            return np.frombuffer(data, dtype=numpy_type(dtype)).reshape(shape)
        import torch  # only a state with tensors in it needs torch

        item = vars(torch).get(dtype)
        if node["kind"] != "torch" or not isinstance(item, torch.dtype):
            raise CorruptData(
                f"array {node['$array']!r} has an unknown kind or type: {node['kind']!r}, {dtype!r}. Restore its file "
                "from a copy"
            )
        return (torch.frombuffer(data, dtype=item) if len(data) else torch.empty(0, dtype=item)).reshape(shape)


def numpy_type(name: str) -> "np.dtype[Any]":
    """The type of a name that `as_array` gave; numpy itself reads more in a text than types."""
    if name not in _ITEM_TYPES and not _NUMPY_NAME.fullmatch(name):
        raise CorruptData(f"no array can have the type {name!r}. Restore its file from a copy")
    return np.dtype(name)
