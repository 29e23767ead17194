"""What every contestant of benchmarks/trainer.py trains: data, net, optimizer, order. Measures no time."""

import numpy as np
import torch
from torch import nn

from samovar.seeds import numpy_generator, set_seed
from samovar.trainer import Lookahead

BATCH = 100
RATE = 1e-3
Data = tuple[torch.Tensor, torch.Tensor]


def make_data(rows: int) -> Data:
    x = numpy_generator(1, "benchmark").standard_normal((rows, 784), np.float32)
    return torch.from_numpy(x), torch.from_numpy(np.abs(x[:, 0] * 3).astype(np.int64) % 10)


def make_net() -> nn.Module:
    set_seed(0)
    return nn.Sequential(nn.Linear(784, 128), nn.ReLU(), nn.Linear(128, 10))


def make_optimizer(net: nn.Module) -> Lookahead:
    return Lookahead(torch.optim.RAdam(net.parameters(), lr=RATE))


def order_of(rows: int) -> torch.Tensor:
    return torch.from_numpy(numpy_generator(0, "order", 0, 0).permutation(rows))
