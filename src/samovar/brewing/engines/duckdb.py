"""DuckDB: sorts more rows than memory holds, spilling to a temporary folder, and streams them out.

DuckDB itself reads Parquet, unless rows are left out; all other formats come from our own readers. Times and shuffle
keys come from the same functions as in every engine, called back for a few thousand rows at a time.
"""

import os
import re
import tempfile
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as parquet
from duckdb.func import ARROW, SPECIAL
from duckdb.sqltypes import BIGINT, UBIGINT

from samovar.brewing.arrays import conform
from samovar.brewing.engines.base import LocalEngine, PartFunction, Query, T
from samovar.brewing.engines.processes import PartProcesses, as_message, spool
from samovar.brewing.formats.base import ROWS_PER_BATCH
from samovar.brewing.order import DATE, GRANULAR, SHUFFLE
from samovar.brewing.parts import Part
from samovar.brewing.progress import Progress
from samovar.brewing.rates import sum_columns, to_integers
from samovar.brewing.sources import FILE, ROW, SourceFile
from samovar.config.places import Url
from samovar.errors import BadInput, SamovarError, StoreError

DEFAULT_MEMORY_LIMIT_BYTES = 2 * 10**9
_BYTES_PER_THREAD = 256 * 10**6
_BYTES_PER_PROCESS = 256 * 10**6
_OWN_COLUMNS = ("filename", "file_index", "file_row_number")
_LOOKS_LIKE_GLOB = re.compile(r"[*?\[\]{}]")


