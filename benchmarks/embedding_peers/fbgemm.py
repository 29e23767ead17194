"""FBGEMM's table-batched embeddings on the CPU: tables of a fixed size, the optimizer fused into the backward pass."""

import importlib
from typing import Any

import torch
from benchmarks.embedding_peers.base import DIM, LR, NUM_TABLES, Contestant, join

ADAGRAD = "FBGEMM TBE, exact Adagrad"
ROWWISE = "FBGEMM TBE, row-wise Adagrad"
SGD = "FBGEMM TBE, SGD"
_OPTIMIZERS = {ADAGRAD: "EXACT_ADAGRAD", ROWWISE: "EXACT_ROWWISE_ADAGRAD", SGD: "EXACT_SGD"}


def make_contestant(name: str, num_ids: int) -> Contestant:
    """Its output is one tensor of [B, 26 * 16]; int32 ids were no faster."""
    operators: Any = importlib.import_module("fbgemm_gpu.split_table_batched_embeddings_ops_training")
    spec = (num_ids, DIM, operators.EmbeddingLocation.HOST, operators.ComputeDevice.CPU)
    module = operators.SplitTableBatchedEmbeddingBagsCodegen(
        [spec] * NUM_TABLES, optimizer=operators.OptimType[_OPTIMIZERS[name]], learning_rate=LR
    )
    module.init_embedding_weights_uniform(-0.01, 0.01)

    def step(inputs: tuple[torch.Tensor, torch.Tensor], gradient: torch.Tensor) -> None:
        module(*inputs).backward(gradient)

    return Contestant(name, join, step, num_ids)
