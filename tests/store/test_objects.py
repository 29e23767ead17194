import pickle
import signal
import subprocess
import sys
import threading
import uuid
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from samovar.errors import AlreadyExists, BadInput, LeaseHeld, LeaseLost, NotFound, SamovarError, StoreError
from samovar.results import ResultDirectory, ResultPlan, begin
from samovar.store import Lease, Store, lease_state, take_lease, write_file
from samovar.store.bucket import PART_BYTES
from samovar.store.objects import ObjectStore
from samovar.testing import StoreContract
from samovar.testing.object_servers import ObjectServer, free_ports, running, seaweedfs
from samovar.testing.proxy import LOSE_ANSWER, PASS, Proxy, Request, Treatment


def new_store(server: ObjectServer, lease_seconds: float = 60.0) -> ObjectStore:
    return ObjectStore(f"{server.url}/tests/{uuid.uuid4().hex}", lease_seconds)


class TestS3(StoreContract):
    @pytest.fixture
    def store(self, s3: ObjectServer) -> Store:
        return new_store(s3)


class TestAzure(StoreContract):
    @pytest.fixture
    def store(self, azure: ObjectServer) -> Store:
        return new_store(azure)


def misbehave(request: Request) -> Treatment:
    if request.number % 3 == 2:
        return LOSE_ANSWER
    if request.number % 7 == 3:
        return Treatment(refuse_with=503 if request.number % 2 else 500)
    return Treatment(delay_seconds=0.002)


