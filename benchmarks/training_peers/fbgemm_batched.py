"""FBGEMM's table-batched embeddings on the CPU, fed by Arrow in batches.

python -m benchmarks.training_peers.fbgemm_batched FOLDER NUM_BATCHES: takes turns
"""

import importlib
import logging
import sys
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import torch
from benchmarks.contest.clicks import CATEGORICAL
from benchmarks.loaders.arrow import ROWS_PER_GROUP, read_parquet
from benchmarks.loaders.base import Batch
from benchmarks.training_peers.base import DIM, EMBEDDING_LR, NUM_FOLDED, Peer, serve
from benchmarks.training_peers.data import BATCHED

NAME = "FBGEMM, batched Arrow loader"
BF16 = f"{NAME}, bf16"
COMPILED = f"{NAME}, compiled"


def make_embedding() -> Callable[[Batch], torch.Tensor]:
    """Its optimizer is fused into the backward pass."""
    operators: Any = importlib.import_module("fbgemm_gpu.split_table_batched_embeddings_ops_training")
    spec = (NUM_FOLDED, DIM, operators.EmbeddingLocation.HOST, operators.ComputeDevice.CPU)
    module = operators.SplitTableBatchedEmbeddingBagsCodegen(
        [spec] * len(CATEGORICAL), optimizer=operators.OptimType.EXACT_ADAGRAD, learning_rate=EMBEDDING_LR
    )
    module.init_embedding_weights_uniform(-0.01, 0.01)

    def embed(ids: Batch) -> torch.Tensor:
        offsets = torch.nn.functional.pad(torch.cat(tuple(ids[1::2])).cumsum(0), (1, 0))
        embedded: torch.Tensor = module(torch.cat(tuple(ids[::2])), offsets)
        return embedded

    return embed


def main(folder: Path, num_batches: int) -> None:
    warnings.filterwarnings("ignore", module="fbgemm_gpu|torch.jit")
    logging.disable(logging.WARNING)
    embed = make_embedding()  # shared, because its tables are large; losses are lower where rows were seen before
    peers = {
        NAME: Peer(embed, []),
        BF16: Peer(embed, [], is_bf16=True),
        COMPILED: Peer(embed, [], is_compiled=True),
    }

    def train(peer: Peer) -> Iterator[float]:
        return map(peer.step, read_parquet(folder / BATCHED, ROWS_PER_GROUP))

    serve({name: partial(train, peer) for name, peer in peers.items()}, dict.fromkeys(peers, num_batches))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
