"""Line breaks inside the values of a CSV file: meant, or the mark of a quote that was never closed, which makes one
value of all rows up to the next quote. Knows the values and the end of the file, and parses nothing."""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from samovar.brew.ragged import as_numpy
from samovar.brew.sources import SourceFile
from samovar.errors import BadInput

_PIECE_BYTES = 1 << 20


@dataclass
class LineBreaks:
    """What was met in one file so far."""

    num_rows: int = 0
    num_values: int = 0
    """Values with line breaks."""
    most: int = 0
    """Line breaks of the value that has most."""
    longest: tuple[int, str] = (0, "")
    """Its row and column."""

    def count(self, column: str, texts: pa.Array) -> None:
        """The next rows of a column; `num_rows` stand before them."""
        counts = as_numpy(pc.count_substring(texts, "\n").fill_null(0))
        self.num_values += int(np.count_nonzero(counts))
        if counts.max(initial=0) > self.most:
            self.most, self.longest = int(counts.max()), (self.num_rows + int(counts.argmax()), column)

    def notes(self, file: SourceFile) -> list[str]:
        if self.num_values == 0:
            return []
        row, column = self.longest
        return [
            f"{file.path}: values with line breaks: {self.num_values}, the longest, of {self.most + 1} lines, in row "
            f"{row}, column {column!r}; if these are no texts, a quote is not closed there, and rows below it are lost"
        ]

    def refuse_open_quote(self, file: SourceFile, last: str | None) -> None:
        """`last` is the last value of the file: one whose quote is open reaches to the very last byte."""
        num_lines = 0 if last is None else last.strip().count("\n")
        if last is None or num_lines == 0:
            return
        raw = b'"' + last.replace('"', '""').encode()
        if _end_of(file, len(raw)) == raw:
            raise BadInput(
                f"{file.path}: row {self.num_rows - 1} opens a quote that is never closed, so that {num_lines} more "
                "lines are in its last value; expected a quote at its end: close or remove it"
            )


def _end_of(file: SourceFile, num_bytes: int) -> bytes:
    """The last bytes of the text, of which compressed files know only by reading all of it."""
    end = b""
    with pa.input_stream(str(file.path)) as opened:
        if opened.seekable():
            opened.seek(max(0, opened.size() - num_bytes))
        while piece := opened.read(max(_PIECE_BYTES, num_bytes)):
            end = (end + piece)[-num_bytes:]
    return end
