"""A state tree as files below one prefix: `state.json` (structure, small values) and `arrays.safetensors`."""

import json
from collections.abc import Mapping
from typing import Any

from samovar.errors import Damaged
from samovar.results.arrays import ArraysFile, write_arrays
from samovar.results.checked import CheckedWriter, FileRecord, map_checked, write_checked
from samovar.results.tree import decode_tree, encode_tree
from samovar.store import Guard, Store

FORMAT = 1
TREE_FILE = "state.json"
ARRAYS_FILE = "arrays.safetensors"


def write_state(store: Store, prefix: str, tree: object, guard: Guard | None = None) -> dict[str, FileRecord]:
    """Write a tree; gives the records of its files by path. It does not count until somebody commits them."""
    node, arrays = encode_tree(tree)
    with CheckedWriter(store, f"{prefix}/{ARRAYS_FILE}", guard) as writer:
        write_arrays(writer, arrays)
    text = json.dumps({"format": FORMAT, "tree": node}, allow_nan=False).encode()
    return {
        f"{prefix}/{ARRAYS_FILE}": writer.record,
        f"{prefix}/{TREE_FILE}": write_checked(store, f"{prefix}/{TREE_FILE}", text, guard),
    }


def read_state(store: Store, prefix: str, files: Mapping[str, FileRecord]) -> Any:
    """The tree, after checking every byte; its arrays are private memory maps of the file."""
    path = f"{prefix}/{TREE_FILE}"
    document = json.loads(bytes(map_checked(store, path, files[path])))
    if document["format"] != FORMAT:
        raise Damaged(
            f"{path}: has format {document['format']}; this Samovar reads {FORMAT}: use the one that wrote it"
        )
    path = f"{prefix}/{ARRAYS_FILE}"
    arrays = ArraysFile(map_checked(store, path, files[path]))
    return decode_tree(
        document["tree"], lambda node: arrays.load(node["$array"], node["kind"], node["dtype"], node["shape"])
    )
