import json
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from tests.tables.making import SCHEMA, add_version, make_minibatch, make_table
from tests.waiting import wait_until

import samovar
from samovar.errors import BadInput, Conflict, CorruptData, NotAResult, UnknownColumn
from samovar.native import hash_bytes
from samovar.store import LocalStore, MemoryStore, Store, write_file
from samovar.tables import Bag, ColumnSchema, Ids, Record, TableSchema, open_table
from samovar.tables import files as table_files
from samovar.tables import writer as table_writer
from samovar.tables.reader import ReaderState, ReadOptions, ReadPlan
from samovar.tables.schema import Minibatch
from samovar.testing.store import CountingStore


@pytest.fixture(params=["memory", "local"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    return MemoryStore() if request.param == "memory" else LocalStore(tmp_path / "table")


def plain(record: Record) -> dict[str, object]:
    """Everything in a record, as plain values."""
    values: dict[str, object] = {"number": record.number, "hour": record.hour, "num_examples": record.num_examples}
    for name, value in record.items():
        if isinstance(value, Bag):
            values[name] = (value.data.tolist(), value.data_len.tolist())
        else:
            values[name] = value.tolist() if isinstance(value, torch.Tensor) else value.to_pylist()
    return values


def expected(minibatch: Minibatch, number: int) -> dict[str, object]:
    values: dict[str, object] = {"number": number, "hour": minibatch.hour, "num_examples": minibatch.num_examples}
    for name, value in minibatch.values.items():
        if isinstance(value, Ids):
            values[name] = (value.data.view(np.int64).tolist(), value.lengths.tolist())
        else:
            values[name] = value.tolist() if isinstance(value, np.ndarray) else value.to_pylist()
    return values


@pytest.mark.parametrize("compression", ["zstd", "lz4", "none"])
def test_what_is_written_is_read_back_in_order(store: Store, compression: str) -> None:
    minibatches = [make_minibatch(number, 3 + number % 40, number // 7 * 3600) for number in range(60)]
    table = add_version(store, minibatches, compression=compression)
    assert [plain(record) for record in table.read()] == [
        expected(item, number) for number, item in enumerate(minibatches)
    ]
    assert (table.num_minibatches, table.num_examples) == (60, sum(item.num_examples for item in minibatches))
    assert table.columns == SCHEMA.names
    assert table.hours == {hour * 3600: range(hour * 7, min(hour * 7 + 7, 60)) for hour in range(9)}


@pytest.mark.parametrize("reading", [(1, 1, None), (4, 4, None), (1, 1, 1), (2, 3, 10_000)])
def test_threads_and_cache_change_nothing(store: Store, reading: tuple[int, int, int | None]) -> None:
    table = make_table(store, 50)
    downloaders, parsers, cache = reading
    records = table.read(options=ReadOptions(downloaders, parsers, cache))
    assert [plain(record) for record in records] == [plain(record) for record in table.read()]


def test_any_range_of_minibatches_and_any_columns_can_be_read(store: Store) -> None:
    table = make_table(store, 50)
    whole = [plain(record) for record in table.read()]
    for start, stop in [(0, 0), (0, 1), (7, 9), (16, 33), (49, 50), (50, 50), (3, None)]:
        reader = table.read(start=start, stop=stop)
        assert reader.position == start
        assert [plain(record) for record in reader] == whole[start:stop]
        assert reader.position == (50 if stop is None else stop)
    for record in table.read(["price", "banner"]):
        assert list(record) == ["price", "banner"]
        assert plain(record)["price"] == whole[record.number]["price"]


def test_tensors_changed_in_place_are_read_as_they_were_the_next_time(tmp_path: Path) -> None:
    table = make_table(LocalStore(tmp_path), 10, compression="none")
    before = [plain(record) for record in table.read()]
    for record in table.read(["price"]):
        price = record["price"]
        assert isinstance(price, torch.Tensor)
        price += 1
    assert [plain(record) for record in table.read()] == before


def test_an_uncompressed_table_is_checked_when_it_is_first_read_and_when_its_file_has_changed(tmp_path: Path) -> None:
    table = make_table(LocalStore(tmp_path), 20, compression="none")
    path = tmp_path / table.manifests[0].segment.files[0].path
    whole = path.read_bytes()
    (block, *_) = table._blocks(0, 20, list(range(6)), 1 << 30)
    cell = block.file.cells[5, 1]
    damaged = bytearray(whole)
    damaged[int(cell["offset"]) + int(cell["size"]) - 1] ^= 1
    path.write_bytes(damaged)
    for _ in range(2):
        with pytest.raises(CorruptData, match="minibatch 5, column 'words': its cell is damaged"):
            list(table.read())
    path.write_bytes(whole)
    before = [plain(record) for record in table.read()]
    assert [plain(record) for record in table.read()] == before
    path.write_bytes(damaged)
    with pytest.raises(CorruptData, match="minibatch 5, column 'words': its cell is damaged"):
        list(table.read())


def test_a_table_that_needs_no_decompression_gets_one_parser() -> None:
    assert ReadPlan.choose(ReadOptions(), is_light=True).num_parsers == 1
    assert ReadPlan.choose(ReadOptions(num_parsers=3), is_light=True).num_parsers == 3


def test_a_reader_stopped_in_the_middle_leaves_no_thread(tmp_path: Path) -> None:
    import threading

    table = make_table(LocalStore(tmp_path), 50)
    before = threading.active_count()
    with table.read(options=ReadOptions(num_parsers=3)) as reader:
        next(reader)
        assert reader.position == 1
    wait_until(lambda: threading.active_count() == before, "its threads have ended")


def test_a_reader_closed_by_the_garbage_collector_while_a_thread_starts_blocks_nothing(tmp_path: Path) -> None:
    """The collector may run while a new thread holds the lock that joining a thread needs."""
    code = f"""
import gc
import faulthandler
from samovar.tables import ReadOptions, open_table

table = open_table({str(tmp_path)!r})
gc.set_threshold(7, 2, 2)
for _ in range(1500):
    faulthandler.dump_traceback_later(60, exit=True)  # each round: all of them together depend on the machine
    abandoned = table.read(["price"], options=ReadOptions(max_cache_size=3000))
    next(abandoned)
    cycle = [abandoned]
    cycle.append(cycle)
    del abandoned, cycle
    with table.read(["price"]) as reader:
        next(reader)
"""
    make_table(LocalStore(tmp_path), 60)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("compression", ["none", "zstd"])
def test_files_may_be_cut_as_soon_as_a_reader_is_closed(tmp_path: Path, compression: str) -> None:
    """Reading a mapped page that no longer exists would kill the process."""
    code = f"""
from pathlib import Path
from samovar.tables import ReadOptions, open_table

for _ in range(300):
    table = open_table({str(tmp_path)!r})
    path = Path({str(tmp_path)!r}) / table.manifests[0].segment.files[0].path
    whole = path.read_bytes()
    with table.read(options=ReadOptions(num_parsers=4)) as reader:
        next(reader)
    path.write_bytes(b"")
    path.write_bytes(whole)
"""
    make_table(LocalStore(tmp_path), 200, compression=compression)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_records_live_on_after_their_reader(tmp_path: Path) -> None:
    table = make_table(LocalStore(tmp_path), 30)
    records = list(table.read())
    shutil.rmtree(tmp_path)
    assert [plain(record) for record in records] == [
        expected(make_minibatch(number, (5, 300)[number % 2], number // 3 * 3600), number) for number in range(30)
    ]


def test_an_append_is_a_new_version_and_a_reader_keeps_the_old_one(store: Store) -> None:
    old = add_version(store, [make_minibatch(number, hour=0) for number in range(5)])
    reader = old.read()
    next(reader)
    new = add_version(store, [make_minibatch(number, hour=3600) for number in range(5, 12)])
    assert len(list(reader)) == 4
    assert (old.version, old.num_minibatches, new.version, new.num_minibatches, list(old.versions)) == (
        1,
        5,
        2,
        12,
        [1, 2],
    )
    assert [plain(record) for record in new.read()] == [
        expected(make_minibatch(number, hour=0 if number < 5 else 3600), number) for number in range(12)
    ]
    assert new.hours == {0: range(5), 3600: range(5, 12)}
    assert open_table(store, version=1).num_minibatches == 5
    assert (
        json.loads(store.read("manifest/000002.e0.json"))["segment"]["files"][0]["path"]
        == "segments/000002/0000.parquet"
    )


def test_a_position_is_valid_in_the_same_table_or_one_that_grew_and_nowhere_else(store: Store) -> None:
    old = add_version(store, [make_minibatch(number, hour=0) for number in range(5)])
    columns = ["price", "words"]
    with old.read(columns) as reader:
        first = [plain(next(reader)) for _ in range(3)]
        state = ReaderState.from_json(json.loads(json.dumps(reader.state.to_json())))
    new = add_version(store, [make_minibatch(number, hour=3600) for number in range(5, 9)])
    rest = [plain(record) for record in new.read(columns, start=new.select(columns).position_of(state))]
    assert first + rest == [plain(record) for record in new.read(columns)]
    with new.read(columns) as reader, pytest.raises(Conflict, match="of version 2, this is 1"):
        old.select(columns).position_of(reader.state)
    with pytest.raises(Conflict, match="with columns price, words, not price"):
        old.select(["price"]).position_of(state)
    with pytest.raises(Conflict, match="of table another, this is a table"):
        old.select(columns).position_of(replace(state, table_id="another"))


def test_a_manifest_that_was_not_committed_does_not_count(store: Store) -> None:
    add_version(store, [make_minibatch(1)])
    write_file(store, "manifest/000002.e1.json", b"left by a brewer that lost its lease")
    assert open_table(store).version == 1
    assert add_version(store, [make_minibatch(2, hour=3600)]).version == 2


def test_many_files_are_one_table(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        table_writer, "CHUNKS_PER_FILE", 3 * (len(SCHEMA.columns) + 2) - 1
    )  # _hour and _num_examples too
    monkeypatch.setattr(table_writer, "MINIBATCHES_PER_GROUP", 3)
    table = make_table(store, 20)
    assert [entry.num_minibatches for entry in table.manifests[0].segment.files] == [6, 6, 6, 2]
    assert [record.number for record in table.read(start=4, stop=15)] == list(range(4, 15))


def test_an_offline_table_has_no_hours(store: Store) -> None:
    table = add_version(store, [make_minibatch(number, hour=None) for number in range(5)])
    assert table.hours == {None: range(5)}
    assert {record.hour for record in table.read()} == {None}


def test_an_empty_table_reads_nothing(store: Store) -> None:
    table = add_version(store, [])
    assert (table.num_minibatches, list(table.read()), table.hours) == (0, [], {})


def test_any_parquet_reader_opens_the_files(tmp_path: Path) -> None:
    table = make_table(LocalStore(tmp_path), 40)
    path = tmp_path / table.manifests[0].segment.files[0].path
    found = pq.read_table(path)
    assert found.schema.names == ["_hour", "_num_examples", *SCHEMA.names]
    assert found["_hour"].to_pylist() == [number // 3 * 3600 for number in range(40)]
    assert all(cell.startswith(b"SMVC") for cell in found["words"].to_pylist())
    rows = duckdb.connect().execute(f"select sum(_num_examples), min(octet_length(price)) > 56 from '{path}'")
    assert rows.fetchall() == [(table.num_examples, True)]


def test_writing_twice_gives_the_same_bytes(tmp_path: Path) -> None:
    stores = [LocalStore(tmp_path / name) for name in "ab"]
    for store in stores:
        make_table(store, 30)
    paths = [entry.path for entry in stores[0].list()]
    assert [entry.path for entry in stores[1].list()] == paths
    assert all(stores[0].read(path) == stores[1].read(path) for path in paths)


def test_only_the_requested_columns_are_read() -> None:
    store = CountingStore()
    columns = tuple(ColumnSchema(f"c{number}", "real", 1, "float") for number in range(40))
    chance = np.random.Generator(np.random.Philox(key=1))
    rows = [
        Minibatch(0, 1024, {column.name: chance.standard_normal(1024).astype(np.float32) for column in columns})
        for _ in range(50)
    ]
    table = add_version(store, rows, TableSchema(columns))
    entry = table.manifests[0].segment.files[0]
    store.bytes_read = 0
    assert len(list(table.read([f"c{number}" for number in (3, 7, 8, 20, 39)]))) == 50
    cells = sum(table.manifests[0].segment.column_bytes[f"c{number}"] for number in (3, 7, 8, 20, 39))
    footer = entry.size - entry.index_at
    assert cells <= store.bytes_read <= 1.01 * cells + footer


def test_a_damaged_cell_is_named_by_file_minibatch_and_column(tmp_path: Path) -> None:
    table = make_table(LocalStore(tmp_path), 20)
    path = tmp_path / table.manifests[0].segment.files[0].path
    data = bytearray(path.read_bytes())
    reader = table.read()
    blocks = list(table._blocks(0, 20, list(range(6)), 1 << 30))
    cell = blocks[0].file.cells[5, 1]
    data[int(cell["offset"]) + int(cell["size"]) - 1] ^= 1
    path.write_bytes(data)
    with pytest.raises(
        CorruptData, match=rf"{path}: minibatch 5, column 'words': its cell is damaged.*brew the table again"
    ):
        list(table.read())
    assert len(list(table.read(["banner", "price"]))) == 20
    assert len(list(table.read(stop=5))) == 5
    reader.close()


def test_a_truncated_or_missing_file_is_named(tmp_path: Path) -> None:
    table = make_table(LocalStore(tmp_path), 20)
    path = tmp_path / table.manifests[0].segment.files[0].path
    whole = path.read_bytes()
    assert len(list(table.read())) == 20
    path.write_bytes(whole[:-1])
    with pytest.raises(
        CorruptData, match=rf"{path}: the file has {len(whole) - 1:,} bytes, its manifest says {len(whole):,}"
    ):
        list(table.read())
    path.unlink()
    with pytest.raises(CorruptData, match=rf"{path}: the file is missing"):
        list(table.read())


def test_a_damaged_index_is_reported(tmp_path: Path) -> None:
    table = make_table(LocalStore(tmp_path), 20)
    entry = table.manifests[0].segment.files[0]
    data = bytearray((tmp_path / entry.path).read_bytes())
    data[entry.index_at] ^= 1
    (tmp_path / entry.path).write_bytes(data)
    with pytest.raises(CorruptData, match="the index of its cells is damaged"):
        list(table.read())


def test_a_newer_format_a_missing_version_and_a_missing_table_are_reported(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    for hour in (0, 3600):
        add_version(store, [make_minibatch(1, hour=hour)])
    newest = tmp_path / "manifest" / "000002.e0.json"
    for number, maker in ((1, "Samovar 0.1"), (2, "a Samovar before 0.2"), (4, "a newer Samovar")):
        newest.write_text(re.sub('"format": .', f'"format": {number}', newest.read_text()))
        with pytest.raises(CorruptData, match=rf"000002.e0.json was made by {maker} in table format {number}; this"):
            open_table(tmp_path)
    newest.write_text("{")
    with pytest.raises(CorruptData, match=r"000002.e0.json is damaged"):
        open_table(tmp_path)
    with pytest.raises(BadInput, match="has no version 7: it has 1 to 2"):
        open_table(tmp_path, version=7)
    (tmp_path / "manifest" / "000001.e0.json").unlink()
    with pytest.raises(CorruptData, match=r"000001.e0.json: the manifest is missing"):
        open_table(tmp_path)
    with pytest.raises(NotAResult, match="none that was brewed to the end"):
        open_table(tmp_path / "segments")
    with pytest.raises(NotAResult, match="none does not exist; expected a table"):
        open_table(tmp_path / "none")


def test_wrong_columns_minibatches_and_options_are_rejected(store: Store) -> None:
    table = make_table(store, 5)
    with pytest.raises(UnknownColumn, match=r"no column 'bannr'\. Did you mean 'banner'\? Available: banner, words, "):
        table.read(["bannr"])
    for start, stop in [(-1, 2), (3, 2), (0, 6)]:
        with pytest.raises(BadInput, match=f"has 5 minibatches, got a range from {start} to {stop}"):
            table.read(start=start, stop=stop)
    with pytest.raises(BadInput, match="num_parsers must be at least 1, got 0"):
        table.read(options=ReadOptions(num_parsers=0))
    record = next(table.read(["price"]))
    with pytest.raises(UnknownColumn, match=r"minibatch 0: no column 'hit' was read\. Available: price"):
        record["hit"]


def test_a_minibatch_over_the_limit_is_rejected_with_its_column_sizes(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(table_writer, "MAX_MINIBATCH_BYTES", 1000)
    with pytest.raises(
        BadInput, match=r"a minibatch of 300 examples takes [\d,]+ bytes, .*Largest columns: factors [\d,]+, "
    ):
        make_table(store, 2)


def test_a_minibatch_that_is_small_only_when_compressed_is_rejected(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(table_writer, "MAX_MINIBATCH_MEMORY", 1000)
    with pytest.raises(BadInput, match=r"a minibatch of 300 examples takes [\d,]+ bytes of memory, .* 1,000\. "):
        make_table(store, 2)


@pytest.mark.parametrize("compression", ["zstd", "none"])
def test_a_small_cell_that_claims_gigabytes_is_damaged_and_takes_no_memory(tmp_path: Path, compression: str) -> None:
    table = make_table(LocalStore(tmp_path), 20, compression=compression)
    path = tmp_path / table.manifests[0].segment.files[0].path
    column = table.columns.index("price")
    (block, *_) = table._blocks(0, 20, [column], 1 << 30)
    offset, size, _ = block.file.cells[5, column].tolist()
    data = bytearray(path.read_bytes())
    head = np.frombuffer(data, np.uint8, 56, offset)
    head[12:16].view(np.uint32)[0] = 1 << 30  # items
    head[40:48].view(np.uint64)[0] = 4 << 30  # bytes before compression
    padding, head[10] = int(head[10]), 0
    seed = hash_bytes(head[:48].tobytes())
    head[10] = padding
    payload = bytes(data[offset + 56 + padding : offset + size])
    head[48:56].view(np.uint64)[0] = hash_bytes(payload, seed)
    path.write_bytes(data)
    with pytest.raises(CorruptData, match=r"minibatch 5, column 'price': its cell has 1073741824 examples"):
        list(table.read(["price"]))


def test_a_minibatch_that_claims_more_memory_than_the_limit_is_damaged(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = make_table(store, 5)
    monkeypatch.setattr(table_files, "MAX_MINIBATCH_MEMORY", 1000)
    with pytest.raises(
        CorruptData, match=r"minibatch [13] of the file claims [\d,]+ bytes of memory, more than the limit of 1,000"
    ):
        list(table.read())


def test_the_public_names_are_exported() -> None:
    assert samovar.open_table is open_table
    assert samovar.Bag is Bag
    with pytest.raises(
        BadInput, match=r"data must be int64 of rank 1 and data_len int32, got torch\.float32 of rank 1"
    ):
        Bag(torch.zeros(3), torch.zeros(3, dtype=torch.int32))


def test_a_bag_of_distinct_ids_makes_its_data_by_itself() -> None:
    bag = Bag.of_distinct(
        torch.tensor([5, 9]), torch.tensor([1, 0, 1], dtype=torch.int32), torch.tensor([3], dtype=torch.int32)
    )
    assert bag.data.tolist() == [9, 5, 9]
    assert (len(bag), repr(bag)) == (1, "Bag(3 ids, data_len [1])")


def test_keys_of_an_arrow_type_stay_what_they_were(store: Store) -> None:
    schema = TableSchema((ColumnSchema("key", "key", 1, "timestamp[us]"),))
    keys = pa.array([1, None], pa.timestamp("us"))
    table = add_version(store, [Minibatch(0, 2, {"key": keys})], schema)
    found = next(table.read())["key"]
    assert isinstance(found, pa.Array)
    assert found.equals(keys)
