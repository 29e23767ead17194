import pytest

from samovar.errors import CorruptData
from samovar.results.event_file import read_scalars, scalar_record, version_record


def test_scalars_are_read_back_in_order() -> None:
    data = version_record() + scalar_record("train/loss", 0, 0.5, 1.0) + scalar_record("чай", 300, -2.25, 2.0)
    assert list(read_scalars(data)) == [("train/loss", 0, 0.5), ("чай", 300, -2.25)]


def test_the_bytes_are_those_that_tensorboard_reads() -> None:
    # Seen by TensorBoard 2.21's EventAccumulator.
    assert version_record().hex() == "1800000000000000a37f4b220900000000000000001a0d627261696e2e4576656e743a32eedf28a3"
    assert scalar_record("a", 300, 0.5, 2.0).hex() == (
        "1800000000000000a37f4b2209000000000000004010ac022a0a0a080a0161150000003fd150deb2"
    )


def test_a_damaged_record_is_found() -> None:
    data = bytearray(scalar_record("a", 1, 0.5, 1.0))
    data[20] ^= 1
    with pytest.raises(CorruptData, match="record at byte 0 is damaged"):
        list(read_scalars(bytes(data)))
