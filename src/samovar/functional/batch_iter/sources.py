"""Endless sources: a function that draws one item with the generator that it is given. It keeps no place of its own."""

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from samovar.errors import BadInput

Source: TypeAlias = Callable[[np.random.Generator], Any]


class sample:  # users call it like a function
    """Draws elements of a sequence, with equal chances or by weights."""

    def __init__(self, sequence: Sequence[Any], weights: Sequence[float] | None = None) -> None:
        if len(sequence) == 0:
            raise BadInput("sample: the sequence is empty; expected something to draw from: give some ids")
        self._sequence = sequence
        self._ends: Any = None
        if weights is not None:
            shares = np.asarray(weights, np.float64)
            if len(shares) != len(sequence) or not (shares >= 0).all() or not shares.sum() > 0:
                raise BadInput(
                    f"sample: found {len(shares)} weights for {len(sequence)} elements; expected one a element, none "
                    "below 0 and some above: mend the weights"
                )
            self._ends = np.cumsum(shares / shares.sum())

    def __call__(self, random: np.random.Generator) -> Any:
        if self._ends is None:
            return self._sequence[int(random.integers(len(self._sequence)))]
        place = int(np.searchsorted(self._ends, random.random(), side="right"))
        return self._sequence[min(place, len(self._sequence) - 1)]


class load_by_random_id:  # users call it like a function
    """Draws an id and gives what each loader returns for it, as a tuple."""

    def __init__(
        self, *loaders: Callable[[Any], Any], ids: Sequence[Any], weights: Sequence[float] | None = None
    ) -> None:
        if not loaders:
            raise BadInput("load_by_random_id: no loaders; expected functions of an id: give at least one")
        self._loaders = loaders
        self._sample = sample(ids, weights)

    def __call__(self, random: np.random.Generator) -> tuple[Any, ...]:
        chosen = self._sample(random)
        try:
            return tuple(load(chosen) for load in self._loaders)
        except Exception as error:
            error.add_note(f"while loading the item of id {chosen!r}")
            raise
