"""The recipe of a tensor table: the config of `samovar brew`. Knows its keys and which of them exclude each other;
opens no files."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    ByteSize,
    Discriminator,
    Field,
    PositiveInt,
    Tag,
    TypeAdapter,
    ValidationError,
    ValidatorFunctionWrapHandler,
    WrapValidator,
    model_validator,
)

from samovar.brewing.clock import Clock
from samovar.brewing.columns import NO_COLUMNS, Factors, find_repeated
from samovar.brewing.converters import Missing
from samovar.brewing.engines import Engine, find_engine
from samovar.brewing.formats.base import UTF8, check_encoding
from samovar.brewing.made_columns import TimeFeature, TimeForm
from samovar.brewing.order import Order
from samovar.brewing.patterns import Expansion, expand_options, is_pattern
from samovar.brewing.progress import Progress
from samovar.brewing.rates import Rate
from samovar.brewing.row_filter import RowFilter, Where
from samovar.brewing.text import MAX_RUN
from samovar.config import Schema
from samovar.config.roles import IGNORE, LISTS, OPTIONS, ROLES, TIME, expand, roles_of
from samovar.config.values import join, suggest
from samovar.errors import ConfigError
from samovar.hours import Period, parse_range, parse_span
from samovar.tables.cell import Compression
from samovar.tables.schema import MAX_BINS

_SIZE = re.compile(r"\s*\d+(\.\d+)?\s*[a-zA-Z]*\s*")  # ByteSize itself ignores what follows: to it, "2,5GB" is 2
_SMALLEST_BARE_NUMBER = 10**6


def _check_size(value: Any, parse: ValidatorFunctionWrapHandler) -> int:
    try:
        size = int(parse(value))
    except ValidationError:
        size = 0
    if size == 0 or isinstance(value, bool) or (isinstance(value, str) and not _SIZE.fullmatch(value)):
        raise ValueError("expected a number of bytes or a size such as '2GB' or '512MiB'")
    if size < _SMALLEST_BARE_NUMBER and str(value).strip().isdigit():
        raise ValueError(f'{size} bytes are too few to sort rows; write "{size}GB" if gigabytes are meant')
    return size


MemorySize = Annotated[ByteSize, WrapValidator(_check_size)]


def parse_memory_limit(size: str | int | None) -> int | None:
    """Bytes of a size such as '2GB' (10**9) or '512MiB' (2**20), for callers without a recipe."""
    try:
        return TypeAdapter(MemorySize | None).validate_python(size)
    except ValidationError as error:
        raise ConfigError(f"memory_limit: {error.errors()[0]['ctx']['error']}, got {size!r}") from None


class TextOptions(Schema):
    words: Annotated[int, Field(ge=1, le=MAX_RUN)] | None = None
    """Words, and runs of up to this many neighbouring words."""
    ngrams: Annotated[int, Field(ge=1, le=MAX_RUN)] | None = None
    """Runs of this many characters."""
    lower: bool = True
    """Whether upper and lower case are the same."""

    @model_validator(mode="after")
    def _require_tokens(self) -> Self:
        if self.words is None and self.ngrams is None:
            raise ValueError('give "words" or "ngrams"')
        return self


Scale = Literal["running", "standard"]
Bins = Annotated[int, Field(ge=2, le=MAX_BINS)]


def _check_span(text: str) -> str:
    try:
        parse_span(text)
    except ConfigError as error:
        raise ValueError(str(error)) from None
    return text


Span = Annotated[str, AfterValidator(_check_span)]


class RateOptions(Schema):
    of: str
    """Column with the outcome: a number, or true and false."""
    by: tuple[str, ...] = ()
    """Rows with the same values in these columns count. Default: all rows."""
    window: Span
    """How far back rows count, such as 14d."""
    known_after: Span
    """When the outcome of a row is known, such as 6h: a row sees no outcome before that."""
    smoothing: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 10
    """This many rows with the mean of all rows are added, so that a rate of few rows says little."""
    name: str | None = None
    """Of the column, and with _count of the number of its rows. Default: late_rate_by_carrier."""

    @property
    def rate(self) -> Rate:
        by = f"_by_{'_'.join(self.by)}" if self.by else ""
        window, known_after = parse_span(self.window), parse_span(self.known_after)
        return Rate(self.name or f"{self.of}_rate{by}", self.of, self.by, window, known_after, self.smoothing)

    @model_validator(mode="after")
    def _see_some_rows(self) -> Self:
        if self.rate.window <= self.rate.known_after:
            raise ValueError(f"window must be longer than known_after, got {self.window} and {self.known_after}")
        return self


class MinutesPeriod(Schema):
    minutes: int
    """Minutes per URI. They must divide a day: 15, 30, 360."""

    @model_validator(mode="after")
    def _check_minutes(self) -> Self:
        try:
            Period.parse(self.minutes)
        except ConfigError as error:
            raise ValueError(str(error)) from None
        return self


class ShuffleOptions(Schema):
    seed: int = Field(default=0, ge=0, lt=2**64)
    """Each seed gives another order."""


def _check_role(role: str) -> str:
    if role not in ROLES:
        raise ValueError(f"{role!r} is not a role{suggest(role, ROLES)}")
    return role


# Which member of a union to try. A plain union would report what is wrong with each member.


def _kind_of_role(value: Any) -> str:
    return "object" if isinstance(value, dict | Schema) else "name"


def _kind_of_roles(value: Any) -> str:
    return "list" if isinstance(value, list | tuple) else _kind_of_role(value)


class NumberOptions(Schema):
    scale: Scale | None = None
    """Whether the column is standardised: "running" by training, "standard" by brewing. For quantiles, use `bins`."""
    bins: Bins | None = None
    """The column becomes ids: at most this many bins with about the same number of rows."""
    missing: Missing | None = None
    """What becomes of missing values."""


class RoleWithOptions(Schema):
    text: TextOptions | None = None
    """Texts, as bags of words or n-grams."""
    number: NumberOptions | None = None
    """Numbers or (nested) lists of them: a dense tensor."""


_Name = Annotated[str, AfterValidator(_check_role), Tag("name")]
_Object = Annotated[RoleWithOptions, Tag("object")]
Role = Annotated[_Name | _Object, Discriminator(_kind_of_role)]
Roles = Annotated[_Name | _Object | Annotated[tuple[Role, ...], Tag("list")], Discriminator(_kind_of_roles)]


class SparkOptions(Schema):
    master: str | None = None
    """Address of the cluster, such as spark://host:7077, yarn or local[4]. Default: that of the running Spark session,
    or of Spark's own configuration."""
    conf: dict[str, str | bool | int | float] = Field(default_factory=dict)
    """Spark's settings, such as spark.executor.memory. They are not kept with the table."""

    @property
    def as_text(self) -> dict[str, str]:
        return {key: str(value).lower() if isinstance(value, bool) else str(value) for key, value in self.conf.items()}


