"""Data sets for the facades: arrays and frames, any torch data set, MNIST files. Knows no training."""

from samovar.data.batches import BatchMaker
from samovar.data.examples import ArrayDataset, Split, split_examples
from samovar.data.mnist import MNIST

__all__ = ["MNIST", "ArrayDataset", "BatchMaker", "Split", "split_examples"]
