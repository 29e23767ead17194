"""Structured damage: JSON values, bytes and file kinds. Checksums are made right again, so that what is behind them is
reached. Everything follows from a `random.Random`.
"""

import json
import os
import random
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

from samovar.native import hash_bytes

Json = Any
_LIMIT = 10**8

VALUES: tuple[Json, ...] = (
    None, True, False, 0, -1, 1, 2, 3, 4, 10**9, 2**31, 2**32, 2**63, 2**64, -(2**63), 10**18, 10**400, 0.5, 1e308,
    float("nan"), float("inf"), "", "x", "0", "..", "../..", "/etc/passwd", "/dev/zero", "a/../b", ".samovar", "a\x00b",
    "\ud800", "\x1b[31m", "é" * 300, "nan", "O", "V8", "float32", "torch", "numpy", "zstd:99", "none", "$array", [], {},
    [[]], [None], [0], [-1], [10**12], [1, 2], ["x"], {"a": 1}, {"$array": "x"}, {"$tuple": 1}, {"$dict": [1]},
    {"$scalar": ["O", "00"]}, {"$complex": []}, {"$counter": [[[], 1]]}, {"$float": []}, {"$unknown": 1},
)  # fmt: skip
TEXTS = (
    b"",
    b"{",
    b"[" * 5000,
    b"null",
    b"[]",
    b"{}",
    b"0",
    b'"x"',
    b"\xff\xfe",
    b"\x00" * 64,
    b'{"a":' * 300,
    b"9" * 6000,
)


def mutate_json(tree: Json, chance: random.Random) -> Json:
    """Change one node anywhere in it."""
    place = chance.choice(list(_places(tree)))
    return _change(tree, place, chance)


