"""How wide real-valued lists are: told by the first rows, so that a row without values still has its zeros."""

from collections.abc import Mapping
from dataclasses import replace

import pyarrow as pa

from samovar.brew.converters import Converter, RealConverter
from samovar.brew.formats import read_file
from samovar.brew.ragged import depth_of, unnest
from samovar.brew.sources import Source


def with_shapes(converters: Mapping[str, Converter], source: Source, schema: pa.Schema) -> dict[str, Converter]:
    """The same converters; those of real-valued lists know their width, if a file's first rows show one."""
    found = dict(converters)
    for file in source.files:
        unknown = {name: each for name, each in found.items() if _is_unknown(each)}
        if not unknown:
            break
        columns = pa.schema([schema.field(each.column) for each in unknown.values()])
        first = next(read_file(file, columns), None)
        for name, converter in unknown.items():
            shape = None if first is None else _shape(first.column(converter.column))
            found[name] = replace(converter, shape=shape)  # type: ignore[call-arg]  # only RealConverters are unknown
    return found


def _is_unknown(converter: Converter) -> bool:
    return isinstance(converter, RealConverter) and converter.rank > 1 and converter.shape is None


def _shape(array: pa.Array) -> tuple[int, ...] | None:
    """Of the first lists that are there; None if a level has none."""
    known = [length for length in unnest(array).first_lengths if length is not None]
    return tuple(known) if len(known) == depth_of(array.type) else None