@pytest.mark.long
class TestS3BehindABadLine(StoreContract):
    """Every third answer is lost, and others are delayed or refused."""

    @pytest.fixture
    def store(self, s3: ObjectServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
        with Proxy(s3.port, misbehave) as proxy:
            yield behind(proxy, s3, monkeypatch)


def behind(proxy: Proxy, server: ObjectServer, monkeypatch: pytest.MonkeyPatch, url: str = "") -> ObjectStore:
    """A store that asks through a proxy."""
    with monkeypatch.context() as context:
        for name, value in server.environ(proxy.own_port).items():
            context.setenv(name, value)
        store = ObjectStore(url) if url else new_store(server)
        store.exists()  # from now on it keeps its address
    return store


# Lost answers


def lose_conditional(numbers: set[int]) -> Callable[[Request], Treatment]:
    """Lose the answers of some conditional writes, counted from 0."""
    count = iter(range(10**9))
    return lambda request: LOSE_ANSWER if request.is_conditional and next(count) in numbers else PASS


def test_a_lone_creator_is_never_told_that_its_file_exists(s3: ObjectServer, monkeypatch: pytest.MonkeyPatch) -> None:
    with Proxy(s3.port, lose_conditional(set(range(0, 100, 2)))) as proxy:
        store = behind(proxy, s3, monkeypatch)
        for number in range(20):
            store.create_if_absent(f"{number}", b"mine")
        with pytest.raises(AlreadyExists):
            store.create_if_absent("7", b"other")
        assert store.read("7") == b"mine"


@pytest.mark.parametrize("num_others", [0, 1, 5])
def test_a_swap_whose_answer_was_lost_knows_that_it_won_even_if_others_won_since(
    s3: ObjectServer, monkeypatch: pytest.MonkeyPatch, num_others: int
) -> None:
    gate, lost = threading.Event(), threading.Event()

    def treat(request: Request) -> Treatment:
        if request.is_conditional and "attributes" in request.target and not lost.is_set():
            lost.set()
            return LOSE_ANSWER
        return Treatment(hold=gate) if lost.is_set() else PASS  # before it looks

    direct = new_store(s3)
    before = direct.compare_and_set("", direct.attributes(), {"count": 0})
    assert before is not None
    with Proxy(s3.port, treat) as proxy:
        store = behind(proxy, s3, monkeypatch, direct.name)
        answers: list[object] = []
        swapper = threading.Thread(target=lambda: answers.append(store.compare_and_set("", before, {"count": 1})))
        swapper.start()
        lost.wait(60)
        while direct.attributes().version < 2:
            pass  # the write arrives
        for _ in range(num_others):
            direct.set_attributes("", count=direct.attributes().values["count"] + 1)
        gate.set()
        swapper.join()
    assert answers == [type(before)(2, {"count": 1})]
    assert direct.attributes().values == {"count": 1 + num_others}


def test_a_swap_whose_answer_was_lost_and_that_lost_knows_it(s3: ObjectServer, monkeypatch: pytest.MonkeyPatch) -> None:
    direct = new_store(s3)
    before = direct.set_attributes("", count=0)
    direct.set_attributes("", count=1)
    with Proxy(s3.port, lose_conditional({0})) as proxy:
        store = behind(proxy, s3, monkeypatch, direct.name)
        assert store.compare_and_set("", before, {"count": 9}) is None
    assert direct.attributes().values == {"count": 1}


def test_a_swap_that_nobody_can_settle_any_more_says_so(s3: ObjectServer, monkeypatch: pytest.MonkeyPatch) -> None:
    direct = new_store(s3)
    before = direct.set_attributes("", count=0)
    for number in range(70):
        direct.set_attributes("", count=number)
    with Proxy(s3.port, lose_conditional({0})) as proxy:
        store = behind(proxy, s3, monkeypatch, direct.name)
        with pytest.raises(StoreError, match="nobody knows whether our change was made"):
            store.compare_and_set("", before, {"count": 9})
    assert direct.compare_and_set("", before, {"count": 9}) is None  # no answer was lost: it has not won


def test_a_conflict_that_nobody_won_is_tried_again(s3: ObjectServer, monkeypatch: pytest.MonkeyPatch) -> None:
    conflicts = iter([Treatment(refuse_with=409)] * 2)
    with Proxy(s3.port, lambda request: next(conflicts, PASS) if request.is_conditional else PASS) as proxy:
        store = behind(proxy, s3, monkeypatch)
        store.create_if_absent("a", b"1")
    assert new_store(s3).name != store.name
    assert ObjectStore(store.name).read("a") == b"1"


def test_a_server_that_ignores_conditions_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with (
        running(seaweedfs(tmp_path / "open", is_open=True)) as server,
        Proxy(server.port, lambda request: Treatment(ignores_conditions=True)) as proxy,
    ):
        store = behind(proxy, server, monkeypatch)
        with pytest.raises(StoreError, match="this server ignores conditions of writes"):
            take_lease(store)
        assert store.attributes().version == 0


# Holders that sleep


def replace_status(store: Store, lease: Lease) -> None:
    write_file(store, "status.json", b"late")


def create_with_fence(store: Store, lease: Lease) -> None:
    with store.create("model/new", lease.check) as writer:
        writer.write(b"late")


OPERATIONS: dict[str, Callable[[Store, Lease], object]] = {
    "create": lambda store, lease: write_file(store, "model/other", b"late"),
    "create with a fence": create_with_fence,
    "create a large file": lambda store, lease: write_file(store, "large", b"late" * (PART_BYTES // 4 + 1)),
    "replace": replace_status,
    "create if absent": lambda store, lease: store.create_if_absent("config.json", b"late"),
    "remove": lambda store, lease: store.remove("logs/a"),
    "remove a tree": lambda store, lease: store.remove_tree("logs"),
    "commit": lambda store, lease: lease.commit(snapshots=["late"]),
    "beat": lambda store, lease: lease.beat(),
    "release": lambda store, lease: lease.release(),
}
FILES = ("status.json", "config.json", "logs/a", "logs/b/c", "model/new", "model/other", "large")


@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_holder_that_is_replaced_at_any_request_changes_nothing_of_its_successor(
    s3: ObjectServer, monkeypatch: pytest.MonkeyPatch, operation: str
) -> None:
    for number in range(100):
        if not hold_at_request(s3, monkeypatch, OPERATIONS[operation], number):
            assert number > 0
            return


def hold_at_request(
    s3: ObjectServer, monkeypatch: pytest.MonkeyPatch, operate: Callable[[Store, Lease], object], number: int
) -> bool:
    """Let a holder's request of this number wait until the holder was replaced. Whether it asked so often."""
    wake, is_held = threading.Event(), threading.Event()
    first = [10**9]

    def treat(request: Request) -> Treatment:
        if request.number != first[0] + number:
            return PASS
        is_held.set()
        return Treatment(hold=wake)

    with Proxy(s3.port, treat) as proxy:
        store = behind(proxy, s3, monkeypatch)
        lease = take_lease(store)
        for path in ("status.json", "logs/a", "logs/b/c"):
            write_file(store, path, b"old")
        first[0] = len(proxy.requests)
        errors: list[Exception] = []

        def work() -> None:
            try:
                operate(store, lease)
            except Exception as error:
                errors.append(error)

        holder = threading.Thread(target=work)
        holder.start()
        while holder.is_alive() and not is_held.wait(0.01):
            pass
        if not is_held.is_set():
            first[0] = 10**9
            lease.release()
            return False
        successor = ObjectStore(store.name, lease_seconds=-1)
        with take_lease(successor) as new_lease:
            for path in FILES:
                write_file(successor, path, b"of the successor")
            new_lease.commit(snapshots=["of the successor"])
            wake.set()
            holder.join()
            assert all(isinstance(error, LeaseLost) for error in errors), errors
            assert {path: successor.read(path) for path in FILES} == dict.fromkeys(FILES, b"of the successor")
            assert [entry.path for entry in successor.list()] == sorted(FILES)
            assert successor.attributes().values["snapshots"] == ["of the successor"]
            new_lease.check()
            with pytest.raises(LeaseLost):
                lease.check()
    return True


HOLDER = """
import sys
from samovar.store import take_lease
from samovar.store.objects import ObjectStore
lease = take_lease(ObjectStore(sys.argv[1]))
print(lease.epoch, flush=True)
sys.stdin.readline()
{then}
"""


def start_holder(url: str, then: str = "") -> subprocess.Popen[str]:
    code = HOLDER.format(then=then)
    process = subprocess.Popen(
        [sys.executable, "-c", code, url],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline().strip() == "1"
    return process


def test_a_killed_holder_of_this_machine_is_replaced_at_once(s3: ObjectServer) -> None:
    store = new_store(s3)
    process = start_holder(store.name)
    with pytest.raises(LeaseHeld, match=f"process {process.pid} on"):
        take_lease(store)
    process.kill()
    process.communicate()
    with take_lease(store) as lease:
        assert lease.epoch == 2


def test_a_stopped_holder_is_replaced_when_it_was_silent_and_can_commit_nothing(s3: ObjectServer) -> None:
    store = new_store(s3, lease_seconds=1)
    process = start_holder(store.name, then="lease.commit(color='late')")
    process.send_signal(signal.SIGSTOP)
    while lease_state(store).is_held:
        pass
    assert lease_state(store).liveness == "silent"
    with take_lease(store) as lease:
        lease.commit(color="red")
    process.send_signal(signal.SIGCONT)
    _, errors = process.communicate("\n")
    assert "LeaseLost" in errors
    assert store.attributes().values["color"] == "red"


def test_who_may_only_read_sees_whether_a_holder_is_alive(s3: ObjectServer, monkeypatch: pytest.MonkeyPatch) -> None:
    holder = new_store(s3)
    with (
        take_lease(holder),
        Proxy(
            s3.port, lambda request: PASS if request.method in ("GET", "HEAD") else Treatment(refuse_with=403)
        ) as proxy,
    ):
        reader = behind(proxy, s3, monkeypatch, holder.name)
        assert lease_state(reader).is_held
        reader._lease_seconds = -1
        assert lease_state(reader).liveness == "silent"
        with pytest.raises(StoreError, match="the server refuses access"):
            take_lease(reader)


def test_a_log_that_grows_is_seen_elsewhere_from_the_next_beat_on(s3: ObjectServer) -> None:
    store = new_store(s3)
    elsewhere = ObjectStore(store.name)
    with take_lease(store) as lease:
        tail = store.tail("metrics.jsonl")
        tail.append(b"one\n")
        assert elsewhere.read_tail("metrics.jsonl") == b""
        lease.beat()
        assert elsewhere.read_tail("metrics.jsonl") == b"one\n"
        for number in range(20_000):
            tail.append(b"%d\n" % number)
        lease.beat()
        end = elsewhere.read_tail("metrics.jsonl")
        assert end == store.read_tail("metrics.jsonl")
        assert end.endswith(b"\n19998\n19999\n")
        assert tail.content().endswith(b"\n" + end)
        assert len(end) <= 64 << 10
        tail.close()
        assert elsewhere.read_tail("metrics.jsonl") == b""


def test_a_sweep_removes_what_killed_holders_left(s3: ObjectServer) -> None:
    store = new_store(s3, lease_seconds=-1)
    process = start_holder(store.name)
    process.kill()
    process.communicate()
    folder = f"{store.name.removeprefix(s3.url + '/')}/.samovar/"
    with take_lease(store) as lease:
        assert len(store._bucket.find(f"{folder}heartbeats/")) == 2
        store._lease_seconds = 0.0
        while len(store._bucket.find(f"{folder}heartbeats/")) > 1:
            lease.beat()  # until the second of the server's clock is over
            store.sweep()
    assert store._bucket.find(f"{folder}probe/") == []


# Large files


def test_a_large_file_is_streamed_if_one_holder_writes_its_name(s3: ObjectServer) -> None:
    store = new_store(s3)
    data = bytes(range(256)) * (PART_BYTES // 256 * 2 + 1000)
    with store.create("snapshot/000001.e1/arrays", lambda: None) as writer:
        for start in range(0, len(data), 5_000_001):
            writer.write(memoryview(data)[start : start + 5_000_001])
    assert bytes(store.map("snapshot/000001.e1/arrays")) == data


@pytest.mark.parametrize("path", ["snapshot/000001.e1/arrays", "model/arrays"])
def test_a_large_file_that_failed_or_was_fenced_off_never_appears(s3: ObjectServer, path: str) -> None:
    store = new_store(s3)

    def refuse() -> None:
        raise LeaseLost("taken over")

    writer = store.create(path, refuse)
    writer.write(bytes(3 * PART_BYTES))
    with pytest.raises(LeaseLost, match="taken over"):
        writer.close()
    writer = store.create(path)
    writer.write(bytes(3 * PART_BYTES))
    writer.__exit__(RuntimeError, RuntimeError("half way"), None)
    assert store.list() == []


# What it costs


def test_a_run_asks_no_more_than_the_page_says(s3: ObjectServer, monkeypatch: pytest.MonkeyPatch) -> None:
    with Proxy(s3.port) as proxy:
        store = behind(proxy, s3, monkeypatch)

        def count(act: Callable[[], object]) -> int:
            before = len(proxy.requests)
            act()
            return len(proxy.requests) - before

        with begin(ResultDirectory(store), ResultPlan("sums", {}), heartbeat_seconds=None) as result:
            result.restore()
            for step in range(3):
                result.append("metrics.jsonl", {"step": step})
                result.append("timing.jsonl", {"step": step})
                assert count(partial(result.save, {"weights": np.zeros(1000)}, step)) <= 24
            with result.create("evaluation/ahead/0") as writer:
                assert count(lambda: writer.write(b"predictions")) == 0
                assert count(lambda: writer.__exit__(None, None, None)) <= 2
            result.append("metrics.jsonl", {"step": 3})
            lease = result._lease
            assert lease is not None
            assert count(lease.beat) == 2
            assert count(lease.beat) == 1
            assert count(lambda: result.finish({"weights": np.zeros(10)}, 3)) <= 90


# Errors, and processes


def test_a_forked_child_gets_an_error_and_does_not_hang(s3: ObjectServer) -> None:
    code = (
        "import os, sys\n"
        "from samovar.store.objects import ObjectStore\n"
        "store = ObjectStore(sys.argv[1])\n"
        "store.list()\n"
        "if os.fork():\n"
        "    sys.exit(os.waitstatus_to_exitcode(os.waitpid(-1, 0)[1]))\n"
        "store.list()\n"
    )
    found = subprocess.run(
        [sys.executable, "-c", code, new_store(s3).name], capture_output=True, text=True, timeout=300
    )
    assert found.returncode != 0
    assert "this process was forked from one that uses object stores" in found.stderr


def test_a_store_can_be_sent_to_another_process(s3: ObjectServer) -> None:
    store = new_store(s3)
    write_file(store, "a", b"1")
    data = pickle.dumps(store)
    assert b"only-for-tests" not in data
    assert pickle.loads(data).read("a") == b"1"


def message_of(act: Callable[[], object]) -> str:
    with pytest.raises(SamovarError) as caught:
        act()
    text = str(caught.value)
    assert "only-for-tests" not in text
    assert "\n" not in text
    return text


def test_every_error_of_a_server_is_one_clear_sentence(
    s3: ObjectServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    url = new_store(s3).name
    with Proxy(s3.port, lambda request: Treatment(refuse_with=403)) as proxy, monkeypatch.context() as context:
        context.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{proxy.own_port}")
        for act in (lambda: ObjectStore(url).read("a"), lambda: take_lease(ObjectStore(url)), ObjectStore(url).exists):
            assert "the server refuses access" in message_of(act)
    missing = url.replace("samovar", "no-such-bucket", 1)
    assert "the bucket does not exist. Create it, or correct the URL" in message_of(ObjectStore(missing).list)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wrong")
    assert "the server refuses access (SignatureDoesNotMatch" in message_of(lambda: ObjectStore(url).read("a"))
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{free_ports(1)[0]}")
    assert "the server cannot be reached. Check AWS_ENDPOINT_URL" in message_of(lambda: ObjectStore(url).read("a"))
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://no-such-server.invalid")
    assert "the name of the server is unknown. Check AWS_ENDPOINT_URL" in message_of(lambda: ObjectStore(url).read("a"))
    monkeypatch.delenv("AWS_ALLOW_HTTP")
    assert "Set AWS_ALLOW_HTTP=true" in message_of(lambda: ObjectStore(url).read("a"))


def test_a_server_that_is_overloaded_is_asked_again_and_then_reported(
    s3: ObjectServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("samovar.store.bucket._PATIENCE_SECONDS", 0.3)
    is_busy = threading.Event()
    with Proxy(s3.port, lambda request: Treatment(refuse_with=503) if is_busy.is_set() else PASS) as proxy:
        store = behind(proxy, s3, monkeypatch)
        is_busy.set()
        text = message_of(lambda: write_file(store, "a", b""))
    assert "could not write" in text
    assert "the server answered 503 (SlowDown: no). Try again later" in text


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("s3://", "is not the URL of an object store"),
        ("models/click", "is not the URL of an object store"),
        ("az://models/click?sv=2024&sig=secret", "a URL must not have a signature in it"),
        ("s3://models/../x", "invalid path"),
    ],
)
def test_a_wrong_url_is_refused_before_anything_is_asked(url: str, message: str) -> None:
    with pytest.raises(SamovarError, match=message) as caught:
        ObjectStore(url)
    assert "secret" not in str(caught.value)


def test_without_the_package_the_error_says_what_to_type(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "obstore", None)
    with pytest.raises(BadInput, match=r"Type: pip install 'samovar\[cloud\]'"):
        ObjectStore("s3://models/click").list()


def test_a_missing_file_is_named_with_its_url(s3: ObjectServer) -> None:
    store = new_store(s3)
    with pytest.raises(NotFound) as caught:
        store.read("no/such")
    assert str(caught.value) == f"{store.name}/no/such: no such file"


# Profiles


@pytest.fixture
def profiles(s3: ObjectServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The variable of the file of profiles points here, and there are no keys in the environment."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_REGION"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    return tmp_path


def test_keys_are_found_in_a_profile(s3: ObjectServer, profiles: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (profiles / "credentials").write_text(
        "[default]\naws_access_key_id = samovar\naws_secret_access_key = wrong\n"
        "[work]\naws_access_key_id = samovar\naws_secret_access_key = only-for-tests\n"
    )
    (profiles / "config").write_text("[profile work]\nregion = us-east-1\n")
    assert "the server refuses access" in message_of(lambda: new_store(s3).exists())
    monkeypatch.setenv("AWS_PROFILE", "work")
    assert not new_store(s3).exists()


def test_a_profile_that_gets_its_keys_elsewhere_needs_boto3(
    s3: ObjectServer, profiles: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (profiles / "config").write_text("[profile work]\nsso_session = company\n")
    monkeypatch.setenv("AWS_PROFILE", "work")
    monkeypatch.setitem(sys.modules, "boto3", None)
    assert "'work' has no keys in a file. To get them as it says, type: pip install boto3" in message_of(
        lambda: new_store(s3).exists()
    )
    (profiles / "config").write_text("nonsense")
    assert "is not a file of AWS profiles" in message_of(lambda: new_store(s3).exists())
