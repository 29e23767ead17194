"""Data sets for the facades: MNIST files, arrays and frames, any torch data set, splits. Knows no training."""

from samovar.data.arrays import ArrayDataset
from samovar.data.batches import BatchMaker
from samovar.data.mnist import MNIST
from samovar.data.split import Split, split_examples

__all__ = ["MNIST", "ArrayDataset", "BatchMaker", "Split", "split_examples"]
