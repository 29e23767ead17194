"""Tensor tables: tables whose row is one ready minibatch. Schema, cells, manifest, writer, reader. Knows no brewing.

Names are imported on use: writing a table needs no torch.
"""

from typing import TYPE_CHECKING

from samovar.lazy import lazy_names

if TYPE_CHECKING:
    from samovar.tables.export import export_rows
    from samovar.tables.keys import plain_values
    from samovar.tables.reader import ReadOptions, TableReader
    from samovar.tables.record import Bag, MinibatchRecord, Record
    from samovar.tables.schema import ColumnSchema, Ids, TableSchema
    from samovar.tables.table import Table, open_table

__all__ = [
    "Bag",
    "ColumnSchema",
    "Ids",
    "MinibatchRecord",
    "ReadOptions",
    "Record",
    "Table",
    "TableReader",
    "TableSchema",
    "export_rows",
    "open_table",
    "plain_values",
]

__getattr__ = lazy_names(
    __name__,
    {
        "Bag": "record:Bag",
        "ColumnSchema": "schema:ColumnSchema",
        "Ids": "schema:Ids",
        "MinibatchRecord": "record:MinibatchRecord",
        "ReadOptions": "reader:ReadOptions",
        "Record": "record:Record",
        "Table": "table:Table",
        "TableReader": "reader:TableReader",
        "TableSchema": "schema:TableSchema",
        "export_rows": "export:export_rows",
        "open_table": "table:open_table",
        "plain_values": "keys:plain_values",
    },
)
