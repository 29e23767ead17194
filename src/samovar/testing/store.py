"""What every store must do. A new store passes by providing the fixture `store`."""

import threading
from collections.abc import Callable

import pytest

from samovar.errors import AlreadyExists, BadPath, LeaseHeld, LeaseLost, NotFound
from samovar.store import Attributes, Lease, MemoryStore, Store, lease_state, take_lease, write_file

ESCAPES = [
    "..", "../x", "a/../../x", "/etc/passwd", "a//b", "a/./b", "a/", "nul\0byte", "line\nbreak", "back\\slash",
    "\uff0e\uff0e/x", "\u2024\u2024/x", "a\u2215../x\u200b", "fullwidth\uff0fslash", "\ud800", "e\u0301", " x",
    "x" * 256,
    ".samovar/attributes/x", ".SAMOVAR/x", "\uff0esamovar/x",
]  # fmt: skip


class StoreContract:
    """The contract of stores: subclass it and provide the fixture `store`, a new and empty store.

    Example:
        >>> class TestMyStore(StoreContract):
        ...     @pytest.fixture
        ...     def store(self):
        ...         return MyStore()
    """

    def test_a_file_reads_back_whole_and_by_range(self, store: Store) -> None:
        write_file(store, "a/b.bin", b"0123456789")
        assert store.read("a/b.bin") == b"0123456789"
        assert store.read("a/b.bin", 2, 5) == b"234"
        assert store.read("a/b.bin", 8, 99) == b"89"
        assert store.read("a/b.bin", 20) == b""

    def test_a_mapped_file_is_writable_private_memory(self, store: Store) -> None:
        write_file(store, "a", b"abc")
        write_file(store, "empty", b"")
        memory = store.map("a")
        memory[0] = ord("x")
        assert (bytes(memory), store.read("a"), bytes(store.map("empty"))) == (b"xbc", b"abc", b"")

    def test_a_file_comes_in_chunks(self, store: Store) -> None:
        data = bytes(range(251)) * 120_000  # more than three chunks, and no two alike
        write_file(store, "large", data)
        write_file(store, "empty", b"")
        chunks = [bytes(chunk) for chunk in store.chunks("large")]
        assert b"".join(chunks) == data
        assert len(chunks) > 1
        assert list(store.chunks("empty")) == []
        assert bytes(store.map("large")) == data
        with pytest.raises(NotFound, match="no/such"):
            list(store.chunks("no/such"))

    def test_many_ranges_are_read_at_once(self, store: Store) -> None:
        data = b"".join(number.to_bytes(4, "big") for number in range(5_000_000))
        write_file(store, "a", data)
        ranges = [(19_000_000, 19_000_003), (5, 9), (0, 8), (7, 7), (17, 18_500_000), (19_999_990, 30_000_000), (0, 1)]
        assert [bytes(each) for each in store.read_many("a", ranges)] == [data[start:stop] for start, stop in ranges]
        assert store.read_many("a", []) == []
        with pytest.raises(NotFound, match="no/such"):
            store.read_many("no/such", [(0, 1)])

    def test_a_changed_file_has_another_etag(self, store: Store) -> None:
        write_file(store, "a/file", b"first")
        before = store.etag("a/file")
        assert store.etag("a/file") == before
        write_file(store, "a/file", b"other")
        assert before is None or store.etag("a/file") != before

    def test_a_file_appears_when_it_is_closed_and_not_before(self, store: Store) -> None:
        writer = store.create("a")
        writer.write(b"12")
        writer.write(memoryview(b"34"))
        assert store.list() == []
        writer.close()
        assert store.read("a") == b"1234"

    def test_a_file_whose_writing_failed_never_appears(self, store: Store) -> None:
        write_file(store, "a", b"old")
        writer = store.create("a")
        writer.write(b"new")
        writer.__exit__(RuntimeError, RuntimeError("half way"), None)
        assert store.read("a") == b"old"

    def test_a_file_whose_fence_raises_never_appears(self, store: Store) -> None:
        write_file(store, "a", b"old")

        def refuse() -> None:
            raise LeaseLost("taken over")

        writer = store.create("a", refuse)
        writer.write(b"new")
        with pytest.raises(LeaseLost, match="taken over"):
            writer.close()
        assert store.read("a") == b"old"
        with store.create("a", lambda: None) as writer:
            writer.write(b"new")
        assert store.read("a") == b"new"

    def test_create_replaces_and_create_if_absent_does_not(self, store: Store) -> None:
        store.create_if_absent("a", b"1")
        with pytest.raises(AlreadyExists, match="a already exists"):
            store.create_if_absent("a", b"2")
        assert store.read("a") == b"1"
        write_file(store, "a", b"3")
        assert store.read("a") == b"3"

    def test_exactly_one_of_many_creates_an_absent_file(self, store: Store) -> None:
        winners = _race(16, lambda index: store.create_if_absent("a", b"%d" % index), AlreadyExists)
        assert store.read("a") == b"%d" % winners[0]
        assert len(winners) == 1

    def test_a_missing_file_is_not_found(self, store: Store) -> None:
        for read in (store.read, store.map):
            with pytest.raises(NotFound, match="no/such"):
                read("no/such")
        assert store.size("no/such") is None
        store.remove("no/such")
        store.remove_tree("no")

    def test_list_is_sorted_and_below_a_directory(self, store: Store) -> None:
        for path in ("b/y", "b/x/z", "a", "bb"):
            write_file(store, path, path.encode())
        assert [entry.path for entry in store.list()] == ["a", "b/x/z", "b/y", "bb"]
        assert [(entry.path, entry.size) for entry in store.list("b")] == [("b/x/z", 5), ("b/y", 3)]
        assert [entry.path for entry in store.list("a")] == ["a"]
        assert store.list("none") == []

    def test_remove_tree_removes_files_and_attributes_below_and_no_others(self, store: Store) -> None:
        for path in ("b/y", "b/x/z", "bb"):
            write_file(store, path, b"")
        store.set_attributes("b/x", color="red")
        store.set_attributes("bb", color="blue")
        store.remove_tree("b")
        assert [entry.path for entry in store.list()] == ["bb"]
        assert (store.attributes("b/x"), store.attributes("bb").values) == (Attributes(), {"color": "blue"})

    def test_attributes_change_only_if_nothing_changed_since_they_were_read(self, store: Store) -> None:
        first = store.attributes("d")
        assert first == Attributes(0, {})
        second = store.compare_and_set("d", first, {"a": [1, None, "é"]})
        assert second == Attributes(1, {"a": [1, None, "é"]})
        assert store.compare_and_set("d", first, {"a": 2}) is None
        assert store.attributes("d") == second

    def test_each_directory_has_its_own_attributes(self, store: Store) -> None:
        store.set_attributes("", a=1)
        store.set_attributes("d", a=2)
        assert (store.attributes("").values, store.attributes("d").values) == ({"a": 1}, {"a": 2})

    def test_concurrent_changes_of_attributes_are_not_lost(self, store: Store) -> None:
        def add_one() -> None:
            while True:
                current = store.attributes()
                changed = {"count": current.values.get("count", 0) + 1}
                if store.compare_and_set("", current, changed) is not None:
                    return

        def add_ten(index: int) -> None:
            for _ in range(10):
                add_one()

        _race(8, add_ten)
        assert store.attributes().values == {"count": 80}

    def test_attributes_stay_readable_after_many_changes(self, store: Store) -> None:
        for number in range(200):
            store.set_attributes("", number=number)
        assert store.attributes() == Attributes(200, {"number": 199})

    def test_a_lease_is_exclusive_and_names_its_holder(self, store: Store) -> None:
        lease = take_lease(store)
        with pytest.raises(LeaseHeld, match=rf"in use by process {lease.holder.pid} on {lease.holder.host}"):
            take_lease(store)
        assert lease_state(store).is_held
        lease.release()
        assert not lease_state(store).is_held
        with take_lease(store) as second:
            assert second.epoch == lease.epoch + 1

    def test_exactly_one_of_many_takes_a_lease(self, store: Store) -> None:
        leases: list[Lease] = []
        winners = _race(8, lambda index: leases.append(take_lease(store)), LeaseHeld)
        assert len(winners) == len(leases) == 1
        leases[0].release()

    def test_a_commit_keeps_other_attributes(self, store: Store) -> None:
        store.set_attributes("", other=1)
        with take_lease(store) as lease:
            lease.commit(mine=2)
        values = store.attributes().values
        assert (values["other"], values["mine"]) == (1, 2)

    def test_a_released_lease_cannot_commit(self, store: Store) -> None:
        lease = take_lease(store)
        lease.release()
        with pytest.raises(LeaseLost):
            lease.commit(a=1)
        assert "a" not in store.attributes().values

    def test_a_tail_grows_and_a_new_one_starts_empty(self, store: Store) -> None:
        tail = store.tail("metrics.jsonl")
        tail.append(b"one\n")
        tail.append(b"two\n")
        assert tail.content() == store.read_tail("metrics.jsonl") == b"one\ntwo\n"
        other = store.tail("metrics.jsonl")
        other.append(b"new\n")
        assert store.read_tail("metrics.jsonl") == b"new\n"
        assert (tail.content(), other.content()) == (b"one\ntwo\n", b"new\n")
        tail.close()
        assert other.content() == b"new\n"
        other.close()
        assert store.read_tail("metrics.jsonl") == store.read_tail("timing.jsonl") == b""
        assert store.list() == []

    def test_others_see_the_end_of_a_tail(self, store: Store) -> None:
        assert store.read_tail("logs/metrics.jsonl") == b""
        with take_lease(store) as lease:
            tail = store.tail("logs/metrics.jsonl")
            tail.append(b"one\n")
            lease.beat()
            assert store.read_tail("logs/metrics.jsonl") == b"one\n"
            tail.append(b"two\n")
            tail.close(keep=True)
            assert store.read_tail("logs/metrics.jsonl") == b"one\ntwo\n"
            store.tail("logs/metrics.jsonl").close()
        store.sweep()
        assert store.read_tail("logs/metrics.jsonl") == b""

    @pytest.mark.parametrize("path", ESCAPES)
    def test_no_path_leaves_the_store(self, store: Store, path: str) -> None:
        for use in (
            store.read,
            store.map,
            store.create,
            store.list,
            store.remove,
            store.remove_tree,
            store.attributes,
        ):
            with pytest.raises(BadPath, match="invalid path"):
                use(path)
        with pytest.raises(BadPath, match="invalid path"):
            store.create_if_absent(path, b"")

    def test_a_holder_removes_files_and_makes_them_again(self, store: Store) -> None:
        with take_lease(store) as lease:
            for path in ("logs/a", "logs/b", "snapshot/000001.e1/a", "model/a"):
                write_file(store, path, b"old")
            store.remove("logs/a")
            store.remove_tree("snapshot")
            store.remove_tree("model")
            assert [entry.path for entry in store.list()] == ["logs/b"]
            assert (store.size("logs/a"), store.list("model")) == (None, [])
            with pytest.raises(NotFound, match="logs/a"):
                store.read("logs/a")
            with pytest.raises(NotFound, match="logs/a"):
                store.read("logs/a", 10, 20)
            store.create_if_absent("logs/a", b"new")
            with store.create("model/a", lease.check) as writer:
                writer.write(b"new")
            assert (store.read("logs/a"), store.read("model/a")) == (b"new", b"new")
            with pytest.raises(AlreadyExists):
                store.create_if_absent("model/a", b"")

    @pytest.mark.parametrize("path", ["привет/мир.json", "a b/c=d", "日本", "x.y-z_1", "é", "50%", "a%20b#c?d+e&f*[g]"])
    def test_ordinary_unicode_names_work(self, store: Store, path: str) -> None:
        write_file(store, path, b"1")
        assert [entry.path for entry in store.list()] == [path]

    def test_the_root_is_not_a_file(self, store: Store) -> None:
        for use in (store.read, store.create, store.remove):
            with pytest.raises(BadPath, match="root"):
                use("")


class CountingStore(MemoryStore):
    """A memory store that counts the bytes that are read."""

    def __init__(self) -> None:
        super().__init__()
        self.bytes_read = 0

    def read(self, path: str, start: int = 0, stop: int | None = None) -> bytes:
        data = super().read(path, start, stop)
        self.bytes_read += len(data)
        return data


def _race(count: int, act: Callable[[int], object], lose: type[Exception] | None = None) -> list[int]:
    """Run `act` in many threads at once; returns the indices of those that did not raise `lose`."""
    barrier = threading.Barrier(count)
    winners: list[int] = []
    failures: list[Exception] = []

    def run(index: int) -> None:
        barrier.wait()
        try:
            act(index)
            winners.append(index)
        except Exception as error:
            if lose is None or not isinstance(error, lose):
                failures.append(error)

    threads = [threading.Thread(target=run, args=(index,)) for index in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures, failures
    return winners
