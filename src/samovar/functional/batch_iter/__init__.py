"""Where `train_model` gets minibatches: endless sources of random items, transforms, batches. Knows no models."""

from samovar.functional.batch_iter.base import BatchIter, as_batch_iter
from samovar.functional.batch_iter.infinite import Infinite
from samovar.functional.batch_iter.sources import load_by_random_id, sample
from samovar.functional.batch_iter.transforms import Processes, Threads, apply_at, multiply, unpack_args

__all__ = [
    "BatchIter",
    "Infinite",
    "Processes",
    "Threads",
    "apply_at",
    "as_batch_iter",
    "load_by_random_id",
    "multiply",
    "sample",
    "unpack_args",
]
