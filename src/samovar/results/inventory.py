"""The list of a run's files that each snapshot commits. A long run has many, so a snapshot does not repeat them all.

    snapshot/artifacts/000012.e3.json    {path: {size, checksum}}: files that were listed once, with snapshot 12
    manifest of a later snapshot         `sealed`: the records of these lists; `artifacts`: only the files since

Lists are read in order; a later entry of a path replaces an earlier one.
"""

import json
from collections.abc import Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from typing import Annotated, Self

from pydantic import Field

from samovar.config.records import read_record
from samovar.errors import SamovarError
from samovar.results.checked import FileRecord, StorePath, check_file, map_checked, write_checked
from samovar.store import Fence, Store
from samovar.store.lease import with_epoch

Inventory = Mapping[str, FileRecord]

SEALED_LISTS = "snapshot/artifacts"
SealedPath = Annotated[str, Field(pattern=rf"^{SEALED_LISTS}/[0-9]{{6,15}}\.e[0-9]{{1,15}}\.json$")]
MAX_RECENT = 1000
_MAX_LIST_BYTES = 512 << 20  # about four million files
_NUM_THREADS = 8


class FileList:
    """All files of a run so far, and which of them sealed lists have."""

    def __init__(self, files: Inventory | None = None) -> None:
        self._files: dict[str, FileRecord] = dict(files or {})
        self._recent: dict[str, FileRecord] = dict(self._files)
        self._sealed: dict[str, FileRecord] = {}

    @property
    def files(self) -> Inventory:
        return self._files

    @property
    def sealed(self) -> Collection[str]:
        """The paths of the sealed lists."""
        return self._sealed.keys()

    def add(self, path: str, record: FileRecord) -> None:
        self._files[path] = self._recent[path] = record

    def without(self, paths: Collection[str]) -> "FileList":
        """A list without these files, of which nothing is sealed."""
        if not paths:
            return self
        return FileList({path: record for path, record in self._files.items() if path not in paths})

    def write(
        self, store: Store, number: int, epoch: int, fence: Fence
    ) -> tuple[dict[str, FileRecord], dict[str, FileRecord]]:
        """`sealed` and `artifacts` of snapshot `number`. Writes a sealed list first, if there is much to say."""
        if len(self._recent) > MAX_RECENT:
            path = f"{SEALED_LISTS}/{with_epoch(f'{number:06d}', epoch)}.json"
            text = json.dumps({name: asdict(record) for name, record in self._recent.items()})
            self._sealed[path] = write_checked(store, path, text.encode(), fence)
            self._recent = {}
        return dict(self._sealed), dict(sorted(self._recent.items()))

    @classmethod
    def read(cls, store: Store, sealed: Inventory, recent: Inventory) -> Self:
        """The list of a snapshot, from its manifest; `CorruptData` if a sealed list is damaged."""
        found = cls()
        found._sealed, found._recent = dict(sealed), dict(recent)
        for path, record in sealed.items():
            found._files |= read_list(store, path, record)
        found._files |= recent
        return found

    def find_damage(self, store: Store) -> dict[str, str]:
        """What is wrong with files that are missing, unreadable or differ, by path. Reads every byte."""

        def check(item: tuple[str, FileRecord]) -> tuple[str, str] | None:
            try:
                check_file(store, *item)
            except SamovarError as error:
                return item[0], str(error)
            return None

        with ThreadPoolExecutor(_NUM_THREADS, thread_name_prefix="check") as pool:
            return dict(filter(None, pool.map(check, self._files.items())))


def read_list(store: Store, path: str, record: FileRecord) -> dict[str, FileRecord]:
    """A list of files, verified."""
    data = map_checked(store, path, record)
    return read_record(dict[StorePath, FileRecord], data, f"{store.name}/{path}", _MAX_LIST_BYTES)
