"""Cells of tensor tables: encoded one by one, decoded a whole minibatch at a time. cell.h draws the bytes."""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from samovar import _native
from samovar.errors import BadInput

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from typing_extensions import Buffer


_CODECS = {"none": 0, "zstd": 1, "lz4": 2}
# The shared library inside a package that we depend on, then the system's.
_LIBRARIES = {"zstd": ("zstandard", "_cffi*.so", "libzstd.so.1"), "lz4": ("lz4.block", "_block*.so", "liblz4.so.1")}


def require_codec(name: str) -> int:
    """The number of a codec, its library loaded."""
    if name != "none":
        _load_library(name)
    return _CODECS[name]


@cache
def _load_library(codec: str) -> None:
    package, pattern, soname = _LIBRARIES[codec]
    spec = find_spec(package) if find_spec(package.partition(".")[0]) else None
    folders = (spec.submodule_search_locations if spec else None) or []
    found = [str(path) for folder in folders for path in sorted(Path(folder).glob(pattern))]
    problems = []
    for path in [*found, soname]:
        try:
            return _native.load_codec(_CODECS[codec], path)
        except RuntimeError as error:
            problems.append(f"{path}: {error}")
    raise BadInput(
        f"codec {codec!r}: no library could be loaded ({'; '.join(problems)}); expected the package "
        f"{package.partition('.')[0]!r} or the system's {soname}: install one of them"
    )


def encode_dense(items: NDArray[np.float32], codec: str, level: int) -> bytes:
    """A dense cell; see native/include/samovar/cell.h for the bytes."""
    return _native.encode_dense(np.ascontiguousarray(items), require_codec(codec), level)


def encode_bag(ids: NDArray[np.uint64], lengths: NDArray[np.int32], codec: str, level: int) -> bytes:
    """A cell of ids. `BadInput` if the lengths do not add up."""
    try:
        return _native.encode_bag(np.ascontiguousarray(ids), np.ascontiguousarray(lengths), require_codec(codec), level)
    except ValueError as error:
        raise BadInput(f"bag: {error}; expected one length an example, and as many ids: mend its converter") from error


def encode_opaque(data: Buffer, codec: str, level: int) -> bytes:
    """A cell of plain bytes."""
    return _native.encode_opaque(data, require_codec(codec), level)


DecodedMinibatches = _native.DecodedMinibatches


class MinibatchDecoder:
    """Decodes all cells of a minibatch in one call, without the GIL, into memory that is used again."""

    def __init__(self, kept_bytes: int) -> None:
        self._decoder = _native.MinibatchDecoder(kept_bytes)

    def decode(
        self,
        source: Buffer,
        places: NDArray[np.uint64],
        *,
        max_bytes: int,
        are_checked: bool = False,
        may_map: bool = True,
    ) -> _native.DecodedMinibatches:
        """The cells at the rows [offset, size] of `places`; ValueError(what, number of the cell) for a bad one.

        `max_bytes` is the most memory that they may take: a few bytes can claim any size. `are_checked` if these bytes
        were decoded before: what stays where it lies is then not summed up once more. Unless it `may_map`, nothing
        stays there."""
        return self._decoder.decode(source, places, max_bytes, are_checked, may_map)

    def close(self) -> None:
        """When this returns, no thread reads a source any more, and none will: they may be changed or cut. A mapped
        file that is cut while it is read would end the process."""
        self._decoder.close()
