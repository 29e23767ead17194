"""Which columns become what: the lists of factors, checked against a schema, give one converter per column. The first
rows of the source show how long real-valued lists are, so that a null list becomes as many zeros."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

import pyarrow as pa
from pyarrow import types

from samovar.brewing.arrays import depth_of, is_text, leaf_of, unnest
from samovar.brewing.converters import (
    CategoricalConverter,
    Converter,
    HashedConverter,
    KeyConverter,
    RealConverter,
    TextConverter,
    UnravelledConverter,
)
from samovar.brewing.sources import ScannedSource, read_in_order
from samovar.config.values import nearest
from samovar.errors import BadInput, ConfigError, UnknownColumn

MAX_DEPTH = 2
NO_COLUMNS = "no columns are listed; fill categorical_factors, keys or another list"


@dataclass(frozen=True)
class Factors:
    """The columns of one source, listed by what they become."""

    categorical_factors: Sequence[str] = ()
    realvalue_factors: Sequence[str] = ()
    unravelled_categorical_factors: Sequence[str] = ()
    hashed_factors: Sequence[str] = ()
    text_factors: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    keys: Sequence[str] = ()

    @property
    def columns(self) -> list[str]:
        """Every column that is read, each once."""
        return list(dict.fromkeys(column for item in fields(self) for column in getattr(self, item.name)))

    @property
    def text_columns(self) -> frozenset[str]:
        """Columns whose values are texts even where they look like numbers."""
        return frozenset([*self.hashed_factors, *self.text_factors])


def find_repeated(factors: Factors) -> Iterator[str]:
    """Problems of the lists themselves. `keys` may repeat columns of the others."""
    home: dict[str, str] = {}
    for item in fields(factors):
        seen: set[str] = set()
        for column in getattr(factors, item.name):
            if column in seen:
                yield f"column {column!r} is listed twice in {item.name}"
            elif item.name != "keys" and column in home:
                yield f"column {column!r} is in both {home[column]} and {item.name}; only keys may repeat a factor"
            seen.add(column)
            home.setdefault(column, item.name)


def find_converters(schema: pa.Schema, factors: Factors, where: str) -> dict[str, Converter]:
    """One converter per column, by its name in the tensor table, in the order of the lists."""
    for problem in find_repeated(factors):
        raise ConfigError(f"{where}: {problem}")
    for column in factors.columns:
        require_column(schema, column, where)
    made = [*_make_factors(schema, factors, where), *_make_keys(schema, factors, where)]
    if not made:
        raise ConfigError(f"{where}: {NO_COLUMNS}")
    by_name = {converter.name: converter for converter in made}
    if len(by_name) < len(made):
        name = next(name for name, count in Counter(each.name for each in made).items() if count > 1)
        raise ConfigError(
            f"{where}: two columns would be called {name!r}, which is the name of a key that is also a factor. Rename "
            "the column, or leave out the key"
        )
    return by_name


def require_column(schema: pa.Schema, column: str, where: str) -> pa.DataType:
    if column not in schema.names:
        best = nearest(column, schema.names)
        hint = f" Did you mean {best!r}?" if best else ""
        raise UnknownColumn(f"{where}: no column {column!r}.{hint} Available: {', '.join(schema.names)}")
    if schema.names.count(column) > 1:
        raise BadInput(f"{where}: a file has two columns {column!r}; rename or remove one")
    return schema.field(column).type


def _make_factors(schema: pa.Schema, factors: Factors, where: str) -> Iterator[Converter]:
    for column in factors.categorical_factors:
        yield CategoricalConverter(column, _number_type(schema, column, "categorical_factors", where))
    for column in factors.realvalue_factors:
        yield RealConverter(column, _number_type(schema, column, "realvalue_factors", where))
    for column in factors.unravelled_categorical_factors:
        kind = _number_type(schema, column, "unravelled_categorical_factors", where)
        if depth_of(kind) == 0 and not types.is_null(kind):
            raise BadInput(
                f"{where}: unravelled_categorical_factors: column {column!r} is {kind}, expected a list; move it to "
                "categorical_factors"
            )
        yield UnravelledConverter(column, kind)
    for column in factors.hashed_factors:
        yield HashedConverter(column, _text_type(schema, column, "hashed_factors", MAX_DEPTH, where))
    for column, options in factors.text_factors.items():
        yield TextConverter(column, _text_type(schema, column, "text_factors", 0, where), **options)


def _make_keys(schema: pa.Schema, factors: Factors, where: str) -> Iterator[Converter]:
    taken = {column for item in fields(factors) if item.name != "keys" for column in getattr(factors, item.name)}
    for column in factors.keys:
        kind = schema.field(column).type
        if types.is_nested(kind):
            raise BadInput(
                f"{where}: keys: column {column!r} is {kind}, but a key is a single value per row; move it to a list "
                "of factors"
            )
        yield KeyConverter(column, kind, is_factor_too=column in taken)


def _number_type(schema: pa.Schema, column: str, factors: str, where: str) -> pa.DataType:
    kind = schema.field(column).type
    leaf, advice = leaf_of(kind), ""
    is_real = factors == "realvalue_factors"
    if is_text(leaf):
        advice = "move it to hashed_factors (a string is one id) or to text_factors (a bag of words)"
        if depth_of(kind) > 0:
            advice = "move it to hashed_factors (each string is an id)"
    elif types.is_floating(leaf) or types.is_decimal(leaf):
        if not is_real:
            advice = "ids are integers from -2**63 to 2**64 - 1; move it to realvalue_factors, or correct its values"
    elif not (types.is_integer(leaf) or types.is_boolean(leaf) or types.is_null(leaf)):
        advice = "cast it to a number, or move it to keys"
    elif depth_of(kind) > MAX_DEPTH:
        advice = f"flatten it to at most {MAX_DEPTH} levels"
    if advice:
        expected = "numbers" if is_real else "integers"
        raise BadInput(
            f"{where}: {factors}: column {column!r} is {kind}, expected {expected} or lists of them; {advice}"
        )
    return kind


def _text_type(schema: pa.Schema, column: str, factors: str, max_depth: int, where: str) -> pa.DataType:
    kind = schema.field(column).type
    leaf = leaf_of(kind)
    if not (is_text(leaf) or types.is_null(leaf)) or depth_of(kind) > max_depth:
        expected = "strings or lists of them" if max_depth else "strings"
        home = "realvalue_factors" if types.is_floating(leaf) else "categorical_factors"
        home = "hashed_factors" if is_text(leaf) and not max_depth else home
        raise BadInput(f"{where}: {factors}: column {column!r} is {kind}, expected {expected}; move it to {home}")
    return kind


def with_shapes(converters: Mapping[str, Converter], scanned: ScannedSource) -> dict[str, Converter]:
    """The same converters. Those of real-valued lists get a shape, if the first rows of a file show one."""
    found = dict(converters)
    for number in range(len(scanned.source.files)):
        shapeless = {name: each for name, each in found.items() if _is_shapeless(each)}
        if not shapeless:
            break
        columns = list(dict.fromkeys(each.column for each in shapeless.values()))
        first = next(read_in_order(scanned.source, scanned.schema, columns, [number]), None)
        for name, converter in shapeless.items():
            shape = None if first is None else _shape(first.column(converter.column))
            found[name] = replace(converter, shape=shape)  # type: ignore[call-arg]  # only RealConverters are shapeless
    return found


def _is_shapeless(converter: Converter) -> bool:
    return isinstance(converter, RealConverter) and converter.rank > 1 and converter.shape is None


def _shape(array: pa.Array) -> tuple[int, ...] | None:
    """The lengths of the first lists that are not null; None if a level has none."""
    known = [length for length in unnest(array).first_lengths if length is not None]
    return tuple(known) if len(known) == depth_of(array.type) else None
