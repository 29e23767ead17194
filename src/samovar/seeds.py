"""The only source of randomness: every generator is made here, from a seed and a purpose. Knows nothing of what is
drawn.

What a generator gives depends on (seed, purpose, indices) alone and never on earlier draws, so a resumed run sees the
same numbers as an uninterrupted one.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from samovar.errors import BadInput
from samovar.native import hash_bytes, to_word

if TYPE_CHECKING:
    import torch


def derive(seed: int, purpose: str, *indices: int) -> int:
    """A 64-bit seed for one purpose and place. Part of every format: its values never change.

    h = XXH64(purpose in UTF-8, seed=seed); then, for each index, h = XXH64(the index's 8 bytes, seed=h).
    """
    h = hash_bytes(purpose.encode(), seed)
    for index in indices:
        h = hash_bytes(to_word(index).to_bytes(8, "little"), h)
    return h


def numpy_generator(seed: int, purpose: str, *indices: int) -> np.random.Generator:
    """Make a numpy generator for one purpose and place.

    Args:
        seed: Of the run.
        purpose: What is drawn, in words; another purpose gives other numbers.
        *indices: Numbers of the place, such as an epoch and a minibatch.

    Returns:
        A generator that gives the same numbers each time.

    Example:
        >>> int(numpy_generator(0, "split", 3).integers(10)) == int(numpy_generator(0, "split", 3).integers(10))
        True
    """
    return np.random.Generator(np.random.Philox(key=derive(seed, purpose, *indices)))


def torch_generator(seed: int, purpose: str, *indices: int) -> torch.Generator:
    """A torch generator on the CPU for one purpose and place. Torch keeps only the low 32 bits of its seed."""
    import torch

    return torch.Generator().manual_seed(derive(seed, purpose, *indices))


def set_seed(seed: int) -> None:
    """Seed the global generators of Python, numpy and torch, including CUDA.

    Args:
        seed: Any integer that fits into 64 bits, signed or unsigned.

    Raises:
        BadInput: The seed does not fit into 64 bits.

    Example:
        >>> samovar.set_seed(42)
        >>> weights = torch.randn(3)
    """
    import torch

    word = to_word(seed)
    random.seed(word)
    np.random.seed(word % 2**32)  # the legacy seeding takes 32 bits
    torch.manual_seed(word)


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Seed the global generators inside a block, and restore them after it."""
    with reseeding() as reseed:
        reseed(seed)
        yield


@contextmanager
def reseeding() -> Iterator[Callable[[int], None]]:
    """Inside a block, seed the global generators as often as needed with the function given; restore them after it.

    CUDA is left alone if it was never used: torch would store the seed for later, with the call stack, and that
    cannot be undone.
    """
    import torch

    before = global_state()

    def reseed(seed: int) -> None:
        word = to_word(seed)
        random.seed(word)
        np.random.seed(word % 2**32)
        torch.default_generator.manual_seed(word)
        if before["torch"]["cuda"] is not None:
            torch.cuda.manual_seed_all(word)

    try:
        yield reseed
    finally:
        set_global_state(before)


def draw_seed() -> int:
    """A new seed from numpy's global generator: a different one each time, unless `set_seed` was called before."""
    high, low = np.random.randint(0, 2**31, 2)
    return int(high) << 31 | int(low)


def global_state() -> dict[str, Any]:
    """The exact state of the global generators, as plain values, arrays and tensors.

    `torch` is None if torch is not imported; its `cuda` is None if CUDA is not in use.
    """
    return {"python": random.getstate(), "numpy": np.random.get_state(legacy=True), "torch": _torch_state()}


def set_global_state(state: dict[str, Any]) -> None:
    """Restore what `global_state` returned; a part that is None is left as it is."""
    if state.keys() != {"python", "numpy", "torch"}:
        raise BadInput(
            f"random state must have the parts python, numpy and torch, got {', '.join(map(str, state))}. "
            "Pass what global_state returned"
        )
    if state["torch"] is not None:
        _set_torch_state(state["torch"])
    random.setstate(state["python"])
    np.random.set_state(state["numpy"])


def _torch_state() -> dict[str, Any] | None:
    if "torch" not in sys.modules:
        return None
    import torch

    # Asking for the state of an unused CUDA would initialise it on every device.
    uses_cuda = torch.cuda.is_initialized()  # type: ignore[no-untyped-call]  # torch does not type it
    return {"cpu": torch.get_rng_state(), "cuda": torch.cuda.get_rng_state_all() if uses_cuda else None}


def _set_torch_state(state: dict[str, Any]) -> None:
    import torch

    cuda = state["cuda"]
    if cuda is not None:
        if len(cuda) != torch.cuda.device_count():
            raise BadInput(
                f"random state has generators of {len(cuda)} CUDA devices, but this machine has "
                f"{torch.cuda.device_count()}. Resume on a machine with the same number"
            )
        torch.cuda.set_rng_state_all(cuda)
    torch.set_rng_state(state["cpu"])
