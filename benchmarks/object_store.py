"""Tables and snapshots in a bucket, against obstore alone: one run, one SeaweedFS on this machine.

Reading: the same cells, as ranges that obstore fetches with 16 threads into memory, and as minibatches of a table.
Snapshots: the same bytes, as one multipart upload and as ranges, and as a state tree that is checksummed. Then the
table again with 20 ms more for each request, while the consumer computes.
"""

import os
import resource
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import obstore
import torch
from benchmarks.contest.clicks import Columns, cut, make_clicks
from benchmarks.contest.command_line import CommandLine, Size
from benchmarks.contest.report import Bar, Promise, Report, Section
from benchmarks.contest.result import publish
from benchmarks.contest.rounds import interleave, time_call
from benchmarks.loaders.base import BATCH_SIZE
from benchmarks.loaders.tables import read_table, write_table
from benchmarks.snapshot import Tree, as_numpy, make_tree, touch
from obstore.store import from_url

from samovar.results.checked import FileRecord
from samovar.results.state import read_state, write_state
from samovar.store import LocalStore, Store
from samovar.store.objects import ObjectStore
from samovar.tables import Table, open_table
from samovar.testing.object_servers import ObjectServer, running, seaweedfs
from samovar.testing.proxy import Proxy, Treatment

RANGES, TABLE, ZSTD = "obstore ranges, 16 threads", "Samovar table, uncompressed", "Samovar table, zstd"
UPLOAD, SAVE = "obstore multipart upload", "Samovar write_state"
DOWNLOAD, LOAD = "obstore ranges, 8 threads", "Samovar read_state, all checked"
RANGE_BYTES = 4 << 20
LATENCY_SECONDS = 0.02
STEP_SECONDS = 0.004  # of a training step on 1,024 rows


def connect(server: ObjectServer, port: int | None = None) -> None:
    """Stores that are opened from now on ask this server."""
    os.environ |= server.environ(port)


def fetch(client: obstore.store.ObjectStore, sizes: dict[str, int], range_bytes: int, num_threads: int) -> int:
    """Fetch whole objects in ranges; returns the number of bytes."""
    ranges = [(key, start) for key, size in sizes.items() for start in range(0, size, range_bytes)]
    with ThreadPoolExecutor(num_threads) as threads:
        pieces = threads.map(
            lambda each: len(
                obstore.get_range(client, each[0], start=each[1], end=min(each[1] + range_bytes, sizes[each[0]]))
            ),
            ranges,
        )
        return sum(pieces)


def read_all(table: Table) -> None:
    for batch in read_table(table):
        for tensor in batch:
            tensor.numel()


def measure_cpu(act: Callable[[], object]) -> float:
    """Processor seconds of this process."""
    before = resource.getrusage(resource.RUSAGE_SELF)
    act()
    after = resource.getrusage(resource.RUSAGE_SELF)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def contest_of_reading(server: ObjectServer, batches: Sequence[Columns], rounds: int) -> tuple[Section, list[Bar]]:
    client = from_url(server.url)
    tables = {
        name: write_table(ObjectStore(f"{server.url}/{codec}"), batches, codec)
        for name, codec in ((TABLE, "none"), (ZSTD, "zstd"))
    }
    sizes = {f"none/{entry.path}": entry.size for entry in tables[TABLE].manifests[0].segment.files}
    num_bytes = sum(sizes.values())
    bare = partial(fetch, client, sizes, RANGE_BYTES, 16)
    acts: dict[str, Callable[[], object]] = {RANGES: bare} | {
        name: partial(read_all, table) for name, table in tables.items()
    }
    seconds = interleave({name: partial(time_call, act) for name, act in acts.items()}, rounds, "reading")
    cpu = {name: measure_cpu(act) / num_bytes * 1e9 for name, act in acts.items()}
    with Proxy(server.port) as proxy:
        connect(server, proxy.own_port)
        read_all(open_table(ObjectStore(f"{server.url}/none")))
        per_megabyte = sum(request.method == "GET" for request in proxy.requests) / num_bytes * 1e6
    connect(server)
    found = "; ".join(f"{name}: {cpu[name]:.2f} CPU-s per GB" for name in acts)
    bars = [
        Bar("reading a table asks at most once per MB", f"{per_megabyte:.2f} GETs per MB; {found}", per_megabyte <= 1)
    ]
    title = f"reading {num_bytes / 1e6:,.0f} MB of cells"
    return Section(title, seconds, num_bytes / 1e6, "MB", RANGES, [Promise(TABLE, RANGES, 0.8)]), bars