def _places(tree: Json, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield path
    items = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    for key, value in items:
        yield from _places(value, (*path, key))


def _change(tree: Json, path: tuple[Any, ...], chance: random.Random) -> Json:
    if not path:
        return _replacement(tree, chance)
    key, *rest = path
    copy = dict(tree) if isinstance(tree, dict) else list(tree)
    if rest or chance.random() < 0.6:
        copy[key] = _change(copy[key], tuple(rest), chance)
    elif isinstance(copy, dict) and chance.random() < 0.5:
        copy[chance.choice(["x", "", "\x00", "../x", key + "é"])] = copy.pop(key)
    elif isinstance(copy, list) and chance.random() < 0.5:
        copy.insert(key, copy[key])
    else:
        del copy[key]
    return copy


def _replacement(value: Json, chance: random.Random) -> Json:
    if isinstance(value, int) and not isinstance(value, bool) and chance.random() < 0.5:
        return value + chance.choice([-1, 1, 2**32, 2**63, -value, 10**9])
    if isinstance(value, str) and value and chance.random() < 0.3:
        return chance.choice([value[:-1], value * 2, value.upper(), value.replace("/", "/../")])
    if isinstance(value, list) and value and chance.random() < 0.3:
        return chance.choice([value[::-1], value * 2, value[:-1]])
    return chance.choice(VALUES)


def mutate_bytes(data: bytes, chance: random.Random) -> bytes:
    how = chance.randrange(6)
    place = chance.randrange(len(data) + 1)
    if how == 0:
        return data[:place]
    if how == 1 and data:
        place = min(place, len(data) - 1)
        return data[:place] + bytes([data[place] ^ 1 << chance.randrange(8)]) + data[place + 1 :]
    if how == 2:
        number = chance.choice([0, 1, 2**31, 2**32 - 1, 2**63, 2**64 - 24, 2**64 - 1])
        return data[:place] + number.to_bytes(8, "little") + data[place + 8 :]
    if how == 3:
        return data[:place] + chance.randbytes(chance.randrange(1, 40)) + data[place:]
    if how == 4:
        return data[:place] + data[place + chance.randrange(1, 40) :]
    return chance.choice(TEXTS)


def mutate_file(path: Path, chance: random.Random) -> None:
    """Damage one file: as JSON if it is, as bytes, or by something else under its name."""
    how = chance.random()
    if how < 0.03:
        _replace_file(path, chance)
        return
    if path.suffix == ".db":
        _mutate_database(path, chance)
        return
    data = _read(path)
    try:
        path.write_bytes(_mutate_content(path, data, how, chance))
    except (ValueError, LookupError, RecursionError):  # an earlier damage has left nothing of its form
        path.write_bytes(mutate_bytes(data, chance))


def _mutate_content(path: Path, data: bytes, how: float, chance: random.Random) -> bytes:
    if path.suffix == ".safetensors" and how < 0.6:
        size = int.from_bytes(data[:8], "little")
        header = dump(mutate_json(json.loads(data[8 : 8 + size]), chance))
        return len(header).to_bytes(8, "little") + header + data[8 + size :]
    if path.name.startswith("@") and how < 0.9:
        return sign(dump(mutate_json(json.loads(data.partition(b"\n")[2]), chance)))
    if path.suffix == ".jsonl" and how < 0.8:
        lines = data.splitlines() or [b"{}"]
        number = chance.randrange(len(lines))
        lines[number] = dump(mutate_json(json.loads(lines[number]), chance))
        return b"\n".join(lines) + b"\n"
    if path.suffix == ".json" and how < 0.85:
        return dump(mutate_json(json.loads(data), chance))
    return mutate_bytes(data, chance)


def dump(tree: Json) -> bytes:
    return json.dumps(tree).encode()


def sign(body: bytes) -> bytes:
    """A file of attributes."""
    return b"%016x\n%s\n" % (hash_bytes(body), body)


def _replace_file(path: Path, chance: random.Random) -> None:
    path.unlink()
    how = chance.randrange(6)
    if how == 0:
        os.mkfifo(path)
    elif how == 1:
        path.symlink_to("/dev/zero")
    elif how == 2:
        path.mkdir()
    elif how == 3:
        path.symlink_to("nothing")
    elif how == 4:
        path.touch()
        os.truncate(path, 1 << 40)  # takes no room on the disk


def _mutate_database(path: Path, chance: random.Random) -> None:
    if chance.random() < 0.2:
        path.write_bytes(mutate_bytes(_read(path), chance))
        return
    with closing(sqlite3.connect(path)) as connection:
        tables = [row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        table = chance.choice(tables)
        column = chance.choice([row[1] for row in connection.execute(f'PRAGMA table_info("{table}")')])
        value = chance.choice([each for each in VALUES if isinstance(each, str | float | None)] + [b"\xff", -1, 2**40])
        with suppress(sqlite3.Error, UnicodeEncodeError):
            connection.execute(f'UPDATE "{table}" SET "{column}" = ?', (value,))
            connection.commit()


def repair(directory: Path) -> None:
    """Make the checksums of a result right, from the files up to the attributes, as far as its records can be read."""
    with suppress(Exception):
        newest = max(path for path in (directory / ".samovar/attributes").glob("@*") if _is_readable(path))
        values = json.loads(_read(newest).partition(b"\n")[2])
        for snapshot in values.get("snapshots", []):
            path = directory / "snapshot" / snapshot["name"] / "manifest.json"
            manifest = json.loads(_read(path))
            for path_of_list in manifest["sealed"]:
                listed = json.loads(_read(directory / path_of_list))
                _update(directory, listed)
                (directory / path_of_list).write_bytes(dump(listed))
            for records in (manifest["files"], manifest["sealed"], manifest["artifacts"]):
                _update(directory, records)
            path.write_bytes(dump(manifest))
            snapshot["manifest"] = record_of(path)
        for manifest_path in filter(_is_readable, sorted(directory.glob("manifest/*.json"))):
            manifest = json.loads(_read(manifest_path))
            folder = directory / "segments" / manifest_path.stem
            for entry in manifest["segment"]["files"]:
                _update_segment(folder / Path(entry["path"]).name, entry, len(manifest["schema"]["columns"]))
            manifest_path.write_bytes(dump(manifest))
        if "finished" in values:
            inventory = json.loads(_read(directory / "inventory.json"))
            _update(directory, inventory)
            (directory / "inventory.json").write_bytes(dump(inventory))
            values["finished"]["inventory"] = record_of(directory / "inventory.json")
        newest.write_bytes(sign(dump(values)))


def _is_readable(path: Path) -> bool:
    """Not a link, a pipe or a device: another damage may have put an endless file there."""
    return path.is_file() and not path.is_symlink() and path.stat().st_size < _LIMIT


def _read(path: Path) -> bytes:
    if not _is_readable(path):
        raise OSError(f"{path} is not a plain file, or too large")
    return path.read_bytes()


def _update(directory: Path, records: dict[str, Json]) -> None:
    for path in records:
        with suppress(OSError, ValueError):
            records[path] = record_of(directory / path)


def _update_segment(path: Path, entry: dict[str, Json], num_columns: int) -> None:
    with suppress(OSError, ValueError):
        data = _read(path)
        size = entry["num_minibatches"] * (16 + 16 * num_columns)
        index = data[entry["index_at"] : entry["index_at"] + size]
        entry.update(size=len(data), checksum=f"{hash_bytes(data):016x}", index_checksum=f"{hash_bytes(index):016x}")


def record_of(path: Path) -> dict[str, Json]:
    data = _read(path)
    return {"size": len(data), "checksum": f"{hash_bytes(data):016x}"}


def copy_tree(source: Path, target: Path) -> None:
    shutil.copytree(source, target, symlinks=True)
