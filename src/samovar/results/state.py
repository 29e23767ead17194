"""State trees: the values that make up the state of a run, written as JSON plus arrays and read back exactly.

    below a prefix of a store: state.json (structure and small values) and arrays.safetensors
    or one safetensors file:   the arrays, and the structure as JSON in its metadata

Plain JSON where possible; otherwise an object with one key that starts with '$':

    {"$tuple": […]}   {"$dict": [[key, value], …]}   {"$set": […]}   {"$frozenset": […]}   {"$bytes": "base64"}
    {"$complex": [re, im]}   {"$counter": [[key, count], …]}: a collections.Counter
    {"$float": "nan" | "inf" | "-inf"}   {"$scalar": ["<f4", "hex of its bytes"]}
    {"$array": name, "kind": "numpy" | "torch", "dtype": …, "shape": […]}: the bytes are with the arrays
"""

import base64
import json
import math
import sys
from collections import Counter, OrderedDict
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeGuard

import numpy as np

from samovar.config.records import as_corrupt, open_regular, read_object
from samovar.errors import BadInput, BadPath, CorruptData, NotAResult
from samovar.results.arrays import Array, ArraysFile, StreamedState, as_array, numpy_type, write_arrays
from samovar.results.checked import CheckedWriter, FileRecord, map_checked, write_checked
from samovar.store import Fence, Store
from samovar.store.disk import Disk, publish

Json = Any

STATE_FORMAT = 1
TREE_FILE = "state.json"
ARRAYS_FILE = "arrays.safetensors"

FILE_FORMAT = 1
TREE_KEY = "samovar"  # in the metadata of a single file


def write_state(store: Store, prefix: str, tree: object, fence: Fence | None = None) -> dict[str, FileRecord]:
    """Write a tree below a prefix. Returns the records of its files by path, for the caller to commit."""
    node, arrays = encode_tree(tree)
    with CheckedWriter(store, f"{prefix}/{ARRAYS_FILE}", fence) as writer:
        write_arrays(writer, arrays)
    text = json.dumps({"format": STATE_FORMAT, "tree": node}, allow_nan=False).encode()
    return {
        f"{prefix}/{ARRAYS_FILE}": writer.record,
        f"{prefix}/{TREE_FILE}": write_checked(store, f"{prefix}/{TREE_FILE}", text, fence),
    }


def read_state(store: Store, prefix: str, files: Mapping[str, FileRecord]) -> Any:
    """Read a tree and verify every byte. Its arrays are private memory maps of the file."""
    path = f"{prefix}/{TREE_FILE}"
    where = f"{store.name}/{prefix}"
    with as_corrupt(f"{where}/{TREE_FILE}"):
        data = map_checked(store, path, files[path])
        document = read_object(data, f"{where}/{TREE_FILE}", max_bytes=len(data))
        if document["format"] != STATE_FORMAT:
            raise CorruptData(
                f"{path} has format {document['format']}, but this version of Samovar reads {STATE_FORMAT}. Use the "
                "one that wrote it"
            )
        path = f"{prefix}/{ARRAYS_FILE}"
        arrays = ArraysFile(map_checked(store, path, files[path]), f"{where}/{ARRAYS_FILE}")
        return decode_tree(document["tree"], arrays.load)


def save_tree(path: Path, tree: object, disk: Disk | None = None) -> None:
    """Write a state tree as one file. An existing file is replaced in one step; a kill leaves the old one."""
    with publish(path, disk, verb="save") as file:
        write_tree(file, tree)


def write_tree(file: Any, tree: object) -> None:
    """Write a state tree into an open file."""
    node, arrays = encode_tree(tree)
    text = json.dumps({"format": FILE_FORMAT, "tree": node}, allow_nan=False)
    write_arrays(file, arrays, {TREE_KEY: text})


def load_tree(path: Path) -> Any:
    """Read what `save_tree` wrote; `NotAResult` if the file is missing, damaged or of another kind."""
    try:
        file = open_regular(path)
    except FileNotFoundError:
        raise NotAResult(f"{path}: no such file") from None
    except OSError as error:
        raise NotAResult(f"{path} cannot be read: {error.strerror}") from None
    except ValueError as error:
        raise BadPath(f"{str(path)!r} is not a path: {error}") from None
    try:
        with as_corrupt(str(path)), file:
            arrays = ArraysFile.read(file, str(path))
            text = arrays.metadata[TREE_KEY].encode()
            document = read_object(text, str(path), max_bytes=len(text))
            form = document["format"]
            if form == FILE_FORMAT:
                return decode_tree(document["tree"], arrays.load)
    except CorruptData as error:
        raise NotAResult(f"{path} was not saved by Samovar, or is damaged ({error})") from error
    raise NotAResult(
        f"{path} has format {form}, but this version of Samovar reads {FILE_FORMAT}. Use the version that wrote it"
    )


def encode_tree(tree: object) -> tuple[Json, dict[str, Array]]:
    """The tree as JSON, and its arrays by name."""
    encoder = _Encoder()
    return encoder.encode(tree, ()), encoder.arrays


