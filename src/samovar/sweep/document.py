"""The experiment file: its schema, and the changes it asks for as a grid, a list and random samples. Pure: the same
document gives the same changes. Does not know how they are run.
"""

import itertools
import json
import math
from collections.abc import Iterator
from typing import Annotated, Any, Literal, Self

from pydantic import Field, PositiveInt, field_validator, model_validator

from samovar.config import Schema
from samovar.runs.metrics import split_reduction
from samovar.seeds import numpy_generator

_Int = int  # in `Values`, `int` is a key
MAX_PARTS = 100_000
Scale = Literal["choice", "uniform", "log_uniform", "int"]


class Values(Schema):
    """The distribution of one key's random values: exactly one of these."""

    choice: tuple[Any, ...] | None = None
    """One of these values, each equally likely."""
    uniform: tuple[float, float] | None = None
    """A number between these two."""
    log_uniform: tuple[float, float] | None = None
    """A number between these two, both above zero, equally likely in each decade."""
    int: tuple[_Int, _Int] | None = None
    """An integer between these two, both included."""

    @property
    def scale(self) -> tuple[Scale, tuple[Any, ...]]:
        [found] = self._given()
        return found

    def _given(self) -> list[tuple[Scale, tuple[Any, ...]]]:
        scales: dict[Scale, tuple[Any, ...] | None] = {
            "choice": self.choice,
            "uniform": self.uniform,
            "log_uniform": self.log_uniform,
            "int": self.int,
        }
        return [(scale, values) for scale, values in scales.items() if values is not None]

    @model_validator(mode="after")
    def _check_one_valid_scale(self) -> Self:
        given = [scale for scale, _ in self._given()]
        if len(given) != 1:
            raise ValueError(f"give exactly one of choice, uniform, log_uniform, int; got {', '.join(given) or 'none'}")
        scale, values = self.scale
        if scale == "choice" and not values:
            raise ValueError("choice needs at least one value, got an empty list")
        if scale != "choice" and not values[0] <= values[1]:
            raise ValueError(f"the lower bound must come first, got [{values[0]}, {values[1]}]")
        if scale == "int" and not -(2**63) <= values[0] <= values[1] < 2**63:
            raise ValueError(f"int needs bounds of 64 bits, got [{values[0]}, {values[1]}]")
        if scale in ("uniform", "log_uniform") and not math.isfinite(values[1] - values[0]):
            raise ValueError(f"the bounds must be finite and closer together, got [{values[0]}, {values[1]}]")
        if scale == "log_uniform" and values[0] <= 0:
            raise ValueError(f"log_uniform needs bounds above 0, got {values[0]}")
        return self


class RandomSamples(Schema):
    count: PositiveInt
    """How many samples; raising it later keeps the samples that exist."""
    values: dict[str, Values]
    """Config keys, such as `model.lr`, and how their values are drawn."""
    seed: int = 0
    """Another seed gives other samples."""


class Experiment(Schema):
    base: str | dict[str, Any]
    """The config that all parts share: a file, relative to this one, or the config itself."""
    script: str | None = None
    """A Python file, for train and run; relative to this file."""
    kind: Literal["train", "brew", "predict", "run"] = "train"
    """The command that runs each config."""
    out: str | None = None
    """Directory of the experiment, relative to this file; the file's name without its extension if absent."""
    grid: dict[str, Annotated[tuple[Any, ...], Field(min_length=1)]] = Field(default_factory=dict)
    """Config keys and lists of values: every combination is a part."""
    list: tuple[dict[str, Any], ...] = ()
    """Changes, as `--conf` takes them: each is a part."""
    random: RandomSamples | None = None
    """Changes drawn at random: each is a part."""
    evaluation: dict[str, Any] | None = None
    """Merged into the section of that name in every config."""
    metrics: tuple[str, ...] | None = None
    """Columns of the table, such as `loss`, `ahead.auc`, `ahead.auc:last`; all losses and main metrics if
    absent."""
    priority: int = 0
    """Of the jobs; higher priorities run first."""
    max_attempts: PositiveInt = 3
    """Failures and dead workers before a part counts as failed."""

    @field_validator("metrics")
    @classmethod
    def _check_reductions(cls, columns: tuple[str, ...] | None) -> tuple[str, ...] | None:
        for column in columns or ():
            split_reduction(column)
        return columns

    @model_validator(mode="after")
    def _check_number_of_parts(self) -> Self:
        in_grid = math.prod(map(len, self.grid.values())) if self.grid else 0
        count = in_grid + len(self.list) + (self.random.count if self.random else 0)
        if count > MAX_PARTS:
            raise ValueError(f"an experiment has at most {MAX_PARTS:,} parts, got {count:,}")
        return self


Change = dict[str, Any]
_SIGNIFICANT_DIGITS = 4


def list_changes(experiment: Experiment) -> list[Change]:
    """In the order grid, list, random, each change once. Without any, the base itself is the only part."""
    changes = [*_grid(experiment), *experiment.list, *(_draw(experiment.random) if experiment.random else ())]
    return list({json.dumps(change, sort_keys=True): change for change in changes or [{}]}.values())


def _grid(experiment: Experiment) -> Iterator[Change]:
    if experiment.grid:
        for values in itertools.product(*experiment.grid.values()):
            yield dict(zip(experiment.grid, values, strict=True))


def _draw(samples: RandomSamples) -> Iterator[Change]:
    """A value depends only on (seed, key, number of the sample): more samples or keys change no other value."""
    for number in range(samples.count):
        yield {key: _draw_value(values, samples.seed, key, number) for key, values in samples.values.items()}


def _draw_value(values: Values, seed: int, key: str, number: int) -> Any:
    generator = numpy_generator(seed, f"experiment {key}", number)
    scale, given = values.scale
    if scale == "choice":
        return given[int(generator.integers(len(given)))]
    low, high = given
    if scale == "int":
        return int(generator.integers(low, high + 1))
    if scale == "uniform":
        return _round(float(generator.uniform(low, high)), low, high)
    return _round(math.exp(float(generator.uniform(math.log(low), math.log(high)))), low, high)


def _round(number: float, low: float, high: float) -> float:
    """To few digits, because people read, type and compare these numbers."""
    return min(max(float(f"{number:.{_SIGNIFICANT_DIGITS}g}"), low), high)