def train_on(table: Table, matrix: torch.Tensor) -> None:
    """A consumer that computes as long as a training step does."""
    for _ in read_table(table):
        end = time.perf_counter() + STEP_SECONDS
        while time.perf_counter() < end:
            torch.mm(matrix, matrix)


def judge_latency(server: ObjectServer, batches: Iterable[Columns], folder: Path, rounds: int) -> Section:
    near = write_table(LocalStore(folder / "table"), batches, "zstd")
    with Proxy(server.port, lambda request: Treatment(delay_seconds=LATENCY_SECONDS)) as proxy:
        connect(server, proxy.own_port)
        far = open_table(ObjectStore(f"{server.url}/zstd"))
        matrix = torch.ones(256, 256)
        names = ("local table", f"table in a bucket, {LATENCY_SECONDS * 1000:.0f} ms per request")
        timers = {
            name: partial(time_call, partial(train_on, table, matrix))
            for name, table in zip(names, (near, far), strict=True)
        }
        seconds = interleave(timers, rounds, "training")
    connect(server)
    num_rows = near.num_examples / 1000
    return Section(
        "a step of 4 ms per minibatch", seconds, num_rows, "k rows", names[0], [Promise(names[1], names[0], 0.9)]
    )


def contests_of_snapshots(server: ObjectServer, tree: Tree, rounds: int) -> list[Section]:
    client = from_url(server.url)
    store: Store = ObjectStore(f"{server.url}/states")
    data = b"".join(array.tobytes() for array in as_numpy(tree).values())
    records: dict[str, FileRecord] = {}

    def upload() -> None:
        obstore.put(client, "upload", data, chunk_size=32 << 20, max_concurrency=4)

    def save() -> None:
        records.update(write_state(store, "000001.e1", tree))

    saves = interleave({UPLOAD: partial(time_call, upload), SAVE: partial(time_call, save)}, rounds, "saving")
    download = partial(fetch, client, {"upload": len(data)}, 8 << 20, 8)
    loads = interleave(
        {
            DOWNLOAD: partial(time_call, download),
            LOAD: partial(time_call, lambda: touch(read_state(store, "000001.e1", records))),
        },
        rounds,
        "loading",
    )
    megabytes = len(data) / 1e6
    return [
        Section("save", saves, megabytes, "MB", UPLOAD, [Promise(SAVE, UPLOAD, 0.8)]),
        Section("load", loads, megabytes, "MB", DOWNLOAD, [Promise(LOAD, DOWNLOAD, 0.8)]),
    ]


def run(num_batches: int, size_bytes: int, rounds: int, folder: Path) -> Iterator[Report]:
    with running(seaweedfs(folder / "server")) as server:
        connect(server)
        batches = list(cut(make_clicks(num_batches * BATCH_SIZE), BATCH_SIZE))
        reading, bars = contest_of_reading(server, batches, rounds)
        training = judge_latency(server, batches, folder, rounds)
        snapshots = contests_of_snapshots(server, make_tree(16, size_bytes), rounds)
    title = f"{num_batches} minibatches of {BATCH_SIZE} rows, {rounds} interleaved rounds; the server shares the cores"
    yield Report(title, [reading, training, *snapshots], bars)


def main() -> int:
    options = CommandLine(
        __doc__, rounds=Size(5, 2), batches=Size(400, 40, "minibatches"), megabytes=Size(1024, 64)
    ).read()
    with tempfile.TemporaryDirectory(prefix="samovar-bench-", dir=options.dir) as folder:
        reports = run(options.batches, options.megabytes << 20, options.rounds, Path(folder))
        return publish(reports, options.quick, options.json)


if __name__ == "__main__":
    sys.exit(main())
