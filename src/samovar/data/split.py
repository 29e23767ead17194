"""Which examples are trained on and which are held out. Knows numbers of examples only."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from samovar.errors import BadInput
from samovar.native import hash_integers
from samovar.seeds import derive

Indices = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Split:
    """The numbers of the examples to train on, and of those to judge by."""

    train: Indices
    valid: Indices


def split_examples(num_examples: int, train_prop: float, shuffle: bool) -> Split:
    """With `shuffle`, by a fixed hash of each index: the same in every run, and rows appended later move no old one.
    Without, head and tail."""
    if not 0 < train_prop < 1:
        raise BadInput(
            f"train_prop: found {train_prop}; expected a part between 0 and 1, both ends excluded: some examples must "
            "be left to measure with"
        )
    indices = np.arange(num_examples, dtype=np.int64)
    if shuffle:
        is_train = hash_integers(indices, derive(0, "split")) < np.uint64(int(train_prop * 2**64))
    else:
        is_train = indices < round(num_examples * train_prop)
    split = Split(indices[is_train], indices[~is_train])
    for name, part in (("training", split.train), ("validation", split.valid)):
        if len(part) == 0:
            raise BadInput(
                f"split: the {name} part of {num_examples} examples is empty with train_prop={train_prop}; expected "
                "both parts to have some: give more examples, or another train_prop"
            )
    return split
