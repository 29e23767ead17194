"""The C++ core for Python: the only room that imports `samovar._native`. Knows no files, tables or models."""

from samovar.native.cells import DecodedRow, RowDecoder, encode_bag, encode_dense, encode_opaque, require_codec
from samovar.native.hash import Hasher, hash_array, hash_bytes, hash_integers, to_word
from samovar.native.text import tokenize

__all__ = [
    "DecodedRow",
    "Hasher",
    "RowDecoder",
    "encode_bag",
    "encode_dense",
    "encode_opaque",
    "hash_array",
    "hash_bytes",
    "hash_integers",
    "require_codec",
    "to_word",
    "tokenize",
]
