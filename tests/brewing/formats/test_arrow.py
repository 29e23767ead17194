"""Arrow IPC, as a file and as a stream."""

from pathlib import Path

import pyarrow as pa
import pyarrow.feather as feather
import pytest

from samovar.testing.format import FormatContract, Write, read_all


class TestArrowFormat(FormatContract):
    @pytest.fixture
    def write(self, tmp_path: Path) -> Write:
        def write(table: pa.Table) -> Path:
            feather.write_feather(table, str(tmp_path / "rows.arrow"), chunksize=300)
            return tmp_path / "rows.arrow"

        return write


class TestArrowStreamFormat(FormatContract):
    @pytest.fixture
    def write(self, tmp_path: Path) -> Write:
        def write(table: pa.Table) -> Path:
            with pa.ipc.new_stream(tmp_path / "rows.arrow", table.schema) as stream:
                stream.write_table(table, max_chunksize=300)
            return tmp_path / "rows.arrow"

        return write


def test_a_stream_keeps_narrow_types_and_nulls(tmp_path: Path) -> None:
    with (
        pa.OSFile(str(tmp_path / "rows.arrow"), "wb") as file,
        pa.ipc.new_stream(file, pa.schema({"x": pa.int8()})) as out,
    ):
        out.write_batch(pa.record_batch({"x": pa.array([1, None], pa.int8())}))
    assert read_all(tmp_path / "rows.arrow") == ({"x": "int8"}, [{"x": 1}, {"x": None}])
