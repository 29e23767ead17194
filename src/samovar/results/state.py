"""A state tree as files below one prefix: `state.json` (structure, small values) and `arrays.safetensors`.

State trees as JSON: every Python value that a run's state is made of, back exactly as it was. Knows no files.

Plain JSON where it can be; else an object with one key that begins with '$':

    {"$tuple": […]}   {"$dict": [[key, value], …]}   {"$set": […]}   {"$frozenset": […]}   {"$bytes": "base64"}
    {"$complex": [re, im]}   {"$counter": [[key, count], …]}: a collections.Counter
    {"$float": "nan" | "inf" | "-inf"}   {"$scalar": ["<f4", "hex of its bytes"]}
    {"$array": name, "kind": "numpy" | "torch", "dtype": …, "shape": […]}: the bytes are in the arrays file

A state tree as one safetensors file that appears whole: arrays, and the structure as JSON in the file's metadata.
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

from samovar.errors import BadInput, CorruptData, NotAResult
from samovar.results.arrays import Array, ArraysFile, as_array, write_arrays
from samovar.results.checked import CheckedWriter, FileRecord, map_checked, write_checked
from samovar.store import Fence, Store
from samovar.store.disk import Disk, publish

Json = Any


def encode_tree(tree: object) -> tuple[Json, dict[str, Array]]:
    """The tree as JSON, and its arrays by name."""
    encoder = _Encoder()
    return encoder.encode(tree, ()), encoder.arrays


class _Encoder:
    def __init__(self) -> None:
        self.arrays: dict[str, Array] = {}
        self._open: set[int] = set()

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
        if not _is_exact(value):  # a defaultdict or a named tuple would come back as less than it was
            raise BadInput(
                f"state at {_show(path)}: found {type(value).__module__}.{type(value).__qualname__}; a snapshot holds "
                "numbers, strings, bytes, None, arrays, tensors and dicts, lists, tuples, sets of them: "
                "turn it into these in state_dict()"
            )
        if id(value) in self._open:
            raise BadInput(f"state at {_show(path)}: contains itself; expected a tree: cut the circle in state_dict()")
        self._open.add(id(value))
        try:
            if isinstance(value, Counter):
                return {"$counter": self._pairs(value, path)}
            if isinstance(value, dict):
                return self._encode_dict(value, path)
            items = [self.encode(item, (*path, index)) for index, item in enumerate(_ordered(value))]
            return items if isinstance(value, list) else {_container_tag(value): items}
        finally:
            self._open.remove(id(value))

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
    """The tree back from its JSON; `load_array` gives an array for its node."""
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
        f"state tree: unknown mark {tag!r}; expected a snapshot of this version: use the Samovar that wrote it"
    )


def _encode_float(value: float) -> Json:
    return float(value) if math.isfinite(value) else {"$float": repr(float(value))}


def _decode_complex(parts: list[Json]) -> complex:
    real, imaginary = (decode_tree(part, lambda name: None) for part in parts)
    return complex(real, imaginary)


def _decode_scalar(content: list[str]) -> object:
    dtype, data = content
    return np.frombuffer(bytes.fromhex(data), dtype=np.dtype(dtype))[0]


_EXACT = (dict, OrderedDict, Counter, list, tuple, set, frozenset)
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
    """A set has no order of its own, and the same state must give the same bytes."""
    return (
        sorted(value, key=lambda item: (type(item).__name__, repr(item)))
        if isinstance(value, set | frozenset)
        else list(value)
    )


def _show(path: tuple[object, ...]) -> str:
    return "/".join(str(part) for part in path) or "the root"


STATE_FORMAT = 1
TREE_FILE = "state.json"
ARRAYS_FILE = "arrays.safetensors"


def write_state(store: Store, prefix: str, tree: object, fence: Fence | None = None) -> dict[str, FileRecord]:
    """Write a tree; gives the records of its files by path. It does not count until somebody commits them."""
    node, arrays = encode_tree(tree)
    with CheckedWriter(store, f"{prefix}/{ARRAYS_FILE}", fence) as writer:
        write_arrays(writer, arrays)
    text = json.dumps({"format": STATE_FORMAT, "tree": node}, allow_nan=False).encode()
    return {
        f"{prefix}/{ARRAYS_FILE}": writer.record,
        f"{prefix}/{TREE_FILE}": write_checked(store, f"{prefix}/{TREE_FILE}", text, fence),
    }


def read_state(store: Store, prefix: str, files: Mapping[str, FileRecord]) -> Any:
    """The tree, after checking every byte; its arrays are private memory maps of the file."""
    path = f"{prefix}/{TREE_FILE}"
    document = json.loads(bytes(map_checked(store, path, files[path])))
    if document["format"] != STATE_FORMAT:
        raise CorruptData(
            f"{path}: has format {document['format']}; this Samovar reads {STATE_FORMAT}: use the one that wrote it"
        )
    path = f"{prefix}/{ARRAYS_FILE}"
    arrays = ArraysFile(map_checked(store, path, files[path]))
    return decode_tree(
        document["tree"], lambda node: arrays.load(node["$array"], node["kind"], node["dtype"], node["shape"])
    )


TREE_KEY = "samovar"
FILE_FORMAT = 1


def save_tree(path: Path, tree: object, disk: Disk | None = None) -> None:
    """Write a state tree as one file. An existing file is replaced in one step; a kill leaves the old one."""
    node, arrays = encode_tree(tree)
    text = json.dumps({"format": FILE_FORMAT, "tree": node}, allow_nan=False)
    with publish(path, disk, verb="save") as file:
        write_arrays(file, arrays, {TREE_KEY: text})


def load_tree(path: Path) -> Any:
    """The tree back, in memory of its own; `NotAResult` when somebody else wrote the file."""
    if not path.is_file():
        raise NotAResult(f"{path}: nothing there; expected a file that was saved before: check the name")
    try:
        arrays = ArraysFile(memoryview(bytearray(path.read_bytes())))
        document = json.loads(arrays.metadata[TREE_KEY])
        form = document["format"]
        if form == FILE_FORMAT:
            return decode_tree(
                document["tree"], lambda node: arrays.load(node["$array"], node["kind"], node["dtype"], node["shape"])
            )
    except (KeyError, ValueError, TypeError, RuntimeError) as error:
        raise NotAResult(
            f"{path}: is no file of Samovar, or it is damaged ({error}); expected one that it saved: check the name, "
            "or restore a copy"
        ) from error
    raise NotAResult(f"{path}: has format {form}; this Samovar reads {FILE_FORMAT}: use a newer one")
