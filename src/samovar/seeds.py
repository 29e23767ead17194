"""The only source of randomness: every generator is made here, from a seed and the purpose it serves.

Knows nothing of what is drawn. What a generator gives depends on (seed, purpose, indices) alone, never on
what was drawn before it, so a resumed run and a straight one see the same numbers.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from samovar.errors import BadInput
from samovar.native import hash_bytes, to_word

if TYPE_CHECKING:
    import torch


def derive(seed: int, purpose: str, *indices: int) -> int:
    """A 64-bit seed of its own for each purpose and place. Part of every format: its values never change.

    h = XXH64(purpose in UTF-8, seed=seed); then, for each index, h = XXH64(the index's 8 bytes, seed=h).
    """
    h = hash_bytes(purpose.encode(), seed)
    for index in indices:
        h = hash_bytes(to_word(index).to_bytes(8, "little"), h)
    return h


def numpy_generator(seed: int, purpose: str, *indices: int) -> np.random.Generator:
    return np.random.Generator(np.random.Philox(key=derive(seed, purpose, *indices)))


def torch_generator(seed: int, purpose: str, *indices: int) -> torch.Generator:
    """A generator on the CPU; torch keeps only the low 32 bits of its seed."""
    import torch

    return torch.Generator().manual_seed(derive(seed, purpose, *indices))


def set_seed(seed: int) -> None:
    """Seed the global generators of Python, numpy and torch (CUDA too), for code that draws from them."""
    import torch

    word = to_word(seed)
    random.seed(word)
    np.random.seed(word % 2**32)  # all that numpy's old seeding takes
    torch.manual_seed(word)


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """The global generators seeded for the time of a block, and as they were after it. A CUDA that nobody has used
    is left alone: torch would note the seed for later, with the whole call stack, and nothing could take it back."""
    import torch

    word = to_word(seed)
    before = global_state()
    random.seed(word)
    np.random.seed(word % 2**32)
    torch.default_generator.manual_seed(word)
    if before["torch"]["cuda"] is not None:
        torch.cuda.manual_seed_all(word)
    try:
        yield
    finally:
        set_global_state(before)


def draw_seed() -> int:
    """A new seed, from numpy's global generator: another one each time, unless `set_seed` was called before."""
    high, low = np.random.randint(0, 2**31, 2)
    return int(high) << 31 | int(low)


def global_state() -> dict[str, Any]:
    """The exact state of the global generators, as plain values, arrays and tensors.

    `torch` is None while nobody has imported torch; its `cuda` is None while nobody has used CUDA.
    """
    return {"python": random.getstate(), "numpy": np.random.get_state(legacy=True), "torch": _torch_state()}


def set_global_state(state: dict[str, Any]) -> None:
    """Put back what `global_state` returned; a part that is None is left as it is."""
    if state.keys() != {"python", "numpy", "torch"}:
        raise BadInput(
            f"random state: found the parts {', '.join(map(str, state))}; "
            "expected python, numpy, torch: give what global_state returned"
        )
    if state["torch"] is not None:
        _set_torch_state(state["torch"])
    random.setstate(state["python"])
    np.random.set_state(state["numpy"])


def _torch_state() -> dict[str, Any] | None:
    if "torch" not in sys.modules:
        return None
    import torch

    # Asking an unused CUDA for its state would start it on every device.
    uses_cuda = torch.cuda.is_initialized()  # type: ignore[no-untyped-call]  # torch gives it no types
    return {"cpu": torch.get_rng_state(), "cuda": torch.cuda.get_rng_state_all() if uses_cuda else None}


def _set_torch_state(state: dict[str, Any]) -> None:
    import torch

    cuda = state["cuda"]
    if cuda is not None:
        if len(cuda) != torch.cuda.device_count():
            raise BadInput(
                f"random state: found the generators of {len(cuda)} CUDA devices; this machine has "
                f"{torch.cuda.device_count()}: go on where there are as many"
            )
        torch.cuda.set_rng_state_all(cuda)
    torch.set_rng_state(state["cpu"])