class EngineOptions(Schema):
    spark: SparkOptions
    """A Spark cluster."""


EngineChoice = Annotated[
    Annotated[Literal["duckdb", "spark"], Tag("name")] | Annotated[EngineOptions, Tag("object")],
    Discriminator(_kind_of_role),
]
NamedPeriod = Literal["hour", "day", "week"]
UriPeriod = Annotated[
    Annotated[NamedPeriod, Tag("name")] | Annotated[MinutesPeriod, Tag("object")],
    Discriminator(_kind_of_role),
]
_COMBINED = ("key", TIME)
"""Roles that a column may have besides another one."""


def _check_where(text: str) -> str:
    try:
        Where(text)
    except ConfigError as error:
        raise ValueError(str(error).removeprefix("where: ")) from None
    return text


class RecipeTable(Schema):
    """A source, and what its columns become."""

    source: str | tuple[str, ...]
    """Paths or globs of Parquet, CSV, JSON lines or Arrow files, relative to the recipe."""
    encoding: Annotated[str, AfterValidator(check_encoding)] = UTF8
    """Encoding of CSV and JSON files, such as latin-1."""
    where: Annotated[str, AfterValidator(_check_where)] | None = None
    """Only rows for which this expression of DuckDB over their columns is true, such as quantity > 0."""
    columns: dict[str, Roles] = Field(default_factory=dict)
    """What each column becomes: id, id_sequence, hash, text, number, key, time or ignore. Several roles are a list. The
    lists below are the long form of the same. A name such as feat_* stands for all columns that it matches."""
    categorical_factors: tuple[str, ...] = ()
    """Integers or (nested) lists of them: ids; the last list level is a bag."""
    realvalue_factors: tuple[str, ...] = ()
    """Numbers or (nested) lists of them: a dense tensor."""
    scale: dict[str, Scale] = Field(default_factory=dict)
    """Real-valued columns that are standardised: "running" by training, with the mean and the deviation so far, or
    "standard" by brewing, with those of all rows."""
    bins: dict[str, Bins] = Field(default_factory=dict)
    """Real-valued columns that become ids: at most this many bins with about the same number of rows."""
    unravelled_categorical_factors: tuple[str, ...] = ()
    """Lists of ids whose last level is a sequence."""
    hashed_factors: tuple[str, ...] = ()
    """Strings or lists of them: the hash of each is an id."""
    text_factors: dict[str, TextOptions] = Field(default_factory=dict)
    """Texts, as bags of words or n-grams."""
    keys: tuple[str, ...] = ()
    """Single values that are kept as they are; a key may also be a factor."""
    missing: dict[str, Missing] = Field(default_factory=dict)
    """What becomes of missing values, by column: zero, drop (the row), indicator (one more column) or error."""
    crosses: tuple[Annotated[tuple[str, ...], Field(min_length=2)], ...] = ()
    """Lists of columns: each combination of their values is an id of a new column."""

    @property
    def row_filter(self) -> RowFilter:
        """Which rows of the source are taken."""
        required = [column for column, policy in self.factors.missing.items() if policy == "drop"]
        return RowFilter(None if self.where is None else Where(self.where), tuple(required))

    @property
    def factors(self) -> Factors:
        roles = expand(self._roles)
        texts = {column: options.model_dump() for column, options in self.text_factors.items()}
        lists: dict[str, Any] = {
            name: (*getattr(self, name), *roles.get(name, ())) for name in LISTS.values() if name != "text_factors"
        }
        options: dict[str, Any] = {name: {**getattr(self, name), **roles.get(name, {})} for name in OPTIONS}
        return Factors(
            **lists,
            text_factors={**texts, **roles.get("text_factors", {})},
            **options,
            crosses=self.crosses,
            named_by_role=frozenset(self.columns),
        )

    def expand_patterns(self, available: Sequence[str], where: str, time_column: str | None = None) -> Self:
        """The same table with the columns that patterns stand for. `available` are those of the source, and `where` is
        its name in errors."""
        lists = [name for name in LISTS.values() if name != "keys"]
        listed = [column for name in lists for column in getattr(self, name)]
        full = [column for column in (*self.columns, *listed, time_column or "") if not is_pattern(column)]
        taking = Expansion(available, full, where)
        columns: dict[str, Any] = {}
        for column, roles in self.columns.items():
            if roles != IGNORE:
                columns |= taking.keys({column: roles})
        changed: dict[str, Any] = {
            name: taking.keys(value) if isinstance(value := getattr(self, name), dict) else tuple(taking.names(value))
            for name in lists
        }
        for column in self.columns:
            if self.columns[column] == IGNORE:
                columns |= dict.fromkeys(taking.rest(column) if taking.is_pattern(column) else [column], IGNORE)
        full_keys = [column for column in self.keys if not is_pattern(column)]
        changed["keys"] = tuple(Expansion(available, full_keys, where).names(self.keys))
        table = self.model_copy(update={"columns": columns, **changed})
        choices = dict.fromkeys(OPTIONS, table.factors.realvalue_factors) | {"missing": table.factors.columns}
        options = {name: expand_options(getattr(self, name), choices[name], f"{where}: {name}") for name in OPTIONS}
        return table.model_copy(update=options)

    @property
    def _roles(self) -> Mapping[str, Any]:
        roles: Mapping[str, Any] = self.model_dump(include={"columns"})["columns"]
        return roles

    @model_validator(mode="after")
    def _name_each_column_once(self) -> Self:
        for problem in (*self._misused_roles(), *find_repeated(self.factors)):
            raise ValueError(problem)
        if not self.factors.columns and not self.crosses:
            raise ValueError(NO_COLUMNS)
        for cross in self.crosses:
            if len(set(cross)) < len(cross):
                raise ValueError(f"crosses: a column is named twice in {list(cross)}")
        return self

    def _misused_roles(self) -> Iterator[str]:
        listed = {column: name for name in LISTS.values() for column in getattr(self, name)}
        for column, value in self._roles.items():
            names, place = [role for role, _ in roles_of(value)], join("columns", column)
            others = [name for name in names if name not in _COMBINED]
            if column in listed:
                yield f"column {column!r} is in both columns and {listed[column]}; keep one of the two"
            elif not names:
                yield f"{place}: give a role, or {IGNORE!r}"
            elif TIME in names and is_pattern(column):
                yield f"{place}: the time is one column; name it in full"
            elif len(set(names)) < len(names):
                yield f"{place}: a role is given twice"
            elif len(others) > 1 or (IGNORE in names and len(names) > 1):
                both = " and ".join(map(repr, names))
                yield f"{place}: {both} cannot be combined; only 'key' and 'time' can be added to another role"


