"""The first call of torch's vectorized functions (sqrt, exp, sin…), made by one thread. Knows no models.

The library behind them sets itself up at its first call. When two threads make it at once, one of them may compute its
share to four digits instead of seven: on two cores in about one process of 700. A first step of Adam that meets this
makes a run that differs from all others.
"""

import torch


def settle_vector_math() -> None:
    for dtype in (torch.float32, torch.float64):
        torch.sqrt(torch.ones(1, dtype=dtype, device="cpu"))
