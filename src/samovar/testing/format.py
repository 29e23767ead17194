"""What every raw file format must do. A new format passes by providing the fixture `write`."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from samovar.brewing.sources import FILE, ROW, find_source, fingerprint, read_in_order, scan
from samovar.errors import BadInput

Write = Callable[[pa.Table], Path]

LARGEST = 2**64 - 1
ROWS = pa.table(
    {
        "id": pa.array([LARGEST, 0, None, 2**53 + 1], pa.uint64()),
        "change": pa.array([-(2**63), None, 5, 2**63 - 1]),
        "price": pa.array([0.5, None, -1.5, 1e300]),
        "word": pa.array(["b", None, "я", 'two\n"lines"']),
        "empty": pa.nulls(4),
    }
)


def read_all(source: Any, **options: Any) -> tuple[dict[str, str], list[dict[str, Any]]]:
    """The types of a source's columns, and its rows without their places."""
    scanned = scan(find_source(source, **options))
    schema = scanned.schema
    rows = [row for batch in read_in_order(scanned.source, schema, schema.names) for row in batch.to_pylist()]
    for row in rows:
        del row[FILE], row[ROW]
    return {field.name: str(field.type) for field in schema}, rows


class FormatContract:
    """Subclass it and provide the fixture `write`: it writes a table to a new file and returns its path."""

    def test_values_come_back_with_their_types(self, write: Write) -> None:
        kinds, rows = read_all(write(ROWS))
        assert kinds == {field.name: str(field.type) for field in ROWS.schema}
        assert rows == ROWS.to_pylist()

    def test_only_the_columns_that_are_asked_for_are_read(self, write: Write) -> None:
        source = find_source(write(ROWS))
        batches = list(read_in_order(source, scan(source).schema, ["word", "id"]))
        assert batches[0].schema.names == ["word", "id", FILE, ROW]
        assert [row["id"] for batch in batches for row in batch.to_pylist()] == ROWS.column("id").to_pylist()

    def test_a_scan_counts_rows_and_fingerprints_the_file(self, write: Write) -> None:
        path = write(pa.concat_tables([ROWS] * 1000))
        pieces: list[int] = []
        scanned = scan(find_source(path), pieces.append)
        assert scanned.num_rows == 4000
        assert scanned.fingerprints == [fingerprint(path)]
        assert sum(pieces) == path.stat().st_size

    def test_a_file_without_rows_has_no_rows(self, write: Write) -> None:
        source = find_source(write(ROWS.slice(0, 0)))
        scanned = scan(source)
        assert scanned.num_rows == 0
        if scanned.known_schema is not None:
            assert sum(batch.num_rows for batch in read_in_order(source, scanned.schema, ["id"])) == 0

    def test_a_damaged_file_is_our_error(self, write: Write) -> None:
        path = write(ROWS)
        path.write_bytes(b'\xff\xfe{"')
        with pytest.raises(BadInput, match=rf"{path.name}: cannot be read as \w+ \("):
            scan(find_source(path))
