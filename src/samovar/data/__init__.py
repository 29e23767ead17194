"""Data sets for the facades: MNIST files, arrays and frames, any torch data set, splits. Knows no training."""

from samovar.data.arrays import ArrayDataset, Split, split_examples
from samovar.data.batches import BatchMaker
from samovar.data.mnist import MNIST

__all__ = ["MNIST", "ArrayDataset", "BatchMaker", "Split", "split_examples"]
