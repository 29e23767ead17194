"""The net of this example, shared by all stages that need it."""

from pathlib import Path

import numpy as np
import torch
from torch import nn

from samovar import Params


def make_net(params: Params, num_pixels: int, num_shapes: int) -> nn.Module:
    """An old config does not name newer options and still gets its own architecture."""
    hidden = params.get("hidden", 16)
    if params.get("arch", "baseline") == "baseline":
        return nn.Sequential(nn.Flatten(), nn.Linear(num_pixels, hidden), nn.ReLU(), nn.Linear(hidden, num_shapes))
    first, second = nn.Linear(num_pixels, hidden), nn.Linear(hidden, hidden)
    return nn.Sequential(nn.Flatten(), first, nn.ReLU(), second, nn.ReLU(), nn.Linear(hidden, num_shapes))


def load_net(weights: Path, params: Params) -> nn.Module:
    """The net as it was trained."""
    arrays = dict(np.load(weights))
    names = [name for name in arrays if name.endswith("weight")]
    net = make_net(params, arrays[names[0]].shape[1], arrays[names[-1]].shape[0])
    net.load_state_dict({name: torch.from_numpy(array) for name, array in arrays.items()})
    return net.eval()
