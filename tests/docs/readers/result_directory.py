"""Another reader of result directories, written from docs/result_directory.md alone."""

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import xxhash


def checksum(data: bytes) -> str:
    return xxhash.xxh64(data).hexdigest()


def read_attributes(directory: Path) -> dict[str, Any]:
    newest = max((directory / ".samovar/attributes").glob("@*"), key=lambda path: int(path.name[1:]))
    digest, body, rest = newest.read_bytes().split(b"\n")
    assert (digest.decode(), rest) == (checksum(body), b"")
    attributes: dict[str, Any] = json.loads(body)
    return attributes


@dataclass(frozen=True)
class Directory:
    path: Path

    @property
    def is_finished(self) -> bool:
        return "finished" in read_attributes(self.path)

    def read_checked(self, path: str, expected: dict[str, Any]) -> bytes:
        data = (self.path / path).read_bytes()
        assert expected == {"size": len(data), "checksum": checksum(data)}, path
        return data

    def read_inventory(self) -> dict[str, bytes]:
        """The bytes of every file that makes a finished result."""
        listed = json.loads(self.read_checked("inventory.json", read_attributes(self.path)["finished"]["inventory"]))
        return {path: self.read_checked(path, expected) for path, expected in listed.items()}

    def read_log(self, name: str) -> list[Any]:
        """The lines that a kill can no longer lose."""
        whole = self.path / "logs" / name
        stem, suffix = name.rsplit(".", 1)
        parts = [whole] if whole.exists() else sorted((self.path / "logs" / stem).glob(f"*.{suffix}"))
        return [json.loads(line) for part in parts for line in part.read_text().splitlines()]


FREE = ("model_dir", "model_yt_dir", "out", "engine", "progress", "publish", "follow", "train_data.follow",
        "train_data.allow_targets_as_features", "snapshotter.frequency", "ttl_filter.frequency")  # fmt: skip
FREE_ANYWHERE = ("num_downloaders", "num_parsers", "max_cache_size", "max_memory", "memory_limit")
FREE_WHEN_EMPTY = ("snapshotter", "ttl_filter", "train_data")


def compute_id(directory: Path) -> str:
    attributes = read_attributes(directory)
    lineage = json.loads((directory / "lineage.json").read_text())
    config = json.loads((directory / "model_config.json").read_text())
    inputs = {source["key"]: source["id"] for source in lineage["sources"]}
    paths = {path: value for path, value in _flatten(config, "").items() if f"{path}[0]" not in inputs}
    flat = {**paths, **inputs}
    content = {
        "code": attributes.get("code", lineage["code"]),
        "config": {path: value for path, value in flat.items() if not _is_free(path, value, lineage["kind"])},
        "inputs": inputs,
        "kind": lineage["kind"],
    }
    own: str | None = attributes.get("id")
    return own or hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:32]


def _flatten(tree: dict[str, Any], path: str) -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in tree.items():
        is_odd = any(each in key for each in '.[]"')
        here = f"{path}[{json.dumps(key)}]" if is_odd else f"{path}.{key}" if path else key
        is_list = isinstance(value, list) and value and all(isinstance(item, dict) for item in value)
        if isinstance(value, dict) and value:
            flat |= _flatten(value, here)
        elif is_list:
            for number, item in enumerate(value):
                flat |= _flatten(item, f"{here}[{number}]")
        else:
            flat[here] = value
    return flat


def _is_free(path: str, value: Any, kind: str) -> bool:
    if kind.startswith("stage:"):
        return path == "out" or path.startswith("cloned_from")
    if path.split(".")[0] == "model":
        return False
    is_empty = value == {} and path in FREE_WHEN_EMPTY
    return is_empty or path in FREE or path.startswith("cloned_from") or path.rpartition(".")[2] in FREE_ANYWHERE
