"""The changes that an experiment asks for: grid, list, random samples. Pure: the same document, the same changes."""

import itertools
import json
import math
from collections.abc import Iterator
from typing import Any

from samovar.experiments.grid.document import Experiment, RandomSamples, Values
from samovar.seeds import numpy_generator

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
