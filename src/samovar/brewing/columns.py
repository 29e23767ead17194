"""Which columns become what: the lists of factors, checked against a schema, give one converter per column. The first
rows of the source show how long real-valued lists are, so that a null list becomes as many zeros."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, suppress
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
    Missing,
    RateConverter,
    RealConverter,
    TextConverter,
    UnravelledConverter,
)
from samovar.brewing.made_columns import (
    CrossConverter,
    MissingConverter,
    TimeCycleConverter,
    TimeIdConverter,
    cross_name,
    missing_name,
)
from samovar.brewing.patterns import NamedColumns, is_pattern
from samovar.brewing.row_filter import ALL_ROWS, RowFilter
from samovar.brewing.sources import ScannedSource
from samovar.brewing.statistics import BinnedConverter, StandardConverter, is_unlearned
from samovar.config.roles import LISTS, STANDARD
from samovar.config.values import suggest
from samovar.errors import BadInput, ConfigError, CorruptData, UnknownColumn
from samovar.tables.keys import key_type
from samovar.tables.schema import ColumnSchema, parse_type

MAX_DEPTH = 2
_MAX_SHOWN = 100
NO_COLUMNS = 'no columns are named; give columns, such as {"user": "id"}, or fill categorical_factors or another list'
_ROLES = {name: role for role, name in LISTS.items()}


@dataclass(frozen=True)
class Factors:
    """The columns of one source, listed by what they become."""

    categorical_factors: Sequence[str] = ()
    realvalue_factors: Sequence[str] = ()
    unravelled_categorical_factors: Sequence[str] = ()
    hashed_factors: Sequence[str] = ()
    text_factors: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    keys: Sequence[str] = ()
    scale: Mapping[str, str] = field(default_factory=dict)
    """Real-valued columns that are standardised, by training or by brewing."""
    bins: Mapping[str, int] = field(default_factory=dict)
    """Real-valued columns that become ids, with the number of bins."""
    missing: Mapping[str, Missing] = field(default_factory=dict)
    """What becomes of missing values."""
    crosses: Sequence[Sequence[str]] = ()
    """Columns whose combinations become ids."""
    named_by_role: frozenset[str] = frozenset()
    """The columns that the recipe names in `columns`. Messages about them speak of roles instead of lists."""

    @property
    def lists(self) -> dict[str, Sequence[str] | Mapping[str, Any]]:
        """The columns by list, in the order that they have in a table."""
        return {item.name: getattr(self, item.name) for item in fields(self) if item.name in _ROLES}

    @property
    def columns(self) -> list[str]:
        """Every column that becomes something itself, each once."""
        return list(dict.fromkeys(column for columns in self.lists.values() for column in columns))

    @property
    def read_columns(self) -> list[str]:
        """Every column that is read, each once."""
        return list(dict.fromkeys([*self.columns, *(column for cross in self.crosses for column in cross)]))

    @property
    def text_columns(self) -> NamedColumns:
        """Columns whose values are texts even where they look like numbers."""
        texts = frozenset([*self.hashed_factors, *self.text_factors])
        return NamedColumns(texts, (frozenset(self.columns) | self.named_by_role) - texts)


def find_repeated(factors: Factors) -> Iterator[str]:
    """Problems of the lists themselves. `keys` may repeat columns of the others."""
    home: dict[str, str] = {}
    for name, columns in factors.lists.items():
        seen: set[str] = set()
        for column in columns:
            if column in seen:
                yield f"column {column!r} is listed twice in {name}"
            elif name != "keys" and column in home:
                yield f"column {column!r} is in both {home[column]} and {name}; only keys may repeat a factor"
            seen.add(column)
            home.setdefault(column, name)
    for name in ("scale", "bins"):
        for column in getattr(factors, name):
            if column not in factors.realvalue_factors and not is_pattern(column):
                yield f"{name}: column {column!r} is not a number by its role, nor in realvalue_factors"
    for column in factors.scale.keys() & factors.bins.keys():
        yield f"column {column!r} has both a scale and bins; keep one of the two"
    for column, policy in factors.missing.items():
        homes = [name for name, columns in factors.lists.items() if column in columns]
        if policy == "drop" or is_pattern(column):
            continue
        if not homes:
            yield f"missing: column {column!r} has no role, so it can only be set to 'drop'"
        elif policy == "zero" and "realvalue_factors" not in homes:
            yield f"missing: column {column!r} is not a number, so it cannot be zero"
        elif policy == "indicator" and homes == ["keys"]:
            yield f"missing: column {column!r} is a key only; an indicator needs another role"


def find_converters(
    schema: pa.Schema, factors: Factors, where: str, float_hint: str = "", odd_texts: Mapping[str, str] | None = None
) -> dict[str, Converter]:
    """One converter per column, by its name in the tensor table, in the order of the lists. `float_hint` is added to
    the error about ids that are floats; `odd_texts` are those of `ScannedSource`."""
    odd_texts = odd_texts or {}
    for problem in find_repeated(factors):
        raise ConfigError(f"{where}: {problem}")
    for column in factors.read_columns:
        require_column(schema, column, where)
    places = {
        name: [
            _Place(
                each,
                schema.field(each).type,
                name,
                each in factors.named_by_role,
                where,
                float_hint,
                odd_texts.get(each, ""),
            )
            for each in columns
        ]
        for name, columns in factors.lists.items()
    }
    made: list[Converter] = [
        replace(each, missing=factors.missing.get(each.column))
        for each in (*_make_factors(places, factors), *_make_keys(places))
    ]
    made += [*_make_indicators(made), *_make_crosses(schema, factors, where)]
    if not made:
        raise ConfigError(f"{where}: {NO_COLUMNS}")
    by_name = {converter.name: converter for converter in made}
    if len(by_name) < len(made):
        name = next(name for name, count in Counter(each.name for each in made).items() if count > 1)
        if name.startswith("key:"):
            raise ConfigError(
                f"{where}: two columns would be called {name!r}, which is the name of a key that is also a factor. "
                "Rename the column, or leave out the key"
            )
        raise ConfigError(f"{where}: two columns would be called {name!r}; rename that of the source")
    return by_name


def require_column(schema: pa.Schema, column: str, where: str) -> pa.DataType:
    require_name(schema.names, column, where)
    return schema.field(column).type


def require_name(names: Sequence[str], column: str, where: str) -> None:
    if column not in names:
        raise UnknownColumn(f"{where}: no column {column!r}{suggest(column, names)}")
    if names.count(column) > 1:
        raise BadInput(f"{where}: there are two columns {column!r}; rename or remove one")


def _make_factors(places: "Mapping[str, list[_Place]]", factors: Factors) -> Iterator[Converter]:
    for place in places["categorical_factors"]:
        yield CategoricalConverter(place.column, _number_type(place))
    for place in places["realvalue_factors"]:
        yield _make_number(place, factors)
    for place in places["unravelled_categorical_factors"]:
        kind = _number_type(place)
        if depth_of(kind) == 0 and not types.is_null(kind):
            raise place.refuse("a list", place.move("categorical_factors"))
        yield UnravelledConverter(place.column, kind)
    for place in places["hashed_factors"]:
        yield HashedConverter(place.column, _text_type(place, MAX_DEPTH))
    for place in places["text_factors"]:
        yield TextConverter(place.column, _text_type(place, 0), **factors.text_factors[place.column])


def _make_number(place: "_Place", factors: Factors) -> Converter:
    kind, scale, bins = _number_type(place), factors.scale.get(place.column), factors.bins.get(place.column)
    if bins is None and scale != STANDARD:
        return RealConverter(place.column, kind, scale=scale)
    if depth_of(kind) > 0:
        advice = 'use {"scale": "running"}, which takes lists' if bins is None else "split it into columns"
        raise place.refuse(f"single numbers for {'its scale' if bins is None else 'bins'}", advice)
    return StandardConverter(place.column, kind) if bins is None else BinnedConverter(place.column, kind, bins)


def _make_indicators(converters: Sequence[Converter]) -> Iterator[Converter]:
    for each in converters:
        if each.missing == "indicator" and each.kind != "key":
            yield MissingConverter(missing_name(each.column), each.source_type, each.column, each.takes)


def _make_crosses(schema: pa.Schema, factors: Factors, where: str) -> Iterator[Converter]:
    for cross in factors.crosses:
        kinds = [schema.field(column).type for column in cross]
        for column, kind in zip(cross, kinds, strict=True):
            if not (types.is_integer(kind) or types.is_boolean(kind) or types.is_null(kind) or is_text(kind)):
                raise BadInput(f"{where}: crosses: column {column!r} is {kind}, expected single integers or strings")
        yield CrossConverter(cross_name(cross), pa.uint64(), tuple(cross), tuple(map(str, kinds)))


def _make_keys(places: "Mapping[str, list[_Place]]") -> Iterator[Converter]:
    taken = {place.column for name, listed in places.items() if name != "keys" for place in listed}
    for place in places["keys"]:
        if types.is_nested(place.kind):
            advice = "give it another role" if place.is_role else "move it to a list of factors"
            raise place.refuse("a single value per row", advice)
        try:
            key_type(str(place.kind))
        except BadInput:
            raise place.refuse("a number, text, time or bytes", "cast it to one of these") from None
        yield KeyConverter(place.column, place.kind, is_factor_too=place.column in taken)


@dataclass(frozen=True)
class _Place:
    """One column in one list of a recipe, with its type in the source."""

    column: str
    kind: pa.DataType
    list: str
    is_role: bool
    """Whether the recipe names the column in `columns`; messages then speak of roles."""
    where: str
    float_hint: str
    odd_text: str
    """Where a column of numbers has a text."""

    def refuse(self, expected: str, advice: str) -> BadInput:
        if self.is_role:
            role = _ROLES[self.list]
            problem = f"column {self.column!r} is {self.kind}, but the role {role!r} needs {expected}"
        else:
            problem = f"{self.list}: column {self.column!r} is {self.kind}, expected {expected}"
        return BadInput(f"{self.where}: {problem}; {advice}")

    def move(self, *lists: str, reasons: Sequence[str] = ()) -> str:
        """Advice to put the column into one of other lists, or to give it one of their roles."""
        names = [repr(_ROLES[name]) if self.is_role else name for name in lists]
        shown = [f"{name} ({reason})" for name, reason in zip(names, reasons, strict=True)] if reasons else names
        return f"use {' or '.join(shown)}" if self.is_role else f"move it to {' or to '.join(shown)}"


def _number_type(place: _Place) -> pa.DataType:
    kind, leaf, advice = place.kind, leaf_of(place.kind), ""
    is_real = place.list == "realvalue_factors"
    if is_text(leaf):
        reasons = ("a string is one id", "a bag of words")
        advice = place.move("hashed_factors", "text_factors", reasons=reasons)
        if depth_of(kind) > 0:
            advice = place.move("hashed_factors", reasons=["each string is an id"])
        if place.odd_text:
            advice = f"{place.odd_text}. Correct it, or leave it empty if it is missing"
    elif types.is_floating(leaf) or types.is_decimal(leaf):
        if not is_real:
            hint = f" ({place.float_hint})" if place.float_hint else ""
            move = place.move("realvalue_factors")
            advice = f"ids are integers from -2**63 to 2**64 - 1; {move}, or correct its values{hint}"
    elif not (types.is_integer(leaf) or types.is_boolean(leaf) or types.is_null(leaf)):
        advice = f"cast it to a number, or {place.move('keys')}"
    elif depth_of(kind) > MAX_DEPTH:
        advice = f"flatten it to at most {MAX_DEPTH} levels"
    if advice:
        raise place.refuse(f"{'numbers' if is_real else 'integers'} or lists of them", advice)
    return kind


def _text_type(place: _Place, max_depth: int) -> pa.DataType:
    kind, leaf = place.kind, leaf_of(place.kind)
    if not (is_text(leaf) or types.is_null(leaf)) or depth_of(kind) > max_depth:
        home = "realvalue_factors" if types.is_floating(leaf) else "categorical_factors"
        home = "hashed_factors" if is_text(leaf) and not max_depth else home
        raise place.refuse("strings or lists of them" if max_depth else "strings", place.move(home))
    return kind


_BY_ROLE: Mapping[str, type[Converter]] = {
    each.role: each
    for each in (
        CategoricalConverter,
        UnravelledConverter,
        HashedConverter,
        TextConverter,
        RealConverter,
        RateConverter,
        StandardConverter,
        BinnedConverter,
        MissingConverter,
        CrossConverter,
        TimeCycleConverter,
        TimeIdConverter,
    )
}


def make_converter(column: ColumnSchema) -> Converter | None:
    """The converter that made a column of features; None if the table does not say, or it is a key."""
    recorded = dict(column.converter or {})
    found = _BY_ROLE.get(recorded.pop("role", ""))
    if found is None:
        return None
    options: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value for name, value in recorded.items()
    }
    with suppress(TypeError, ValueError, KeyError):
        converter = found(column.name, parse_type(column.source_type), **options)
        if _makes(converter, column):
            return converter
    raise CorruptData(f"column {column.name!r}: its converter {str(column.converter)[:_MAX_SHOWN]} is damaged")


def _makes(converter: Converter, column: ColumnSchema) -> bool:
    """Whether a converter can make a column; its options have the right types."""
    shape = converter.shape if isinstance(converter, RealConverter) else None
    return (
        (converter.kind, converter.rank) == (column.kind, column.rank)
        and not is_unlearned(converter)
        and all(isinstance(part.column, str) for part in converter.parts)
        and (shape is None or len(shape) == column.rank - 1)
    )


def with_shapes(
    converters: Mapping[str, Converter], scanned: ScannedSource, row_filter: RowFilter = ALL_ROWS
) -> dict[str, Converter]:
    """The same converters. Those of real-valued lists get a shape, if the first rows of a file show one."""
    found = dict(converters)
    for number in range(len(scanned.source.files)):
        shapeless = {name: each for name, each in found.items() if _is_shapeless(each)}
        if not shapeless:
            break
        columns = list(dict.fromkeys(each.column for each in shapeless.values()))
        with closing(row_filter.read(scanned.source, scanned.schema, columns, [number])) as batches:
            first = next((batch for batch in batches if batch.num_rows > 0), None)
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
