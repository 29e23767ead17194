"""Reading a tensor table, every byte touched: against its rows, the columns that are asked for, and parsers."""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import cycle, islice
from pathlib import Path

from benchmarks.contest.clicks import SCHEMA, cut, make_clicks
from benchmarks.contest.report import Section
from benchmarks.contest.rounds import time_call
from benchmarks.growing.base import Axis, Chart, Trial, Turns, grow
from benchmarks.loaders.base import BATCH_SIZE, touch
from benchmarks.loaders.tables import to_batch, write_table

from samovar.store import LocalStore
from samovar.tables import ReadOptions, Table

COLUMNS = [column.name for column in SCHEMA.columns]


@dataclass(frozen=True)
class Scale:
    """How far each axis goes."""

    batches: Sequence[int] = (10, 100, 400, 2000)
    """Rows per table; columns are measured on the last but one."""
    few_batches: int = 100
    columns: Sequence[int] = (1, 2, 5, 10, 20, 40)


QUICK = Scale((1, 4), 1, (1, 4))


def grow_all(scale: Scale, threads: Sequence[int], turns: Turns, folder: Path) -> Iterator[tuple[Section, Chart]]:
    """One line per number of parsers."""
    tables = _write(scale, folder)
    rows = [_try(table.num_examples, table, COLUMNS, count) for count in threads for table in tables]
    title = f"rows of a table with {len(COLUMNS)} columns"
    few, many = scale.few_batches * BATCH_SIZE, scale.batches[-1] * BATCH_SIZE
    yield grow(Axis(title, "rows", "a reading", "k rows", few, many, least=0.8), rows, turns)
    columns = [
        _try(num_columns, tables[-2], COLUMNS[:: len(COLUMNS) // num_columns][:num_columns], count)
        for count in threads
        for num_columns in scale.columns
    ]
    title = f"columns that are read, of {tables[-2].num_examples:,} rows"
    yield grow(Axis(title, "columns", "a reading", "k rows", scale.columns[0], scale.columns[-1]), columns, turns)


def _write(scale: Scale, folder: Path) -> list[Table]:
    """Larger tables repeat the rows of `few_batches`, because drawing ids takes longer than writing them."""
    batches = list(cut(make_clicks(scale.few_batches * BATCH_SIZE), BATCH_SIZE))
    tables = [
        write_table(LocalStore(folder / f"{count}"), islice(cycle(batches), count), "zstd") for count in scale.batches
    ]
    os.sync()  # do not charge readers for writing
    return tables


def _try(size: int, table: Table, columns: Sequence[str], num_parsers: int) -> Trial:
    line = f"{num_parsers} parsers" if num_parsers > 1 else "1 parser"
    act = partial(_read, table, columns, num_parsers)
    act()  # the first read verifies every byte
    return Trial(size, line, partial(time_call, act), table.num_examples / 1000)


def _read(table: Table, columns: Sequence[str], num_parsers: int) -> None:
    with table.read(columns, options=ReadOptions(num_parsers=num_parsers)) as records:
        for record in records:
            touch(to_batch(record))
