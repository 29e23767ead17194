"""TorchRec's zero collision hashing (ZCH), the other dynamic table, with fused Adagrad.

It admits new ids and evicts old ones only every EVICTION_INTERVAL steps; until then new ids share one embedding row. It
sorts all ids each time, so its speed depends on this interval.
"""

import importlib
from typing import Any

import numpy as np
import torch
from benchmarks.embedding_peers.base import (
    DIM,
    LR,
    NUM_TABLES,
    Batch,
    Contestant,
    hash_ids,
    join,
    name_features,
    popular_ids,
)
from numpy.typing import NDArray

EVICTION_INTERVAL = 10
ZCH = f"TorchRec ZCH, evicts every {EVICTION_INTERVAL} steps"
_POSITIVE = (1 << 62) - 1


def make_contestant(is_full: bool, num_ids: int) -> Contestant:
    features = name_features(NUM_TABLES)
    torchrec: Any = importlib.import_module("torchrec")
    fused: Any = importlib.import_module("torchrec.modules.fused_embedding_modules")
    configs = [
        torchrec.EmbeddingBagConfig(name=f"t_{name}", embedding_dim=DIM, num_embeddings=num_ids, feature_names=[name])
        for name in features
    ]
    tables = fused.FusedEmbeddingBagCollection(configs, torch.optim.Adagrad, {"lr": LR})
    collisions = _make_collisions(configs, is_full, num_ids)

    def step(inputs: Any, gradient: torch.Tensor) -> None:
        tables(collisions(inputs)).values().backward(gradient)

    def prepare(batch: Batch) -> Any:
        hashes = [_positive_hashes(ids, feature) for feature, ids in enumerate(batch.ids)]
        return torchrec.KeyedJaggedTensor(
            keys=features, values=torch.from_numpy(np.concatenate(hashes)), offsets=join(batch)[1]
        )

    return Contestant(ZCH, prepare, step, num_ids)


def _make_collisions(configs: list[Any], is_full: bool, num_ids: int) -> Any:
    modules: Any = importlib.import_module("torchrec.modules.mc_modules")
    parts = {
        config.name: modules.MCHManagedCollisionModule(
            zch_size=num_ids,
            device=torch.device("cpu"),
            eviction_policy=modules.DistanceLFU_EvictionPolicy(),
            eviction_interval=EVICTION_INTERVAL,
        )
        for config in configs
    }
    for feature, part in enumerate(parts.values()):
        if is_full:  # its last embedding row is the one that new ids share
            hashes = np.sort(_positive_hashes(popular_ids(num_ids)[:-1], feature))
            part._mch_sorted_raw_ids[:-1] = torch.from_numpy(hashes)
    collisions = modules.ManagedCollisionCollection(parts, configs)
    collisions.train()
    return collisions


def _positive_hashes(ids: NDArray[np.int32], feature: int) -> NDArray[np.int64]:
    """A free place in its sorted list is the largest int64."""
    return hash_ids(ids, feature).view(np.int64) & np.int64(_POSITIVE)
