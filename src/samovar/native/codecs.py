"""zstd and lz4 for the C++ core: where the libraries come from, and the checks before one is used.

Search order                       zstd                        lz4
1. inside the installed wheel      zstandard/_cffi*.so         lz4/block/_block*.so
2. the system's shared library     libzstd.so.1                liblz4.so.1

The wheel comes first because the bytes of tables are compared across machines, and compressed bytes depend on the
version: zstd 1.5.4 and 1.5.7 differ at every level we tried, at level 5 in 5 of 21 arrays. The version of a wheel
can be pinned and is in `environment.json`; a system's library is whatever the machine has. Decoding works with any.

We found no package on PyPI with headers and a library to link with, so the libraries are loaded at run time. Knows no
cells.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from samovar import _native
from samovar.errors import BadInput


@dataclass(frozen=True)
class CodecLibrary:
    """A library that was loaded and passed its self-check."""

    path: str
    version: str


@dataclass(frozen=True)
class _Source:
    """Where to look for a codec."""

    number: int
    """In the header of a cell."""
    package: str
    folder: str
    """The module whose folder has the wheel's extension file."""
    pattern: str
    soname: str


_NUMBER_OF_NONE = 0
_SOURCES = {
    "zstd": _Source(1, "zstandard", "zstandard", "_cffi*.so", "libzstd.so.1"),
    "lz4": _Source(2, "lz4", "lz4.block", "_block*.so", "liblz4.so.1"),
}


def require_codec(name: str) -> int:
    """The number of a codec ("none", "zstd" or "lz4"), with its library loaded."""
    if name == "none":
        return _NUMBER_OF_NONE
    load_library(name)
    return _SOURCES[name].number


@cache
def load_library(codec: str) -> CodecLibrary:
    """Load the first library of the search order that passes its self-check: its version is known, it decodes a known
    vector, and it decodes what it encodes. A process uses one library per codec.

    Raises:
        BadInput: No library could be loaded. The message lists each one that was tried, and why it failed.
    """
    return _load_first(codec, find_libraries(codec))


def find_libraries(codec: str) -> Iterator[str]:
    """The libraries of a codec in the order in which they are tried; the system's is left to the dynamic loader."""
    source = _SOURCES[codec]
    yield from _libraries_of_wheel(source)
    yield source.soname


def _libraries_of_wheel(source: _Source) -> Iterator[str]:
    if find_spec(source.package) is None:
        return
    spec = find_spec(source.folder)
    for folder in (spec.submodule_search_locations if spec else None) or []:
        yield from map(str, sorted(Path(folder).glob(source.pattern)))


def _load_first(codec: str, paths: Iterable[str]) -> CodecLibrary:
    source, problems = _SOURCES[codec], []
    for path in paths:
        try:
            return CodecLibrary(path, _native.load_codec(source.number, path))
        except RuntimeError as error:
            problems.append(f"{path}: {str(error).removeprefix(f'{path}: ')}")
    raise BadInput(
        f"codec {codec!r}: no usable library. Install the package {source.package!r} from PyPI, or {source.soname}. "
        f"Tried {'; '.join(problems)}"
    )
