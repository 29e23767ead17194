"""The C++ core. Only samovar.native imports it."""

from typing import Annotated, overload

import numpy
from numpy.typing import NDArray


def hash_bytes(data: object | None, seed: int) -> int:
    """XXH64 of one contiguous bytes-like object."""

def hash_integers(values: Annotated[NDArray[numpy.uint64], dict(shape=(None,), order='C', device='cpu', writable=False)], seed: int, out: Annotated[NDArray[numpy.uint64], dict(shape=(None,), order='C', device='cpu')]) -> None:
    """XXH64 of the eight little-endian bytes of each value."""

@overload
def hash_strings(offsets: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], data: object | None, seed: int, out: Annotated[NDArray[numpy.uint64], dict(shape=(None,), order='C', device='cpu')]) -> None:
    """XXH64 of each string of an Arrow array."""

@overload
def hash_strings(offsets: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], data: object | None, seed: int, out: Annotated[NDArray[numpy.uint64], dict(shape=(None,), order='C', device='cpu')]) -> None:
    """XXH64 of each string of an Arrow array with large offsets."""

class Hasher:
    """XXH64 of all the bytes handed to update; any thread may call it."""

    def __init__(self, seed: int) -> None: ...

    def update(self, data: object | None) -> None: ...

    def digest(self) -> int: ...
