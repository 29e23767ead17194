"""Arrays in one file that any safetensors reader opens; written as a stream, read back as a memory map. Knows no trees.

    u64 header size | JSON header, padded to 8 bytes | the bytes of all arrays, end to end, widest elements first

Element types that safetensors lacks are stored as raw bytes (U8); the JSON of the state has the true type.
"""

import json
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from samovar.errors import BadInput, CorruptData

CHUNK_BYTES = 8 << 20
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
        >>> StreamedArray("uint8", (4,), lambda: iter([memoryview(b"ab"), memoryview(b"cd")]))
    """

    dtype: str
    shape: tuple[int, ...]
    read: Callable[[], Iterator[memoryview]]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> "np.ndarray[Any, Any]":
        whole = np.frombuffer(b"".join(self.read()), dtype=self.dtype).reshape(self.shape)
        return whole if dtype is None else whole.astype(dtype)

    def __deepcopy__(self, memo: dict[int, Any]) -> "np.ndarray[Any, Any]":
        return np.array(self)


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


class ArraysFile:
    """The arrays of a file in memory, or in a memory map."""

    def __init__(self, data: memoryview) -> None:
        try:
            size = int.from_bytes(data[:8], "little")
            header = json.loads(bytes(data[8 : 8 + size]))
            self.metadata: dict[str, str] = header.pop(METADATA, {})
            self._places = {name: tuple(entry["data_offsets"]) for name, entry in header.items()}
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise CorruptData(f"arrays file: not a safetensors header ({error})") from error
        self._data = data[8 + size :]

    @property
    def names(self) -> list[str]:
        return sorted(self._places)

    def raw(self, name: str) -> memoryview:
        """The bytes of an array."""
        start, stop = self._places[name]
        return self._data[start:stop]

    def load(self, name: str, kind: str, dtype: str, shape: list[int]) -> object:
        """An array as it was stored, with the same kind, type and shape, in private writable memory."""
        start, stop = self._places[name]
        data = self._data[start:stop]
        if kind == "torch":
            import torch  # only a state with tensors in it needs torch

            item = getattr(torch, dtype)
            return (torch.frombuffer(data, dtype=item) if len(data) else torch.empty(0, dtype=item)).reshape(shape)
        return np.frombuffer(data, dtype=np.dtype(dtype)).reshape(shape)
