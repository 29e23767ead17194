"""CSV files and the like: a header line, then values between delimiters, in quotes or not.

A value may contain line breaks. They are meant, or the sign of a quote that was never closed, which makes one value
of all rows up to the next quote; the scan reports both.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv
from pyarrow import types as arrow_types

from samovar.brewing.arrays import as_numpy
from samovar.brewing.formats.base import FileScan, Format, HashedFile, open_utf8, require_columns
from samovar.brewing.formats.column_types import FALSE_WORDS, TRUE_WORDS, ColumnTypes, has_words, without_words
from samovar.config.places import Place
from samovar.errors import BadInput

_BLOCK_BYTES = 8 << 20
_HEADER_BYTES = 1 << 16
_PIECE_BYTES = 1 << 20
_DELIMITERS = ",\t;|"


class CsvFormat(Format):
    name = "csv"
    is_text = True

    def scan(self, file: HashedFile, types: ColumnTypes) -> FileScan:
        path = file.path
        names = self._read_names(path)
        for name in names:  # a file without rows still has these columns
            types.learn_texts(name, pa.array([], pa.string()), path)
        breaks, last = _LineBreaks(), None
        for batch in self._open(path, dict.fromkeys(names, pa.string()), file):
            for name in dict.fromkeys(names):
                if types.learn_texts(name, batch.column(name), path).leaf == "string":
                    breaks.count(name, batch.column(name))
            breaks.num_rows += batch.num_rows
            last = batch.column(names[-1])[-1] if batch.num_rows else last
        self._refuse_open_quote(path, breaks.num_rows, None if last is None else last.as_py())
        return FileScan(names, breaks.num_rows, breaks.notes(path))

    def read(self, path: Place, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        require_columns(path, schema, self._read_names(path))
        # Arrow reads no column of type null; any other type will do for an empty one.
        as_texts = {field.name for field in schema if arrow_types.is_null(field.type) or has_words(field)}
        kinds = {field.name: pa.string() if field.name in as_texts else field.type for field in schema}
        batches = self._open(path, kinds)
        marked = [field for field in schema if has_words(field)]
        return iter(batches) if not marked else (_parse_marked(batch, marked) for batch in batches)

    def _open(
        self, path: Place, kinds: dict[str, pa.DataType], file: HashedFile | None = None
    ) -> csv.CSVStreamingReader:
        convert = csv.ConvertOptions(
            column_types=kinds,
            include_columns=list(kinds),
            null_values=[""],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
            true_values=list(TRUE_WORDS),
            false_values=list(FALSE_WORDS),
        )
        return csv.open_csv(
            open_utf8(path, self.encoding, file),
            csv.ReadOptions(block_size=_BLOCK_BYTES),
            csv.ParseOptions(delimiter=self._find_delimiter(path), newlines_in_values=True),
            convert,
        )

    def _read_names(self, path: Place) -> list[str]:
        parse = csv.ParseOptions(delimiter=self._find_delimiter(path))
        return list(csv.open_csv(open_utf8(path, self.encoding), parse_options=parse).schema.names)

    def _find_delimiter(self, path: Place) -> str:
        """The delimiter that is most frequent in the header line."""
        with open_utf8(path, self.encoding) as stream:
            header = stream.read(_HEADER_BYTES).split(b"\n")[0]
        return max(_DELIMITERS, key=lambda delimiter: header.count(delimiter.encode()))

    def _refuse_open_quote(self, path: Place, num_rows: int, last: str | None) -> None:
        """`last` is the last value of the file. If its quote is not closed, it reaches to the very last byte."""
        num_lines = 0 if last is None else last.strip().count("\n")
        if last is None or num_lines == 0:
            return
        raw = b'"' + last.replace('"', '""').encode()
        if self._read_end(path, len(raw)) == raw:
            raise BadInput(
                f"{path}: row {num_rows - 1} opens a quote that is never closed, so its last value contains "
                f"{num_lines} more lines. Close the quote, or write two quotes for one inside a value"
            )

    def _read_end(self, path: Place, num_bytes: int) -> bytes:
        """The last bytes of the text. A compressed file must be read from its start to get there."""
        end = b""
        with open_utf8(path, self.encoding) as stream:
            if stream.seekable():
                stream.seek(max(0, stream.size() - num_bytes))
            while piece := stream.read(max(_PIECE_BYTES, num_bytes)):
                end = (end + piece)[-num_bytes:]
        return end


def _parse_marked(batch: pa.RecordBatch, marked: Sequence[pa.Field]) -> pa.RecordBatch:
    """Numbers that were read as texts, because some are words for missing values. Arrow's reader knows such words only
    for all columns, and in a text they are words like any other."""
    for field in marked:
        numbers = without_words(batch.column(field.name)).cast(field.type)
        batch = batch.set_column(batch.schema.get_field_index(field.name), pa.field(field.name, field.type), numbers)
    return batch


@dataclass
class _LineBreaks:
    """Values with line breaks in the rows that were scanned so far."""

    num_rows: int = 0
    num_values: int = 0
    most_breaks: int = 0
    longest: tuple[int, str] = (0, "")
    """Row and column of the value with `most_breaks`."""

    def count(self, column: str, texts: pa.Array) -> None:
        """Count the values of the next rows, which begin at `num_rows`."""
        counts = as_numpy(pc.count_substring(texts, "\n").fill_null(0))
        self.num_values += int(np.count_nonzero(counts))
        if counts.max(initial=0) > self.most_breaks:
            self.most_breaks, self.longest = int(counts.max()), (self.num_rows + int(counts.argmax()), column)

    def notes(self, path: Place) -> list[str]:
        if self.num_values == 0:
            return []
        row, column = self.longest
        return [
            f"{path}: values with line breaks: {self.num_values}. The longest has {self.most_breaks + 1} lines "
            f"(row {row}, column {column!r}). If it is not a text, its quote is not closed and the rows below are lost"
        ]
