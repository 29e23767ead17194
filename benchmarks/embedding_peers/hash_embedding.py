"""Samovar's HashEmbedding as a contestant: plain ids, or the distinct ids and positions that a tensor table keeps."""

from collections.abc import Mapping
from typing import TypeAlias

import numpy as np
import torch
from benchmarks.embedding_peers.base import DIM, LR, NUM_TABLES, Batch, Contestant, hash_ids, name_features
from numpy.typing import NDArray

from samovar.embeddings import HashAdagrad, HashAdam, HashEmbedding, HashRowwiseAdagrad, HashSGD
from samovar.tables import Bag

PLAIN = "Samovar"
DISTINCT = "Samovar, distinct ids"
IDS_A_CALL = 50_000  # per feature, while tables are filled

Inputs: TypeAlias = Mapping[str, Bag]
Optimizer: TypeAlias = type[HashSGD] | type[HashAdagrad] | type[HashRowwiseAdagrad] | type[HashAdam]


class Trainee:
    """Tables with their optimizer."""

    def __init__(self, optimizer: Optimizer, num_features: int, ttl: int | None = None) -> None:
        self.embedding = HashEmbedding(dict.fromkeys(name_features(num_features), DIM))
        self.optimizer = optimizer(self.embedding, LR, ttl)

    def step(self, inputs: Inputs, gradient: torch.Tensor) -> None:
        """All features side by side in one tensor, as a model's first dense layer takes them."""
        self._train(self.embedding.concat(inputs), gradient)

    def step_joined(self, inputs: Inputs, gradient: torch.Tensor) -> None:
        """One tensor per feature, joined by torch."""
        self._train(torch.cat(list(self.embedding(inputs).values()), 1), gradient)

    def _train(self, output: torch.Tensor, gradient: torch.Tensor) -> None:
        self.optimizer.zero_grad()
        output.backward(gradient)  # type: ignore[no-untyped-call]  # torch gives it no types
        self.optimizer.step()

    def insert(self, ids: NDArray[np.int32]) -> None:
        """The same ids for every feature, in one bag each."""
        for part in np.split(ids, range(IDS_A_CALL, len(ids), IDS_A_CALL)):
            length = torch.tensor([len(part)], dtype=torch.int32)
            names = enumerate(self.embedding.table_names)
            self.embedding({name: Bag(_as_tensor(hash_ids(part, feature)), length) for feature, name in names})
        self.optimizer.zero_grad()


def make_trainee(optimizer: Optimizer, num_ids: int, num_features: int = NUM_TABLES) -> Trainee:
    """With `num_ids` ids in each table."""
    trainee = Trainee(optimizer, num_features)
    trainee.insert(np.arange(num_ids, dtype=np.int32))  # by number, so popular ids are anywhere
    return trainee


def make_contestant(name: str, optimizer: Optimizer, is_full: bool, num_ids: int) -> Contestant:
    trainee = make_trainee(optimizer, num_ids if is_full else 0)
    prepare = prepare_distinct if name == DISTINCT else prepare_plain
    return Contestant(name, prepare, trainee.step, num_ids, grows=not is_full)


def prepare_plain(batch: Batch) -> Inputs:
    columns = zip(name_features(len(batch.ids)), batch.ids, batch.lengths, strict=True)
    return {
        name: Bag(_as_tensor(hash_ids(ids, feature)), torch.from_numpy(lengths))
        for feature, (name, ids, lengths) in enumerate(columns)
    }


def prepare_distinct(batch: Batch) -> Inputs:
    columns = zip(name_features(len(batch.ids)), batch.ids, batch.lengths, strict=True)
    return {name: _distinct_bag(ids, lengths, feature) for feature, (name, ids, lengths) in enumerate(columns)}


def _distinct_bag(ids: NDArray[np.int32], lengths: NDArray[np.int32], feature: int) -> Bag:
    """In order of first sight, as in a table's cell."""
    distinct, first, inverse = np.unique(ids, return_index=True, return_inverse=True)
    order = np.argsort(first)
    places = np.empty(len(order), np.int32)
    places[order] = np.arange(len(order))
    positions = torch.from_numpy(places[inverse])
    return Bag.of_distinct(_as_tensor(hash_ids(distinct[order], feature)), positions, torch.from_numpy(lengths))


def _as_tensor(hashes: NDArray[np.uint64]) -> torch.Tensor:
    return torch.from_numpy(hashes.view(np.int64))
