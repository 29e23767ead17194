"""Parquet files."""

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
from pyarrow import parquet

from samovar.brewing.formats.base import ROWS_PER_BATCH, FileScan, Format, HashedFile, require_columns
from samovar.brewing.formats.column_types import ColumnTypes


class ParquetFormat(Format):
    name = "parquet"

    def scan(self, file: HashedFile, types: ColumnTypes) -> FileScan:
        with parquet.ParquetFile(file.path) as opened:
            types.declare(opened.schema_arrow, file.path)
            return FileScan(opened.schema_arrow.names, opened.metadata.num_rows)

    def read(self, path: Path, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        with parquet.ParquetFile(path) as opened:
            require_columns(path, schema, opened.schema_arrow.names)
            yield from opened.iter_batches(ROWS_PER_BATCH, columns=schema.names)