class _Encoder:
    def __init__(self) -> None:
        self.arrays: dict[str, Array] = {}
        self._ancestors: set[int] = set()

    def encode(self, value: object, path: tuple[object, ...]) -> Json:
        if value is None or type(value) in (bool, int, str):
            return value
        if isinstance(value, float) and not isinstance(value, np.generic):
            return _encode_float(value)
        array = as_array(value)
        if array is not None:
            name = self._free_name(path)
            self.arrays[name] = array
            return {"$array": name, "kind": array.kind, "dtype": array.dtype, "shape": list(array.shape)}
        if isinstance(value, np.generic):
            return {"$scalar": [value.dtype.str, value.tobytes().hex()]}
        if isinstance(value, bytes):
            return {"$bytes": base64.b64encode(value).decode()}
        if isinstance(value, complex):
            return {"$complex": [_encode_float(value.real), _encode_float(value.imag)]}
        return self._encode_container(value, path)

    def _encode_container(self, value: object, path: tuple[object, ...]) -> Json:
        if not _is_exact(value):  # a defaultdict or a named tuple would not be restored exactly
            raise BadInput(
                f"cannot store a {type(value).__module__}.{type(value).__qualname__} at {_show(path)} of the state. "
                "Convert it in state_dict() to numbers, strings, bytes, None, arrays, tensors, or dicts, lists, tuples "
                "and sets of them"
            )
        if id(value) in self._ancestors:
            raise BadInput(f"the state contains itself at {_show(path)}. Break the cycle in state_dict()")
        self._ancestors.add(id(value))
        try:
            if isinstance(value, Counter):
                return {"$counter": self._pairs(value, path)}
            if isinstance(value, dict):
                return self._encode_dict(value, path)
            items = [self.encode(item, (*path, index)) for index, item in enumerate(_ordered(value))]
            return items if isinstance(value, list) else {_container_tag(value): items}
        finally:
            self._ancestors.remove(id(value))

    def _encode_dict(self, value: dict[object, object], path: tuple[object, ...]) -> Json:
        if all(type(key) is str and not key.startswith("$") for key in value):
            return {key: self.encode(item, (*path, key)) for key, item in value.items()}
        return {"$dict": self._pairs(value, path)}

    def _pairs(self, value: Mapping[Any, object], path: tuple[object, ...]) -> list[Json]:
        return [[self.encode(key, (*path, "key")), self.encode(item, (*path, key))] for key, item in value.items()]

    def _free_name(self, path: tuple[object, ...]) -> str:
        name = "/".join(str(part) for part in path) or "value"
        return name if name not in self.arrays and name != "__metadata__" else f"{name}#{len(self.arrays)}"


def decode_tree(node: Json, load_array: Callable[[dict[str, Any]], object]) -> Any:
    """Rebuild a tree from its JSON; `load_array` returns the array of a node. A damaged tree can raise anything that a
    conversion raises: see `as_corrupt`."""
    if isinstance(node, list):
        return [decode_tree(item, load_array) for item in node]
    if not isinstance(node, dict):
        return node
    tag = next((key for key in node if key.startswith("$")), None)
    if tag is None:
        return {key: decode_tree(item, load_array) for key, item in node.items()}
    content = node[tag]
    if tag == "$array":
        return load_array(node)
    if tag in ("$dict", "$counter"):
        decoded = {decode_tree(key, load_array): decode_tree(item, load_array) for key, item in content}
        return Counter(decoded) if tag == "$counter" else decoded
    if tag in _CONTAINERS:
        return _CONTAINERS[tag](decode_tree(item, load_array) for item in content)
    if tag in _SCALARS:
        return _SCALARS[tag](content)
    raise CorruptData(
        f"a state has an unknown tag, {tag!r}. Restore it from a copy, or read it with the version that wrote it"
    )


def _encode_float(value: float) -> Json:
    return float(value) if math.isfinite(value) else {"$float": repr(float(value))}


def _decode_complex(parts: list[Json]) -> complex:
    real, imaginary = (decode_tree(part, lambda name: None) for part in parts)
    return complex(real, imaginary)


def _decode_scalar(content: list[str]) -> object:
    dtype, data = content
    return np.frombuffer(bytes.fromhex(data), dtype=numpy_type(dtype))[0]


_EXACT = (dict, StreamedState, OrderedDict, Counter, list, tuple, set, frozenset)
_CONTAINERS: dict[str, Callable[[Any], object]] = {"$tuple": tuple, "$set": set, "$frozenset": frozenset}
_SCALARS: dict[str, Callable[[Any], object]] = {
    "$float": float,
    "$bytes": base64.b64decode,
    "$complex": _decode_complex,
    "$scalar": _decode_scalar,
}


def _is_exact(value: object) -> TypeGuard[dict[Any, Any] | list[Any] | tuple[Any, ...] | set[Any] | frozenset[Any]]:
    torch = sys.modules.get("torch")
    return type(value) in _EXACT or (torch is not None and type(value) is torch.Size)


def _container_tag(value: object) -> str:
    return "$tuple" if isinstance(value, tuple) else "$set" if isinstance(value, set) else "$frozenset"


def _ordered(value: Any) -> list[Any]:
    """The items in a fixed order: sets have none, and the same state must give the same bytes."""
    return (
        sorted(value, key=lambda item: (type(item).__name__, repr(item)))
        if isinstance(value, set | frozenset)
        else list(value)
    )


def _show(path: tuple[object, ...]) -> str:
    return "/".join(str(part) for part in path) or "the top"
