"""The C++ core as Python sees it: the only room that imports `samovar._native`. Knows no tables and no models."""

from samovar.native.cells import (
    DecodedMinibatches,
    MinibatchDecoder,
    encode_bag,
    encode_dense,
    encode_keys,
)
from samovar.native.codecs import require_codec
from samovar.native.files import FileList, list_files, map_file, stamps_of
from samovar.native.hashing import Hasher, hash_array, hash_bytes, hash_integers, to_word, tokenize

__all__ = [
    "DecodedMinibatches",
    "FileList",
    "Hasher",
    "MinibatchDecoder",
    "encode_bag",
    "encode_dense",
    "encode_keys",
    "hash_array",
    "hash_bytes",
    "hash_integers",
    "list_files",
    "map_file",
    "require_codec",
    "stamps_of",
    "to_word",
    "tokenize",
]
