"""Spark: reads, sorts and makes the parts of a table on the executors of a cluster. The rows come from our own readers,
and the parts are made by the same functions as everywhere, so the bytes are those of the other engines.

driver      find files ─▶ plan ─▶ count rows ─▶ parts ───────────────────────────────────▶ add up ─▶ commit
executors   scan files      count per file     read files ─▶ shuffle by part, sort ─▶ make parts: write files

Traps: Spark's own range partitioning samples, and is not repeatable, so rows carry the number of their part; adaptive
execution would merge parts.
"""

import logging
import os
import pickle
import re
import sys
import threading
import warnings
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from importlib import metadata
from typing import Any, TypeVar

from samovar.brewing.engines.base import Engine, FileFunction, PartFunction, Query
from samovar.brewing.engines.spark_columns import can_sort, spark_type
from samovar.brewing.engines.spark_tasks import (
    PART,
    RESULT_SCHEMA,
    CallForFiles,
    MakePart,
    ReadRows,
    columns_of,
    find_error,
    packed_schema,
)
from samovar.brewing.parts import Part
from samovar.brewing.progress import Phase, Progress
from samovar.brewing.sources import FILE, ROW, Source
from samovar.errors import BadInput, ConfigError, SamovarError, StoreError

T = TypeVar("T")
_log = logging.getLogger(__name__)
_POLL_SECONDS = 0.2
_PATIENCE_SECONDS = 30
_STOP_SECONDS = 30
_LEAST_EXECUTOR_BYTES = 512 << 20  # Spark starts none with less
_INSTALL = "pip install 'samovar[spark]'"
_OUR_CONF = {"spark.ui.showConsoleProgress": "false", "spark.log.level": "OFF", "spark.driver.maxResultSize": "0"}
_SQL_CONF = {
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.caseSensitive": "true",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "8192",
    "spark.sql.execution.arrow.useLargeVarTypes": "false",
}


