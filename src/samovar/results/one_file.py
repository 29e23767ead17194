"""A state tree as one safetensors file that appears whole: arrays, and the structure as JSON in the file's metadata."""

import json
from pathlib import Path
from typing import Any

from samovar.errors import NotOurs
from samovar.results.arrays import ArraysFile, write_arrays
from samovar.results.tree import decode_tree, encode_tree
from samovar.store.disk import Disk
from samovar.store.faults import store_error

KEY = "samovar"
FORMAT = 1


class _File:
    def __init__(self, disk: Disk, descriptor: int) -> None:
        self._disk = disk
        self._descriptor = descriptor

    def write(self, data: bytes | memoryview, /) -> None:
        self._disk.write_all(self._descriptor, data)


def save_tree(path: Path, tree: object, disk: Disk | None = None) -> None:
    """Replace the file in one step; a kill leaves the old one."""
    try:
        _replace(path, tree, disk or Disk())
    except OSError as error:
        raise store_error(error, "save", path, path.parent) from error


def _replace(path: Path, tree: object, disk: Disk) -> None:
    node, arrays = encode_tree(tree)
    beside = path.with_name(f".{path.name}.new")
    if beside.exists():  # of somebody who was killed
        disk.unlink(beside)
    descriptor = disk.create(beside)
    try:
        text = json.dumps({"format": FORMAT, "tree": node}, allow_nan=False)
        write_arrays(_File(disk, descriptor), arrays, {KEY: text})
        disk.fsync(descriptor)
    finally:
        disk.close(descriptor)
    disk.replace(beside, path)
    disk.fsync_folder(path.parent)


def load_tree(path: Path) -> Any:
    """The tree back, in memory of its own; `NotOurs` when somebody else wrote the file."""
    if not path.is_file():
        raise NotOurs(f"{path}: nothing there; expected a file that was saved before: check the name")
    try:
        arrays = ArraysFile(memoryview(bytearray(path.read_bytes())))
        document = json.loads(arrays.metadata[KEY])
        form = document["format"]
        if form == FORMAT:
            return decode_tree(
                document["tree"], lambda node: arrays.load(node["$array"], node["kind"], node["dtype"], node["shape"])
            )
    except (KeyError, ValueError, TypeError, RuntimeError) as error:
        raise NotOurs(
            f"{path}: is no file of Samovar, or it is damaged ({error}); expected one that it saved: check the name, "
            "or restore a copy"
        ) from error
    raise NotOurs(f"{path}: has format {form}; this Samovar reads {FORMAT}: use a newer one")
