"""Arrow IPC files, in the file layout (Feather) or the stream layout. Both are memory-mapped."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa

from samovar.brewing.formats.base import FileScan, Format, HashedFile, require_columns
from samovar.brewing.formats.column_types import ColumnTypes


class ArrowFormat(Format):
    name = "arrow"

    def scan(self, file: HashedFile, types: ColumnTypes) -> FileScan:
        schema = _open(file.path).schema
        types.declare(schema, file.path)
        first_column = pa.ipc.IpcReadOptions(included_fields=[0] if schema.names else [])  # decompress no more
        return FileScan(schema.names, sum(batch.num_rows for batch in _batches(_open(file.path, first_column))))

    def read(self, path: Path, schema: pa.Schema) -> Iterable[pa.RecordBatch]:
        reader = _open(path)
        require_columns(path, schema, reader.schema.names)
        return _batches(reader)


def _open(path: Path, options: pa.ipc.IpcReadOptions | None = None) -> Any:
    try:
        return pa.ipc.open_file(pa.memory_map(str(path)), options=options)
    except pa.ArrowInvalid:
        return pa.ipc.open_stream(pa.memory_map(str(path)), options=options)


def _batches(reader: Any) -> Iterable[pa.RecordBatch]:
    if isinstance(reader, pa.RecordBatchFileReader):
        return map(reader.get_batch, range(reader.num_record_batches))
    return iter(reader)  # type: ignore[no-any-return]  # pyarrow has no types