class SparkEngine(Engine):
    """Uses the session that runs already, if there is one, else a session of its own.

    Args:
        memory_limit_bytes: Memory of an executor, unless `conf` says it.
        progress: What to report to.
        master: The address of the cluster. None: that of the running session, or of Spark's own configuration.
        conf: Spark's settings for a session of our own.
    """

    is_remote = True

    def __init__(
        self,
        memory_limit_bytes: int | None = None,
        progress: Progress | None = None,
        master: str | None = None,
        conf: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(memory_limit_bytes, progress)
        self._master = master
        self._conf = dict(conf or {})
        self._session: Any = None
        self._owns_session = False
        self._num_jobs = 0

    def map_files(self, source: Source, function: FileFunction[T]) -> Iterator[T]:
        for file in source.files:
            if file.known_fingerprint is not None:
                raise BadInput(f"{source.name}: the Spark engine reads files only; write the rows to files first")
        phase = self.progress.state.phase
        frame = self._read(CallForFiles(function), len(source.files), _ddl(RESULT_SCHEMA))
        found = dict(self._collect(frame, [phase]))
        return iter([found[number] for number in range(len(source.files))])

    def map_parts(self, queries: Sequence[Query], parts: Sequence[Part], make_part: PartFunction[T]) -> Generator[T]:
        _refuse_queries(queries)
        files = [(table, file) for table, query in enumerate(queries) for file in range(len(query.source.files))]
        rows = self._read(ReadRows(queries, files, parts), len(files), _ddl(packed_schema(queries)))
        ordered = rows.repartitionById(len(parts), PART).sortWithinPartitions(*_sort_key(queries))
        made = _map(ordered, MakePart(queries, parts, make_part), _ddl(RESULT_SCHEMA))
        found = dict(self._collect(made, ["sorting", "writing"]))
        for part in parts:
            if part.number not in found:  # there are no rows at all
                yield make_part(part, [_no_rows() for _ in queries], lambda num_rows: None)
                continue
            result, error = found[part.number]
            if error is not None:
                raise error
            yield result

    def close(self) -> None:
        session, self._session = self._session, None
        if session is not None and self._owns_session:
            _call_briefly(session.stop)

    # Jobs

    def _read(self, task: Callable[..., Any], num_files: int, schema: str) -> Any:
        """A frame of what a task makes of the numbers of files, each in a partition of its own."""
        return _map(self._open().range(0, num_files, 1, num_files), task, schema)

    def _collect(self, frame: Any, phases: Sequence[Phase]) -> list[tuple[int, Any]]:
        """The results of a job, by number. Its stages are phases of our progress."""
        self._num_jobs += 1
        context, group = self._session.sparkContext, f"samovar {id(self)} {self._num_jobs}"

        def run() -> Any:
            context.setJobGroup(group, f"samovar: {phases[-1]}", interruptOnCancel=True)
            return frame.collect()

        watch = _Watch(context.statusTracker(), group, phases, self.progress)
        try:
            rows = _call(run, watch.look)
        except Exception as error:
            raise _explain(error) from error
        except BaseException:  # an interrupt
            _call_briefly(lambda: context.cancelJobGroup(group))
            raise
        return [(row["number"], pickle.loads(row["outcome"])) for row in rows]

    # The session

    def _open(self) -> Any:
        if self._session is None:
            try:
                from pyspark.sql import SparkSession
            except ImportError:
                raise ConfigError(f"the Spark engine needs pyspark: {_INSTALL}") from None
            active = SparkSession.getActiveSession()
            if active is not None and self._master not in (None, active.sparkContext.master):
                raise ConfigError(
                    f"engine: a Spark session runs already, with the master {active.sparkContext.master}; leave out "
                    "master to use it, or stop it"
                )
            self._owns_session = active is None
            self._session = active.newSession() if active is not None else self._start(SparkSession.builder)
            if not hasattr(self._session.range(0), "repartitionById"):
                raise ConfigError("the Spark engine needs Spark 4.1 or newer")
            for key, value in _SQL_CONF.items():
                self._session.conf.set(key, value)
        return self._session

    def _start(self, builder: Any) -> Any:
        """A session of our own. Spark's settings of this process are left as they are."""
        conf = {"spark.app.name": "samovar brew", **_OUR_CONF, **self._conf}
        if self.memory_limit_bytes is not None:
            megabytes = max(self.memory_limit_bytes, _LEAST_EXECUTOR_BYTES) >> 20
            conf.setdefault("spark.executor.memory", f"{megabytes}m")
        if self._master is not None:
            conf["spark.master"] = self._master
        for key, value in conf.items():
            builder = builder.config(key, value)

        def start() -> Any:
            session = builder.getOrCreate()
            python = conf.get("spark.pyspark.python") or os.environ.get("PYSPARK_PYTHON") or sys.executable
            session.sparkContext.pythonExec = python
            return session

        try:
            # Not in the main thread: there Spark takes the handling of ctrl-C over.
            return _call(start, lambda: None)
        except Exception as error:
            if "JAVA_GATEWAY_EXITED" in str(error) or isinstance(error, FileNotFoundError):
                raise ConfigError(
                    "the Spark engine needs Java 17 or newer: install it, for example with "
                    "`apt-get install openjdk-17-jre-headless`, or set JAVA_HOME"
                ) from error
            raise StoreError(f"Spark did not start with the master {self._master}: {_first_line(error)}") from error


class _Watch:
    """Reports how many tasks of a job are done."""

    def __init__(self, tracker: Any, group: str, phases: Sequence[Phase], progress: Progress) -> None:
        self._tracker = tracker
        self._group = group
        self._phases = phases
        self._progress = progress
        self._shown: tuple[str, int] | None = None
        self._num_looks = 0

    def look(self) -> None:
        with suppress(Exception):  # of a cluster that is gone; the job's own error says more
            self._look()

    def _look(self) -> None:
        self._num_looks += 1
        stages = [
            self._tracker.getStageInfo(stage)
            for job in self._tracker.getJobIdsForGroup(self._group)
            for stage in sorted(self._tracker.getJobInfo(job).stageIds)
        ]
        known = [stage for stage in stages if stage is not None]
        if self._num_looks == _PATIENCE_SECONDS / _POLL_SECONDS and not any(
            stage.numActiveTasks or stage.numCompletedTasks for stage in known
        ):
            _log.warning("Spark has given no executor yet; the cluster may be busy, or its workers too small")
        for phase, stage in zip(self._phases, known, strict=False):
            if stage.numActiveTasks or stage.numCompletedTasks < stage.numTasks:
                if self._shown != (phase, stage.stageId):
                    self._shown = phase, stage.stageId
                    self._progress.begin(phase, stage.numTasks, "tasks")
                self._progress.reach(stage.numCompletedTasks)
                return


def _map(frame: Any, task: Callable[..., Any], schema: str) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # Spark says that it hardly knows pandas 3, which we do not use
        return frame.mapInArrow(_task(task), schema)


def _task(task: Callable[..., Any]) -> Callable[[Iterable[Any]], Iterable[Any]]:
    """A function for executors. It is sent by value, and compares versions before it unpickles anything."""
    from pyspark import cloudpickle

    payload = cloudpickle.dumps(task)  # type: ignore[no-untyped-call]  # it has no types
    version = metadata.version("samovar")

    def run(batches: Iterable[Any]) -> Iterable[Any]:
        from importlib import import_module, metadata

        try:
            found = metadata.version("samovar")
        except metadata.PackageNotFoundError:
            found = "no"
        if found != version:
            raise RuntimeError(f"samovar-version:{found}:")
        yield from import_module("samovar.brewing.engines.spark_tasks").run(payload, batches)

    return run


def _explain(error: Exception) -> SamovarError:
    """A failed job as one of our errors."""
    text = str(error)
    ours = find_error(text)
    if ours is not None:
        return ours
    version = metadata.version("samovar")
    install = f"pip install samovar=={version}"
    told = re.findall(r"samovar-version:([\w.+-]+):", text)  # a traceback may also show the line that says so
    if told or "No module named 'samovar" in text:
        return ConfigError(
            f"Spark's executors have {told[-1] if told else 'no'} samovar, this is samovar {version}. Install it in "
            f"their Python, which spark.pyspark.python names, on every machine: {install}"
        )
    if "PYTHON_VERSION_MISMATCH" in text or "Cannot run program" in text or "No module named" in text:
        return ConfigError(
            f"Spark's executors cannot run our Python code ({_first_line(error)}). Set spark.pyspark.python in conf to "
            f"a Python {sys.version_info.major}.{sys.version_info.minor} on every machine that has it: {install}"
        )
    return StoreError(f"Spark could not finish the job: {_first_line(error)}")


def _first_line(error: Exception) -> str:
    """The line of a Java or Python error that says most."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    telling = [line for line in lines if "Error: " in line or "Exception: " in line]
    return (telling or lines or [type(error).__name__])[-1][:500]


def _sort_key(queries: Sequence[Query]) -> list[Any]:
    """By the order's key, then by file and row. A row has values in the columns of its own table only."""
    from pyspark.sql import functions

    tables = [{column.name: column.alias for column in columns_of(query, n)} for n, query in enumerate(queries)]
    names = [*queries[0].order.key, FILE, ROW]
    return [functions.coalesce(*(functions.col(table[name]) for table in tables)) for name in names]


def _refuse_queries(queries: Sequence[Query]) -> None:
    first = queries[0]
    for query in queries:
        if query.rates:
            raise BadInput(f"{query.source.name}: the Spark engine has no rates yet; brew with the DuckDB engine")
        if query.is_sorted:
            raise BadInput(f"{query.source.name}: only a recipe can be brewed by the Spark engine")
        for name in query.order.key:
            if name not in query.schema.names:
                continue
            kind, other = query.schema.field(name).type, first.schema.field(name).type
            if not can_sort(kind):
                raise BadInput(
                    f"{query.source.name}: column {name!r} is {kind}, which the Spark engine cannot sort by; cast it, "
                    "or brew with the DuckDB engine"
                )
            if kind != other:
                raise BadInput(
                    f"{query.source.name}: column {name!r} is {kind}, but {other} in {first.source.name}; cast one of "
                    "them"
                )


def _ddl(schema: Any) -> str:
    return ", ".join(f"{field.name} {spark_type(field.type)}" for field in schema)


def _no_rows() -> Generator[Any]:
    yield from ()


def _call(function: Callable[[], T], look: Callable[[], None]) -> T:
    """Call a function in a thread, so that ctrl-C interrupts the waiting, and look at the progress meanwhile."""
    outcome: list[Any] = []

    def run() -> None:
        try:
            outcome.append((function(), None))
        except BaseException as error:
            outcome.append((None, error))

    thread = threading.Thread(target=run, name="spark", daemon=True)
    thread.start()
    while thread.is_alive():
        thread.join(_POLL_SECONDS)
        look()
    result, error = outcome[0]
    if error is not None:
        raise error
    return result  # type: ignore[no-any-return]


def _call_briefly(function: Callable[[], object]) -> None:
    thread = threading.Thread(target=function, name="spark", daemon=True)
    thread.start()
    thread.join(_STOP_SECONDS)
