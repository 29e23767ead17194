"""Arrow IPC files, in the file layout (Feather) or the stream layout. Local files are memory-mapped."""

from collections.abc import Iterable
from typing import Any

import pyarrow as pa

from samovar.brewing.formats.base import FileScan, Format, HashedFile, require_columns
from samovar.brewing.formats.column_types import ColumnTypes
from samovar.config.places import Place, Url
from samovar.store import open_file


class ArrowFormat(Format):
    name = "arrow"

    def scan(self, file: HashedFile, types: ColumnTypes) -> FileScan:
        schema = _open(file.path).schema
        types.declare(schema, file.path)
        first_column = pa.ipc.IpcReadOptions(included_fields=[0] if schema.names else [])  # decompress no more
        return FileScan(schema.names, sum(batch.num_rows for batch in _batches(_open(file.path, first_column))))

    def read(self, path: Place, schema: pa.Schema) -> Iterable[pa.RecordBatch]:
        reader = _open(path)
        require_columns(path, schema, reader.schema.names)
        return _batches(reader)


def _open(path: Place, options: pa.ipc.IpcReadOptions | None = None) -> Any:
    try:
        return pa.ipc.open_file(_map(path), options=options)
    except pa.ArrowInvalid:
        return pa.ipc.open_stream(_map(path), options=options)


def _map(path: Place) -> pa.NativeFile:
    return pa.PythonFile(open_file(path), mode="r") if isinstance(path, Url) else pa.memory_map(str(path))


def _batches(reader: Any) -> Iterable[pa.RecordBatch]:
    """Checked, because Arrow follows the offsets of a damaged file wherever they lead."""
    is_file = isinstance(reader, pa.RecordBatchFileReader)
    for batch in map(reader.get_batch, range(reader.num_record_batches)) if is_file else reader:
        batch.validate(full=True)
        yield batch
