"""Sorted rows of one or several tables → minibatches: check, join, cut, convert. Knows no engine and writes nothing.

rows ─checked─▶ ┐
rows ─checked─▶ ┴join─▶ cut into minibatches ─▶ one converter a column ─▶ Minibatch
"""

from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from functools import partial

import pyarrow as pa

from samovar.brew.converters import Converter, Locate
from samovar.brew.groups import Cut, Tally, cut
from samovar.brew.join import Stream, join
from samovar.brew.order import FILE, ROW, Order, checked
from samovar.brew.sources import Source
from samovar.errors import BadInput, ConfigError
from samovar.tables.schema import Minibatch, TableSchema, Value


@dataclass(frozen=True)
class Ingredient:
    """One table on its way in: its rows in the promised order, and what becomes of its columns."""

    source: Source
    rows: Generator[pa.RecordBatch]
    """The columns of the converters and of the order's key, and each row's place in its source."""
    converters: Mapping[str, Converter]


def make_schema(converters: Sequence[Mapping[str, Converter]], order: Order) -> TableSchema:
    """The columns of all tables; two tables cannot give the same one."""
    columns = [converter for table in converters for converter in table.values()]
    homes: dict[str, int] = {}
    for number, table in enumerate(converters, 1):
        for name in {name for each in table.values() for name in (each.column, each.name)}:
            if homes.setdefault(name, number) != number:
                raise ConfigError(
                    f"column {name!r}: comes from table {homes[name]} and from table {number}, expected one of them: "
                    "remove it from the other"
                )
    return TableSchema(tuple(converter.schema for converter in columns), order.key)


def make_minibatches(
    ingredients: Sequence[Ingredient], order: Order, batch_size: int, tally: Tally
) -> Generator[Minibatch]:
    """All rows, each once."""
    with ExitStack() as stack:
        streams = []
        for number, each in enumerate(ingredients):
            # An engine's stream holds files: it ends here, whatever keeps a reference to it.
            rows = checked(stack.enter_context(closing(each.rows)), order.key, each.source)
            streams.append(Stream(each.source.name, _with_own_places(rows, number)))
        for piece in cut(join(streams, order.key), order, batch_size, tally):
            values: dict[str, Value] = {}
            for number, each in enumerate(ingredients):
                values |= _convert(piece, each, number, tally)
            yield Minibatch(piece.hour, piece.rows.num_rows, values)


def _convert(piece: Cut, ingredient: Ingredient, number: int, tally: Tally) -> dict[str, Value]:
    locate = partial(_locate, piece.rows, ingredient.source, number)
    names = piece.rows.schema.names
    values = {}
    for name, converter in ingredient.converters.items():
        array = piece.rows.column(names.index(converter.column))
        values[name] = _convert_column(converter, array, locate)
        if converter.kind == "real" and array.null_count > 0:
            tally.num_zeroed[name] += array.null_count
    return values


def _convert_column(converter: Converter, array: pa.Array, locate: Locate) -> Value:
    try:
        return converter.convert(array, locate)
    except pa.ArrowException as error:
        raise BadInput(
            f"{locate(0)} and below: column {converter.column!r}: found {array.type} that cannot be used ({error}); "
            f"expected {converter.source_type}: mend the column"
        ) from error


def _with_own_places(batches: Iterator[pa.RecordBatch], number: int) -> Iterator[pa.RecordBatch]:
    """Rows keep their places apart when tables are joined."""
    for batch in batches:
        names = [f"{name}{number}" if name in (FILE, ROW) else name for name in batch.schema.names]
        yield batch.rename_columns(names)


def _locate(rows: pa.RecordBatch, source: Source, number: int, row: int) -> str:
    file, place = (rows.column(f"{name}{number}")[row].as_py() for name in (FILE, ROW))
    return source.locate(file, place)
