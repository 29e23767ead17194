"""Parquet."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

from samovar.testing.format import FormatContract, Write


class TestParquetFormat(FormatContract):
    @pytest.fixture
    def write(self, tmp_path: Path) -> Write:
        def write(table: pa.Table) -> Path:
            parquet.write_table(table, tmp_path / "rows.parquet", row_group_size=300)
            return tmp_path / "rows.parquet"

        return write
