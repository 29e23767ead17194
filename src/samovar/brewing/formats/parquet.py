"""Parquet files."""

from collections.abc import Iterator

import pyarrow as pa
from pyarrow import parquet

from samovar.brewing.formats.base import ROWS_PER_BATCH, FileScan, Format, HashedFile, require_columns
from samovar.brewing.formats.column_types import ColumnTypes
from samovar.config.places import Place, Url
from samovar.store import open_file


def open_parquet(path: Place) -> parquet.ParquetFile:
    """Open a file; of an object store, only what is asked for is read."""
    return parquet.ParquetFile(open_file(path) if isinstance(path, Url) else path)


class ParquetFormat(Format):
    name = "parquet"

    def scan(self, file: HashedFile, types: ColumnTypes) -> FileScan:
        with open_parquet(file.path) as opened:
            types.declare(opened.schema_arrow, file.path)
            return FileScan(opened.schema_arrow.names, opened.metadata.num_rows)

    def read(self, path: Place, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        with open_parquet(path) as opened:
            require_columns(path, schema, opened.schema_arrow.names)
            yield from opened.iter_batches(ROWS_PER_BATCH, columns=schema.names)
