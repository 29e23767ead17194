"""Arrow IPC, as a file and as a stream."""

from pathlib import Path

import pyarrow as pa
import pyarrow.feather as feather
import pytest

from samovar.brewing.formats.arrow import ArrowFormat
from samovar.errors import BadInput
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


def test_offsets_that_lead_out_of_a_file_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "rows.arrow"
    with pa.ipc.new_file(path, pa.schema([("a", pa.string())])) as file:
        file.write_batch(pa.record_batch([pa.array(["some text"])], names=["a"]))
    whole = path.read_bytes()
    place = whole.rindex((9).to_bytes(4, "little"), 0, whole.rindex(b"some text"))
    path.write_bytes(whole[:place] + (10**9).to_bytes(4, "little") + whole[place + 4 :])
    with pytest.raises(pa.ArrowInvalid):  # before a value is touched
        list(ArrowFormat().read(path, pa.schema([("a", pa.string())])))
    with pytest.raises(BadInput, match="cannot be read as arrow"):
        read_all(path)
