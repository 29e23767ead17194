import pytest

from samovar.errors import BadPath, LeaseLost
from samovar.store import MemoryStore, Store, lease_state, take_lease, write_file
from samovar.testing import StoreContract


class TestMemoryStore(StoreContract):
    @pytest.fixture
    def store(self) -> Store:
        return MemoryStore()


def test_a_silent_holder_is_replaced_after_the_lease_time_and_cannot_commit() -> None:
    now = [0.0]
    store = MemoryStore(clock=lambda: now[0])
    first = take_lease(store)
    now[0] = 61.0
    assert lease_state(store).liveness == "silent"
    with take_lease(store) as second:
        assert second.epoch == first.epoch + 1
        with pytest.raises(LeaseLost, match="took over the lease \\(lease epoch 2 after our 1\\)"):
            first.commit(a=1)


def test_a_heartbeat_keeps_a_lease() -> None:
    now = [0.0]
    store = MemoryStore(clock=lambda: now[0])
    lease = take_lease(store)
    now[0] = 50.0
    lease.beat()
    now[0] = 100.0
    assert lease_state(store).is_held


def test_a_file_and_a_directory_cannot_share_a_name() -> None:
    store = MemoryStore()
    write_file(store, "a/b", b"")
    with pytest.raises(BadPath, match="share a name"):
        write_file(store, "a", b"")
    with pytest.raises(BadPath, match="share a name"):
        write_file(store, "a/b/c", b"")
