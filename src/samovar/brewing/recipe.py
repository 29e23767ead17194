"""The recipe of a tensor table: the config of `samovar brew`. Knows its keys and what they exclude; opens no files.

Sizes as people write them.
"""

import re
from typing import Annotated, Literal, Self

from pydantic import Field, PositiveInt, model_validator

from samovar.brewing.columns import Factors, find_repeated
from samovar.brewing.order import Clock, Order
from samovar.brewing.text import MAX_RUN
from samovar.config import Schema
from samovar.errors import ConfigError
from samovar.hours import parse_range
from samovar.tables.cell import Compression

_UNITS = {"": 1, "B": 1}
_UNITS |= {f"{prefix}B": 1000**power for power, prefix in enumerate("KMGT", 1)}
_UNITS |= {f"{prefix}iB": 1024**power for power, prefix in enumerate("KMGT", 1)}


def parse_size(size: str | int | None) -> int | None:
    """Bytes: a number, or a text such as '2GB' (10**9) or '512MiB' (2**20)."""
    if size is None:
        return None
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(\w*)", str(size).strip())
    units = {unit.upper(): factor for unit, factor in _UNITS.items()}
    if found is None or found[2].upper() not in units or float(found[1]) == 0:
        raise ConfigError(f"memory_limit: found {size!r}, expected bytes or a text such as '2GB' or '512MiB': mend it")
    return int(float(found[1]) * units[found[2].upper()])


class TextOptions(Schema):
    words: Annotated[int, Field(ge=1, le=MAX_RUN)] | None = None
    """Words, and runs of up to so many neighbouring words."""
    ngrams: Annotated[int, Field(ge=1, le=MAX_RUN)] | None = None
    """Runs of so many characters."""
    lower: bool = True
    """Whether capitals count as small letters."""

    @model_validator(mode="after")
    def _ask_for_something(self) -> Self:
        if self.words is None and self.ngrams is None:
            raise ValueError('asks for no tokens, expected "words" or "ngrams": give one of them')
        return self


class ShuffleOptions(Schema):
    seed: int = Field(default=0, ge=0, lt=2**64)
    """Another seed, another order."""


class RecipeTable(Schema):
    """A source, and what becomes of its columns."""

    source: str | tuple[str, ...]
    """Paths or globs of Parquet, CSV, JSON lines or Arrow files, relative to the recipe."""
    categorical_factors: tuple[str, ...] = ()
    """Integers or (nested) lists of them: ids; the last list level is a bag."""
    realvalue_factors: tuple[str, ...] = ()
    """Numbers or (nested) lists of them: a dense tensor."""
    unravelled_categorical_factors: tuple[str, ...] = ()
    """Lists of ids whose last level is a sequence."""
    hashed_factors: tuple[str, ...] = ()
    """Strings or lists of them: each is an id by its hash."""
    text_factors: dict[str, TextOptions] = Field(default_factory=dict)
    """Texts, as bags of words or n-grams."""
    keys: tuple[str, ...] = ()
    """Single values that are kept as they are; they may repeat factors."""

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
            raise ValueError("no factors and no keys, expected at least one column: fill categorical_factors")
        return self


class Recipe(RecipeTable):
    result: str | None = None
    """Directory of the table, relative to the recipe; the recipe's name without its ending when absent."""
    time_field: str | None = None
    """Column of the rows' time; without it the table is an offline one, in the order of its source."""
    time_unit: Literal["seconds", "milliseconds", "timestamp"] | None = None
    """Inferred from the type and the size of the numbers when absent."""
    timezone: str | None = None
    """Of timestamps and dates that name none; UTC when absent."""
    start_date: str | None = None
    """First hour that is taken."""
    end_date: str | None = None
    """First hour that is not taken any more."""
    datetime_format: str | None = None
    """Of start_date and end_date; ISO when absent."""
    granularity: PositiveInt = 300
    """Seconds of a granule, counted from the start of the hour."""
    batch_size: PositiveInt = 1024
    """Rows of a minibatch; the last one of an hour may be shorter, one with a pivot longer."""
    pivot_column: str | None = None
    """Rows with one value of it in a granule stay together in a minibatch."""
    stability_column: str | None = None
    """Orders the rows of a group; joined tables need it to tell rows apart."""
    tables: tuple[RecipeTable, ...] = ()
    """More tables with exactly the same rows, joined one to one."""
    memory_limit: str | PositiveInt | None = None
    """Bytes, or a text such as 2GB: what sorting may use."""
    shuffle: ShuffleOptions | None = None
    """Order of an offline table."""
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
        """The range of hours, half-open."""
        return parse_range(self.start_date, self.end_date, self.datetime_format, self.timezone)

    @model_validator(mode="after")
    def _fit_together(self) -> Self:
        try:
            parse_size(self.memory_limit)
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
                problems.append(f"{name} stands without time_field, expected both: name the column, or remove {name}")
        if self.shuffle is not None and is_online:
            problems.append(
                "shuffle stands beside time_field; a table is sorted by time or shuffled: remove one of them"
            )
        if self.tables and not is_online and self.pivot_column is None:
            problems.append("tables of an offline recipe are joined by pivot_column, which is missing: name it")
        if self.stability_column is not None and not is_online and self.pivot_column is None:
            problems.append(
                "stability_column orders rows of a group, but pivot_column is missing: name it, or remove it"
            )
        return problems
