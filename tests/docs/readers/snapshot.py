"""Another reader of snapshots and models, written from docs/snapshot.md alone."""

import base64
import json
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tests.docs.readers.result_directory import Directory, read_attributes


def read_newest(directory: Path) -> tuple[dict[str, Any], Any]:
    """The manifest of the newest snapshot, and its state."""
    newest = read_attributes(directory)["snapshots"][0]
    folder = f"snapshot/{newest['name']}"
    manifest = json.loads(Directory(directory).read_checked(f"{folder}/manifest.json", newest["manifest"]))
    artifacts: dict[str, Any] = {}
    for path, expected in manifest["sealed"].items():
        artifacts |= json.loads(Directory(directory).read_checked(path, expected))
    for path, expected in {**manifest["files"], **artifacts, **manifest["artifacts"]}.items():
        Directory(directory).read_checked(path, expected)
    return manifest, read_state(directory / folder)


def read_state(folder: Path) -> Any:
    document = json.loads((folder / "state.json").read_text())
    assert document["format"] == 1
    return _decode(document["tree"], read_arrays(folder / "arrays.safetensors"))


def read_arrays(path: Path) -> dict[str, bytes]:
    data = path.read_bytes()
    (size,) = struct.unpack("<Q", data[:8])
    header, body = json.loads(data[8 : 8 + size]), data[8 + size :]
    found = {name: entry["data_offsets"] for name, entry in header.items() if name != "__metadata__"}
    return {name: body[begin:end] for name, (begin, end) in found.items()}


def _decode(node: Any, arrays: Mapping[str, bytes]) -> Any:
    if isinstance(node, list):
        return [_decode(item, arrays) for item in node]
    if not isinstance(node, dict):
        return node
    mark = next((key for key in node if key.startswith("$")), None)
    if mark is None:
        return {key: _decode(value, arrays) for key, value in node.items()}
    return _decode_mark(mark, node, arrays)


def _decode_mark(mark: str, node: dict[str, Any], arrays: Mapping[str, bytes]) -> Any:
    value = node[mark]
    if mark == "$array":
        return _array(arrays[value], node["kind"], node["dtype"], node["shape"])
    if mark == "$dict":
        return {_decode(key, arrays): _decode(item, arrays) for key, item in value}
    if mark == "$bytes":
        return base64.b64decode(value)
    if mark == "$float":
        return float(value)
    if mark == "$complex":
        return complex(*(_decode(part, arrays) for part in value))
    if mark == "$scalar":
        return np.frombuffer(bytes.fromhex(value[1]), np.dtype(value[0]))[0]
    kinds = {"$tuple": tuple, "$set": set, "$frozenset": frozenset}
    return kinds[mark](_decode(item, arrays) for item in value)


def _array(data: bytes, kind: str, dtype: str, shape: list[int]) -> Any:
    if kind == "numpy":
        return np.frombuffer(data, np.dtype(dtype)).reshape(shape)
    return torch.frombuffer(bytearray(data), dtype=getattr(torch, dtype)).reshape(shape) if data else torch.empty(shape)
