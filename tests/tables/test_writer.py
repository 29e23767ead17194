"""The places of cells in a file."""

import pytest

from samovar.tables.cell import ALIGNMENT, HEADER_BYTES
from samovar.tables.parquet import Column, page_header
from samovar.tables.writer import _CountingWriter, _write_cells


class Kept:
    def __init__(self) -> None:
        self.data = bytearray()

    def write(self, data: bytes) -> None:
        self.data += data


@pytest.mark.timeout(20)
def test_a_page_whose_header_and_padding_depend_on_each_other_is_written() -> None:
    """Around the sizes at which a header grows by a byte there are pages that fit neither length."""
    num_moved = 0
    for size in [*range(8192 - 60, 8192 + 4), *range(48, 70)]:
        for start in range(ALIGNMENT):
            kept = Kept()
            kept.write(bytes(start))
            file = _CountingWriter(kept)  # type: ignore[arg-type]  # it only writes
            file.position = start
            cell = bytes(max(size, HEADER_BYTES))
            chunk, offsets, sizes = _write_cells(file, Column("x", "BYTE_ARRAY"), [cell])
            header = page_header(4 + sizes[0], 1)
            assert kept.data[chunk.offset : chunk.offset + len(header)] == header
            assert offsets == [chunk.offset + len(header) + 4]
            assert (offsets[0] + HEADER_BYTES + sizes[0] - len(cell)) % ALIGNMENT == 0
            assert len(kept.data) == file.position == offsets[0] + sizes[0]
            num_moved += chunk.offset > start
    assert num_moved > 0
