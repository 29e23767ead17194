"""All loaders over one click log: each writes its own files and is proven to yield the same rows."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path

from benchmarks.contest.clicks import Columns, cut, make_clicks, to_arrow
from benchmarks.loaders import arrow, bare_zstd, dataloader, litdata, streaming, tables
from benchmarks.loaders.base import BATCH_SIZE, Batch, Loader, digest, to_tensors

from samovar.store import LocalStore

SAMOVAR = {1: "Samovar, 1 parser", 2: "Samovar, 2 parsers"}
LIMIT = {1: "the limit, bare zstd, 1 thread", 2: "the limit, bare zstd, 2 threads"}
UNCOMPRESSED = "Samovar uncompressed"
UNCOMPRESSED_FIRST = "Samovar uncompressed, first reading"
COLLATED = "DataLoader, rows, default collate *"
LITDATA = "litdata, uncompressed minibatches"
BEATEN = (
    "DataLoader, batched __getitems__",
    "pyarrow iter_batches(65536), sliced",
    "pyarrow iter_batches(1024)",
    "Lance scanner(65536), sliced",
    "Lance scanner(1024)",
    "Streaming, minibatches",
    "Streaming, rows *",
)


class Lineup:
    """The loaders of one folder. Those that read row by row get fewer rows (*), because they take so long."""

    def __init__(self, folder: Path, num_batches: int, num_slow: int) -> None:
        self._folder = folder
        self._num_batches = num_batches
        self._num_slow = num_slow
        self._columns = make_clicks(num_batches * BATCH_SIZE)
        self._ready = list(map(to_tensors, self.batches()))

    def batches(self) -> Iterator[Columns]:
        return cut(self._columns, BATCH_SIZE)

    def open(self) -> list[Loader]:
        return [*self._compressed(), *self._minibatch_peers(), *self._arrow_peers(), *self._row_peers()]

    def prove(self, loaders: Sequence[Loader]) -> None:
        """Check in an untimed epoch that all loaders yield the same bytes in the same order."""
        wanted = {count: digest(self._ready[:count]) for count in (self._num_batches, self._num_slow)}
        for loader in loaders:
            if digest(loader.epoch()) != wanted[loader.num_batches]:
                raise SystemExit(f"{loader.name}: yields other tensors than were written; fix the benchmark")

    def _whole(self, name: str, epoch: Callable[[], Iterable[Batch]]) -> Loader:
        return Loader(name, epoch, self._num_batches)

    def _slow(self, name: str, epoch: Callable[[], Iterable[Batch]]) -> Loader:
        return Loader(name, epoch, self._num_slow)

    def _compressed(self) -> Iterator[Loader]:
        table = tables.write_table(LocalStore(self._folder / "zstd"), self.batches(), "zstd")
        plain = tables.write_table(LocalStore(self._folder / "none"), self.batches(), "none")
        frames = bare_zstd.find_frames(table)
        for threads in (1, 2):
            yield self._whole(LIMIT[threads], partial(bare_zstd.decompress, frames, self._ready, threads))
            yield self._whole(SAMOVAR[threads], partial(tables.read_table, table, threads))
        yield self._whole(UNCOMPRESSED, partial(tables.read_table, plain))
        yield self._whole(UNCOMPRESSED_FIRST, partial(tables.read_first, plain.store))

    def _minibatch_peers(self) -> Iterator[Loader]:
        litdata.write_minibatches(self._ready, self._folder / "litdata")
        yield self._whole(LITDATA, partial(litdata.read_minibatches, self._folder / "litdata"))
        streaming.write_minibatches(self._ready, self._folder / "streaming")
        yield self._whole("Streaming, minibatches", partial(streaming.read_minibatches, self._folder / "streaming"))
        dataloader.write_arrays(self._columns, self._folder / "arrays")
        gather = partial(dataloader.read_gathered, self._folder / "arrays")
        yield self._whole("DataLoader, batched __getitems__", gather)

    def _arrow_peers(self) -> Iterator[Loader]:
        rows = to_arrow(self._columns)
        arrow.write_parquet(rows, self._folder / "rows.parquet")
        arrow.write_lance(rows, self._folder / "rows.lance")
        for count, way in ((65536, "(65536), sliced"), (1024, "(1024)")):
            read_parquet = partial(arrow.read_parquet, self._folder / "rows.parquet", count)
            yield self._whole(f"pyarrow iter_batches{way}", read_parquet)
            yield self._whole(f"Lance scanner{way}", partial(arrow.read_lance, self._folder / "rows.lance", count))

    def _row_peers(self) -> Iterator[Loader]:
        rows = dataloader.pack_rows(next(cut(self._columns, self._num_slow * BATCH_SIZE)))
        dataloader.write_rows(rows, self._folder / "arrays of rows")
        yield self._slow(COLLATED, partial(dataloader.read_rows, self._folder / "arrays of rows"))
        streaming.write_rows(rows, self._folder / "streaming of rows")
        yield self._slow("Streaming, rows *", partial(streaming.read_rows, self._folder / "streaming of rows"))
        litdata.write_rows(rows, self._folder / "litdata of rows")
        yield self._slow("litdata, rows *", partial(litdata.read_rows, self._folder / "litdata of rows"))
