"""What stands in an experiment's file. Knows how it is checked, not how it is run.

The changes that an experiment asks for: grid, list, random samples. Pure: the same document, the same changes.
"""

import itertools
import json
import math
from collections.abc import Iterator
from typing import Annotated, Any, Literal, Self

from pydantic import Field, PositiveInt, field_validator, model_validator

from samovar.config import Schema
from samovar.seeds import numpy_generator
from samovar.sweep.table import split_column

_Whole = int  # in the section below that name is a key
Scale = Literal["choice", "uniform", "log_uniform", "int"]


class Values(Schema):
    """Where one key's random values come from: exactly one of these."""

    choice: tuple[Any, ...] | None = None
    """One of a list, each as likely."""
    uniform: tuple[float, float] | None = None
    """A number between two."""
    log_uniform: tuple[float, float] | None = None
    """A number between two above zero, as likely to be in one decade as in the next."""
    int: tuple[_Whole, _Whole] | None = None
    """A whole number between two, both included."""

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
    def _is_one_that_can_be_drawn(self) -> Self:
        given = [scale for scale, _ in self._given()]
        if len(given) != 1:
            found = " and ".join(given) or "nothing"
            raise ValueError(f"found {found}, expected one of choice, uniform, log_uniform, int: keep one")
        scale, values = self.scale
        if scale == "choice" and not values:
            raise ValueError("found an empty list, expected at least one value: fill it")
        if scale != "choice" and not values[0] <= values[1]:
            raise ValueError(f"found {values[0]} before {values[1]}, expected the lower first: swap them")
        if scale == "log_uniform" and values[0] <= 0:
            raise ValueError(f"found {values[0]}, expected numbers above zero: change it, or use uniform")
        return self


class RandomSamples(Schema):
    count: PositiveInt
    """How many; a larger count later keeps those that were there."""
    values: dict[str, Values]
    """Config keys, such as `model.lr`, and where their values come from."""
    seed: int = 0
    """Another seed, other samples."""


class Experiment(Schema):
    base: str | dict[str, Any]
    """The config that all parts share: a file, relative to this one, or the config itself."""
    script: str | None = None
    """A Python file, for train and run; relative to this file."""
    kind: Literal["train", "brew", "predict", "run"] = "train"
    """What is done with each config."""
    out: str | None = None
    """Directory of the experiment, relative to this file; the file's name without its ending when absent."""
    grid: dict[str, Annotated[tuple[Any, ...], Field(min_length=1)]] = Field(default_factory=dict)
    """Config keys and lists of their values: every combination is a part."""
    list: tuple[dict[str, Any], ...] = ()
    """Changes, as `--conf` takes them: each is a part."""
    random: RandomSamples | None = None
    """Changes drawn at random: each is a part."""
    evaluation: dict[str, Any] | None = None
    """Merged into the section of that name in every config."""
    metrics: tuple[str, ...] | None = None
    """Columns of the table, such as `loss`, `ahead.auc`, `ahead.auc:last`; all losses, AUCs and log-losses when
    absent."""
    priority: int = 0
    """Of the jobs; higher ones are done first."""
    max_attempts: PositiveInt = 3
    """Failures and dead workers until a part is given up."""

    @field_validator("metrics")
    @classmethod
    def _can_be_read(cls, columns: tuple[str, ...] | None) -> tuple[str, ...] | None:
        for column in columns or ():
            split_column(column)
        return columns


Change = dict[str, Any]
_SIGNIFICANT_DIGITS = 4


def list_changes(experiment: Experiment) -> list[Change]:
    """In the order grid, list, random; each once. Without any of them the base itself is the only part."""
    wanted = [*_grid(experiment), *experiment.list, *(_draw(experiment.random) if experiment.random else ())]
    return list({json.dumps(change, sort_keys=True): change for change in wanted or [{}]}.values())


def _grid(experiment: Experiment) -> Iterator[Change]:
    if experiment.grid:
        for values in itertools.product(*experiment.grid.values()):
            yield dict(zip(experiment.grid, values, strict=True))


def _draw(samples: RandomSamples) -> Iterator[Change]:
    """A value depends on (seed, key, number of the sample) alone: more samples, or more keys, change no other."""
    for number in range(samples.count):
        yield {key: _value(values, samples.seed, key, number) for key, values in samples.values.items()}


def _value(values: Values, seed: int, key: str, number: int) -> Any:
    generator = numpy_generator(seed, f"experiment {key}", number)
    scale, given = values.scale
    if scale == "choice":
        return given[int(generator.integers(len(given)))]
    low, high = given
    if scale == "int":
        return int(generator.integers(low, high + 1))
    if scale == "uniform":
        return _rounded(float(generator.uniform(low, high)), low, high)
    return _rounded(math.exp(float(generator.uniform(math.log(low), math.log(high)))), low, high)


def _rounded(number: float, low: float, high: float) -> float:
    """Few digits: people read, type and compare these numbers."""
    return min(max(float(f"{number:.{_SIGNIFICANT_DIGITS}g}"), low), high)