class DuckDBEngine(LocalEngine):
    def __init__(
        self,
        memory_limit_bytes: int | None = None,
        progress: Progress | None = None,
        temp_folder: str | None = None,
    ) -> None:
        super().__init__(memory_limit_bytes or DEFAULT_MEMORY_LIMIT_BYTES, progress)
        self._temp_folder = temp_folder

    def sorted(self, query: Query) -> Generator[pa.RecordBatch]:
        with ExitStack() as stack:
            spill = stack.enter_context(tempfile.TemporaryDirectory(prefix="samovar-brew-", dir=self._temp_folder))
            connection = self._connect(spill)
            stack.callback(connection.close)
            session = _Session(connection, query, self.progress)
            stack.callback(self.progress.stop_asking)  # before the connection is closed
            try:
                session.begin()
                reader = connection.sql(session.sql()).to_arrow_reader(ROWS_PER_BATCH)
                schema = _output_schema(query, reader.schema)
                for batch in reader:
                    yield conform(batch.rename_columns(schema.names), schema)
            except (duckdb.Error, pa.ArrowException, OSError) as error:
                raise session.explain(error) from error

    def map_parts(self, queries: Sequence[Query], parts: Sequence[Part], make_part: PartFunction[T]) -> Generator[T]:
        """DuckDB sorts all rows once, here and on all cores. The parts are made in processes of their own, which wait
        for their rows in temporary files."""
        num_processes = min(len(parts), self._num_shares(_BYTES_PER_PROCESS))
        message = as_message(make_part) if num_processes > 1 else None
        if message is None:
            yield from super().map_parts(queries, parts, make_part)
            return
        report = self.begin_writing(parts)
        with ExitStack() as stack:
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="samovar-brew-", dir=self._temp_folder))
            processes: PartProcesses[T] = stack.enter_context(PartProcesses(num_processes, message, report))
            splitters = [stack.enter_context(self.split(query)) for query in queries]
            yield from processes.map(
                (part, [spool(each.read(part), f"{folder}/{part.number}.{n}") for n, each in enumerate(splitters)])
                for part in parts
            )

    def _num_shares(self, size_bytes: int) -> int:
        """How many cores can work, if each takes that much of the memory limit."""
        assert self.memory_limit_bytes is not None
        return max(1, min(os.cpu_count() or 1, self.memory_limit_bytes // size_bytes))

    def _connect(self, spill: str) -> duckdb.DuckDBPyConnection:
        # Each thread holds buffers of its own, which would use up a small limit.
        threads = self._num_shares(_BYTES_PER_THREAD)
        connection = duckdb.connect(
            config={
                "memory_limit": f"{self.memory_limit_bytes}B",
                "temp_directory": spill,
                "threads": str(threads),
                "preserve_insertion_order": "false",
            }
        )
        connection.execute("SET disable_parquet_prefetching = true")  # it holds whole row groups in memory
        # DuckDB takes rows that we read for few, and would compare each with every time that rates know.
        connection.execute("SET asof_loop_join_threshold = 0")
        return connection


class _Session:
    """One query in DuckDB, with column names of our own: to DuckDB, `id` and `ID` are one column."""

    def __init__(self, connection: duckdb.DuckDBPyConnection, query: Query, progress: Progress) -> None:
        self._connection = connection
        self._query = query
        self._progress = progress
        self._failures: list[BaseException] = []
        self._aliases = {name: f"c{number}" for number, name in enumerate(query.read_columns)}
        wanted = set(query.read_columns)
        self._is_native = [
            not query.row_filter and wanted.isdisjoint(dict(file.partition)) and _can_read(file)
            for file in query.source.files
        ]

    def begin(self) -> None:
        """DuckDB knows its progress in files that it reads itself; in other files we count rows."""
        if not any(self._is_native):
            self._progress.begin("sorting")
            return
        self._connection.execute("SET enable_progress_bar = true")  # or it keeps no count
        self._connection.execute("SET enable_progress_bar_print = false")
        self._progress.begin("sorting", 100, "percent", self._connection.query_progress)

    def sql(self) -> str:
        query = self._query
        wanted = ", ".join(map(self._alias, [*query.columns, *query.added_columns]))
        order = ", ".join(f"{self._alias(name)} ASC NULLS FIRST" for name in [*query.order.key, FILE, ROW])
        rows = f"SELECT {', '.join(['*', *self._added()])} FROM ({self._rows()})"
        rows = self._with_sums(self._with_granules(rows))
        return f"SELECT {wanted} FROM ({rows}) {self._where()} ORDER BY {order}"

    def _alias(self, name: str) -> str:
        return self._aliases.get(name, name)

    def explain(self, error: Exception) -> BaseException:
        """The error that a callback raised, or DuckDB's error as one of ours."""
        if self._failures:
            return self._failures[0]
        name = self._query.source.name
        # While rows stream out, DuckDB's error arrives as one of Arrow's.
        if isinstance(error, duckdb.OutOfMemoryException) or "Out of Memory" in str(error):
            return StoreError(f"{name}: DuckDB ran out of memory or disk while sorting ({error}); raise memory_limit")
        if isinstance(error, duckdb.IOException | OSError):
            return StoreError(f"{name}: could not be read or sorted ({error}); check the files and the free disk space")
        return BadInput(f"{name}: could not be sorted ({error})")

    def _rows(self) -> str:
        """All rows with their places, from DuckDB's own reader and from ours."""
        parts = []
        if any(self._is_native):
            files = enumerate(self._query.source.files)
            natives = {number: file for number, file in files if self._is_native[number]}
            columns = ", ".join(f"{_quote(name)} AS {alias}" for name, alias in self._aliases.items())
            number = f"(CAST({list(natives)} AS INTEGER[]))[CAST(file_index AS BIGINT) + 1]"
            paths = ", ".join(_quote_text(str(file.path)) for file in natives.values())
            parts.append(
                f"SELECT {columns}, CAST({number} AS INTEGER) AS {FILE}, CAST(file_row_number AS BIGINT) AS {ROW} "
                f"FROM read_parquet([{paths}], union_by_name=true, hive_partitioning=false)"
            )
        if not all(self._is_native):
            self._connection.register("samovar_rows", self._other_rows())
            parts.append("SELECT * FROM samovar_rows")
        return " UNION ALL BY NAME ".join(parts)

    def _other_rows(self) -> pa.RecordBatchReader:
        fields = [self._query.schema.field(name).with_name(alias) for name, alias in self._aliases.items()]
        schema = pa.schema([*fields, (FILE, pa.int32()), (ROW, pa.int64())])
        return pa.RecordBatchReader.from_batches(schema, self._guarded_rows(schema))

    def _guarded_rows(self, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        """DuckDB would turn an error of ours into a text, so it is kept."""
        query, num_rows = self._query, 0
        files = [number for number, is_native in enumerate(self._is_native) if not is_native]
        try:
            for batch in query.read(query.read_columns, files):
                num_rows += batch.num_rows
                self._progress.reach(num_rows)
                yield batch.rename_columns(schema.names)
        except (SamovarError, KeyboardInterrupt) as error:
            self._failures.append(error)
            raise

    def _added(self) -> Iterator[str]:
        clock, order = self._query.clock, self._query.order
        if clock is not None:
            self._define("samovar_seconds", self._query.seconds, BIGINT)
            yield f"samovar_seconds({self._alias(clock.field)}, {FILE}, {ROW}) AS {DATE}"
        if SHUFFLE in order.key and order.pivot is not None:
            self._define("samovar_shuffle", self._query.shuffle_pivots, UBIGINT)
            yield f"samovar_shuffle({self._alias(order.pivot)}) AS {SHUFFLE}"
        elif SHUFFLE in order.key:
            self._define("samovar_shuffle", self._query.shuffle_places, UBIGINT)
            yield f"samovar_shuffle({FILE}, {ROW}) AS {SHUFFLE}"

    def _with_granules(self, rows: str) -> str:
        if self._query.clock is None:
            return rows
        self._define("samovar_granules", self._query.clock.granules, BIGINT)
        return f"SELECT *, samovar_granules({DATE}) AS {GRANULAR} FROM ({rows})"

    def _with_sums(self, rows: str) -> str:
        """The rows with sums of outcomes over windows of time: what was added until the end of the window, without what
        was added until its start. They are integers, so that the order of adding does not matter."""
        if not self._query.rates:
            return rows
        tables, joins, columns = [], [], []
        for number, rate in enumerate(self._query.rates):
            self._define(f"samovar_integers{number}", partial(to_integers, of=rate.of), BIGINT)
            names, value = sum_columns(number), f"_samovar_outcome{number}"
            rows = f"SELECT *, samovar_integers{number}({self._alias(rate.of)}) AS {value} FROM ({rows})"
            for part, by in enumerate((list(map(self._alias, rate.by)), [])):
                sums = f"sums{number}_{part}"
                tables.append(f"{sums} AS ({_cumulated(value, by)})")
                for moment, delay in (("end", rate.known_after), ("start", rate.window + 1)):
                    same = "".join(f" AND rows.{key} IS NOT DISTINCT FROM {sums}_{moment}.{key}" for key in by)
                    joins.append(
                        f"ASOF LEFT JOIN {sums} AS {sums}_{moment} "
                        f"ON rows.{DATE} - {delay} >= {sums}_{moment}.{DATE}{same}"
                    )
                columns += [
                    f"CAST(coalesce({sums}_end.{kind}, 0) - coalesce({sums}_start.{kind}, 0) AS DOUBLE) AS {name}"
                    for kind, name in zip(("total", "num"), names[2 * part : 2 * part + 2], strict=True)
                ]
        made = f"SELECT rows.*, {', '.join(columns)} FROM rows {' '.join(joins)}"
        return f"WITH rows AS MATERIALIZED ({rows}), {', '.join(tables)} {made}"

    def _where(self) -> str:
        clock = self._query.clock
        if clock is None or (clock.start is None and clock.stop is None):
            return ""
        bounds = [f"{DATE} >= {clock.start}"] if clock.start is not None else []
        bounds += [f"{DATE} < {clock.stop}"] if clock.stop is not None else []
        return f"WHERE {DATE} IS NULL OR ({' AND '.join(bounds)})"

    def _define(self, name: str, function: Callable[..., pa.Array], kind: Any) -> None:
        def guarded(*arrays: pa.Array) -> pa.Array:
            try:
                return function(*arrays)
            except (SamovarError, KeyboardInterrupt) as error:
                self._failures.append(error)
                raise

        self._connection.create_function(name, guarded, None, kind, type=ARROW, null_handling=SPECIAL)


def _cumulated(value: str, by: Sequence[str]) -> str:
    """For each time at which there are rows, the sum and number of the outcomes until then."""
    keys = ", ".join([*by, DATE])
    over = f"OVER ({'PARTITION BY ' + ', '.join(by) if by else ''} ORDER BY {DATE})"
    sums = f"sum({value}) AS total, count({value}) AS num"
    added = f"SELECT {keys}, {sums} FROM rows WHERE {DATE} IS NOT NULL GROUP BY {keys}"
    return f"SELECT {keys}, sum(total) {over} AS total, sum(num) {over} AS num FROM ({added})"


def _output_schema(query: Query, found: pa.Schema) -> pa.Schema:
    """The promised names, with the scanned types for the source's columns and DuckDB's for the added ones."""
    fields = []
    for name, field in zip([*query.columns, *query.added_columns], found, strict=True):
        fields.append(query.schema.field(name) if name in query.schema.names else field.with_name(name))
    return pa.schema(fields)


def _can_read(file: SourceFile) -> bool:
    """Whether DuckDB itself reads the file correctly: not if its path looks like a glob, or if DuckDB cannot
    distinguish its columns from each other or from DuckDB's own."""
    if file.format.name != "parquet" or isinstance(file.path, Url) or _LOOKS_LIKE_GLOB.search(str(file.path)):
        return False
    names = [name.lower() for name in [*parquet.read_schema(file.path).names, *_OWN_COLUMNS]]
    return len(names) == len(set(names))


def _quote(name: str) -> str:
    escaped = name.replace('"', '""')
    return f'"{escaped}"'


def _quote_text(value: str) -> str:
    escaped = value.replace("'", "''")
    return f"'{escaped}'"
