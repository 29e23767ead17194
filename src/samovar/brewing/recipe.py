"""The recipe of a tensor table: the config of `samovar brew`. Knows its keys and which of them exclude each other;
opens no files."""

import re
from typing import Annotated, Any, Literal, Self

from pydantic import (
    ByteSize,
    Field,
    PositiveInt,
    TypeAdapter,
    ValidationError,
    ValidatorFunctionWrapHandler,
    WrapValidator,
    model_validator,
)

from samovar.brewing.clock import Clock
from samovar.brewing.columns import NO_COLUMNS, Factors, find_repeated
from samovar.brewing.order import Order
from samovar.brewing.text import MAX_RUN
from samovar.config import Schema
from samovar.errors import ConfigError
from samovar.hours import parse_range
from samovar.tables.cell import Compression

_SIZE = re.compile(r"\s*\d+(\.\d+)?\s*[a-zA-Z]*\s*")  # ByteSize itself ignores what follows: to it, "2,5GB" is 2


def _check_size(value: Any, parse: ValidatorFunctionWrapHandler) -> int:
    try:
        size = int(parse(value))
    except ValidationError:
        size = 0
    if size == 0 or isinstance(value, bool) or (isinstance(value, str) and not _SIZE.fullmatch(value)):
        raise ValueError("expected a number of bytes or a size such as '2GB' or '512MiB'")
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


class ShuffleOptions(Schema):
    seed: int = Field(default=0, ge=0, lt=2**64)
    """Each seed gives another order."""


class RecipeTable(Schema):
    """A source, and what its columns become."""

    source: str | tuple[str, ...]
    """Paths or globs of Parquet, CSV, JSON lines or Arrow files, relative to the recipe."""
    categorical_factors: tuple[str, ...] = ()
    """Integers or (nested) lists of them: ids; the last list level is a bag."""
    realvalue_factors: tuple[str, ...] = ()
    """Numbers or (nested) lists of them: a dense tensor."""
    unravelled_categorical_factors: tuple[str, ...] = ()
    """Lists of ids whose last level is a sequence."""
    hashed_factors: tuple[str, ...] = ()
    """Strings or lists of them: the hash of each is an id."""
    text_factors: dict[str, TextOptions] = Field(default_factory=dict)
    """Texts, as bags of words or n-grams."""
    keys: tuple[str, ...] = ()
    """Single values that are kept as they are; a key may also be a factor."""

    @property
    def factors(self) -> Factors:
        return Factors(
            self.categorical_factors,
            self.realvalue_factors,
            self.unravelled_categorical_factors,
            self.hashed_factors,
            {column: options.model_dump() for column, options in self.text_factors.items()},
            self.keys,
        )

    @model_validator(mode="after")
    def _name_each_column_once(self) -> Self:
        for problem in find_repeated(self.factors):
            raise ValueError(problem)
        if not self.factors.columns:
            raise ValueError(NO_COLUMNS)
        return self


class Recipe(RecipeTable):
    result: str | None = None
    """Directory of the table, relative to the recipe. Default: the recipe's name without its suffix."""
    time_field: str | None = None
    """Column with the time of each row. Without it the table is offline, in the order of its source."""
    time_unit: Literal["seconds", "milliseconds", "timestamp"] | None = None
    """Default: inferred from the type and the size of the numbers."""
    timezone: str | None = None
    """Time zone of timestamps and dates that have none. Default: UTC."""
    start_date: str | None = None
    """First hour that is taken."""
    end_date: str | None = None
    """First hour after `start_date` that is not taken."""
    datetime_format: str | None = None
    """Format of start_date and end_date. Default: ISO."""
    granularity: PositiveInt = 300
    """Seconds per granule, counted from the start of the hour."""
    batch_size: PositiveInt = 1024
    """Rows per minibatch. The last one of an hour may be shorter; with a pivot they may be longer."""
    pivot_column: str | None = None
    """Rows of a granule with the same value stay together in one minibatch."""
    stability_column: str | None = None
    """Orders the rows of a group; joined tables need it to distinguish rows."""
    tables: tuple[RecipeTable, ...] = ()
    """More tables with exactly the same rows, joined one to one."""
    memory_limit: MemorySize | None = None
    """Bytes that sorting may use, or a size such as 2GB."""
    shuffle: ShuffleOptions | None = None
    """Shuffles the rows of an offline table."""
    compression: str = "zstd"
    """zstd, zstd:3, lz4 or none."""

    @property
    def order(self) -> Order:
        is_shuffled = self.shuffle is not None
        return Order(self.time_field is not None, self.pivot_column, self.stability_column, is_shuffled)

    @property
    def clock(self) -> Clock | None:
        if self.time_field is None:
            return None
        return Clock(self.time_field, self.time_unit, self.timezone, self.granularity, *self.hours)

    @property
    def hours(self) -> tuple[int | None, int | None]:
        """The half-open range of hours."""
        return parse_range(self.start_date, self.end_date, self.datetime_format, self.timezone)

    @model_validator(mode="after")
    def _fit_together(self) -> Self:
        try:
            Compression.parse(self.compression)
            _ = self.hours
        except ConfigError as error:
            raise ValueError(str(error)) from None
        for problem in self._misplaced():
            raise ValueError(problem)
        return self

    def _misplaced(self) -> list[str]:
        is_online = self.time_field is not None
        problems = []
        for name in ("time_unit", "timezone", "start_date", "end_date", "datetime_format", "granularity"):
            if name in self.model_fields_set and getattr(self, name) is not None and not is_online:
                problems.append(f"{name} needs time_field")
        if self.shuffle is not None and is_online:
            problems.append("shuffle and time_field exclude each other: a table is shuffled or sorted by time")
        if self.tables and not is_online and self.pivot_column is None:
            problems.append("tables without time_field need pivot_column to be joined by")
        if self.stability_column is not None and not is_online and self.pivot_column is None:
            problems.append("stability_column needs time_field or pivot_column")
        return problems
