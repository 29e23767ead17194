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
        """The lines that a kill cannot take any more."""
        whole = self.path / "logs" / name
        stem, suffix = name.rsplit(".", 1)
        parts = [whole] if whole.exists() else sorted((self.path / "logs" / stem).glob(f"*.{suffix}"))
        return [json.loads(line) for part in parts for line in part.read_text().splitlines()]


def compute_id(kind: str, config: dict[str, Any], inputs: Any, code: dict[str, str]) -> str:
    text = json.dumps({"kind": kind, "config": config, "inputs": inputs, "code": code}, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:32]