class Recipe(RecipeTable):
    result: str | None = None
    """Directory of the table, relative to the recipe. Default: the recipe's name without its suffix."""
    time_field: str | None = None
    """Column with the time of each row. Without it the table is offline, in the order of its source."""
    time_unit: Literal["seconds", "milliseconds", "timestamp"] | None = None
    """Default: inferred from the type and the size of the numbers."""
    time_format: str | None = None
    """Format of times that are texts, such as %m/%d/%Y %H:%M. Default: ISO, or learned from the first rows."""
    timezone: str | None = None
    """Time zone of timestamps and dates that have none, and of days and weeks. Default: UTC."""
    start_date: str | None = None
    """First hour that is taken."""
    end_date: str | None = None
    """First hour after `start_date` that is not taken."""
    datetime_format: str | None = None
    """Format of start_date and end_date. Default: ISO."""
    uri: UriPeriod = "hour"
    """What the table is split by, and what one URI of online training covers: hour, {"minutes": 15}, or day or week
    (from Monday on) of `timezone`."""
    granularity: PositiveInt = 300
    """Seconds per granule, counted from the start of the hour, or of a shorter period."""
    batch_size: PositiveInt = 1024
    """Rows per minibatch. The last one of an hour, or of another period, may be shorter; with a pivot they may be
    longer."""
    pivot_column: str | None = None
    """Rows of a granule with the same value stay together in one minibatch."""
    stability_column: str | None = None
    """Orders the rows of a group; joined tables need it to distinguish rows."""
    rates: tuple[RateOptions, ...] = ()
    """Rolling rates: real-valued columns that brewing makes from the outcomes of earlier rows of `source`."""
    time_features: dict[TimeFeature, TimeForm] = Field(default_factory=dict)
    """Columns made from the time: hour (of the day) and weekday, each as cycle (sine and cosine) or id."""
    statistics: str | None = None
    """Tensor table whose scales and bins are used, such as the training table of a test table. Default: these rows
    have their own."""
    tables: tuple[RecipeTable, ...] = ()
    """More tables with exactly the same rows, joined one to one."""
    memory_limit: MemorySize | None = None
    """Bytes that sorting may use, or a size such as 2GB."""
    engine: EngineChoice = "duckdb"
    """Who sorts the rows: duckdb on this machine, or a Spark cluster. The table is the same."""
    shuffle: ShuffleOptions | None = None
    """Shuffles the rows of an offline table."""
    compression: str = "zstd"
    """zstd, zstd:3, lz4 or none."""

    def find_engine(self, progress: Progress) -> Engine:
        """The engine that sorts the rows."""
        if self.engine == "duckdb":
            return find_engine("duckdb", self.memory_limit, progress)
        chosen = self.engine.spark if isinstance(self.engine, EngineOptions) else SparkOptions()
        options = {"master": chosen.master, "conf": chosen.as_text}
        return find_engine("spark", self.memory_limit, progress, options)

    @property
    def time_column(self) -> str | None:
        """The column that `time_field` names, or that has the role `time`."""
        named: str | None = expand(self._roles).get("time_field")
        return self.time_field if self.time_field is not None else named

    @property
    def order(self) -> Order:
        is_shuffled = self.shuffle is not None
        return Order(self.time_column is not None, self.pivot_column, self.stability_column, is_shuffled, self.period)

    @property
    def period(self) -> Period:
        return Period.parse(self.uri.minutes if isinstance(self.uri, MinutesPeriod) else self.uri, self.timezone)

    @property
    def clock(self) -> Clock | None:
        if self.time_column is None:
            return None
        start, stop = self.hours
        return Clock(
            self.time_column,
            self.time_unit,
            self.timezone,
            self.granularity,
            start,
            stop,
            self.time_format,
            self.period,
        )

    @property
    def hours(self) -> tuple[int | None, int | None]:
        """The half-open range of hours, or of other periods."""
        hours = parse_range(self.start_date, self.end_date, self.datetime_format, self.timezone)
        for key, hour in zip(("start_date", "end_date"), hours, strict=True):
            self.period.require_start(key, hour)
        return hours

    @model_validator(mode="after")
    def _fit_together(self) -> Self:
        try:
            Compression.parse(self.compression)
            _ = self.hours, self.clock
        except ConfigError as error:
            raise ValueError(str(error)) from None
        for problem in self._misplaced():
            raise ValueError(problem)
        return self

    def _misplaced(self) -> Iterator[str]:
        yield from self._times_named_twice()
        is_online = self.time_column is not None
        for name in (
            "time_unit",
            "time_format",
            "timezone",
            "start_date",
            "end_date",
            "datetime_format",
            "granularity",
            "uri",
        ):
            if name in self.model_fields_set and getattr(self, name) is not None and not is_online:
                yield f"{name} needs time_field{', or a column with the role time' if self.columns else ''}"
        if self.time_format is not None and self.time_unit not in (None, "timestamp"):
            yield f"time_format is for text, and time_unit {self.time_unit!r} for numbers; keep one of the two"
        if self.rates and not is_online:
            yield "rates need time_field: a rate is computed from earlier rows"
        made = [name for each in self.rates for name in each.rate.columns]
        if self.time_features and not is_online:
            yield "time_features need time_field"
        for name in made:
            if made.count(name) > 1 or name in self.factors.columns:
                yield f"rates: two columns would be called {name!r}; give one of them another name"
        if self.shuffle is not None and is_online:
            yield "shuffle and time_field exclude each other: a table is shuffled or sorted by time"
        if self.tables and not is_online and self.pivot_column is None:
            yield "tables are joined by time or by a pivot: give time_field or pivot_column"
        if self.stability_column is not None and not is_online and self.pivot_column is None:
            yield "stability_column needs time_field or pivot_column"

    def _times_named_twice(self) -> Iterator[str]:
        columns = _with_role(self._roles, TIME)
        if len(columns) > 1:
            yield f"{join('columns', columns[1])}: {columns[0]!r} has the role 'time' too; a table has one time"
        elif columns and self.time_field is not None:
            yield f"{join('columns', columns[0])}: the time is also named by time_field; keep one of the two"
        for number, table in enumerate(self.tables):
            for column in _with_role(table._roles, TIME):
                place = join(f"tables[{number}].columns", column)
                yield f"{place}: name the time once, at the top of the recipe; it applies to all tables"


def _with_role(roles: Mapping[str, Any], wanted: str) -> list[str]:
    return [column for column, value in roles.items() if wanted in dict(roles_of(value))]
