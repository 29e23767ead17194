"""Tensor tables: tables whose row is one ready minibatch. Schema, cells, manifest, writer, reader. Knows no brewing.

Names are imported on use: writing a table needs no torch.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from samovar.tables.cell import Compression
    from samovar.tables.manifest import Manifest, Segment, commit_manifest, read_manifests
    from samovar.tables.merge import Part, read_merged
    from samovar.tables.reader import ReadOptions, TableReader
    from samovar.tables.record import Bag, MinibatchRecord, Record
    from samovar.tables.schema import ColumnSchema, Ids, Minibatch, TableSchema
    from samovar.tables.table import Table, open_table
    from samovar.tables.writer import write_segment

_MODULES = {
    "Bag": "record",
    "ColumnSchema": "schema",
    "Compression": "cell",
    "Ids": "schema",
    "Manifest": "manifest",
    "Minibatch": "schema",
    "MinibatchRecord": "record",
    "Part": "merge",
    "ReadOptions": "reader",
    "Record": "record",
    "Segment": "manifest",
    "Table": "table",
    "TableReader": "reader",
    "TableSchema": "schema",
    "commit_manifest": "manifest",
    "open_table": "table",
    "read_manifests": "manifest",
    "read_merged": "merge",
    "write_segment": "writer",
}

__all__ = [
    "Bag",
    "ColumnSchema",
    "Compression",
    "Ids",
    "Manifest",
    "Minibatch",
    "MinibatchRecord",
    "Part",
    "ReadOptions",
    "Record",
    "Segment",
    "Table",
    "TableReader",
    "TableSchema",
    "commit_manifest",
    "open_table",
    "read_manifests",
    "read_merged",
    "write_segment",
]


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module 'samovar.tables' has no attribute {name!r}. Available: {', '.join(__all__)}")
    return getattr(importlib.import_module(f"samovar.tables.{_MODULES[name]}"), name)
