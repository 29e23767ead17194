"""Texts as bags of 64-bit hashes: words, runs of words, n-grams of characters. Knows no tables and no recipes.

A word is a letter or digit and the letters, digits and marks after it; everything else separates words.
`native/include/samovar/text.h` defines it to the last byte, so that it can be implemented in another language.
"""

import pyarrow as pa
from pyarrow import types

from samovar import native
from samovar.errors import BadInput

MAX_RUN = 16


def tokens(
    array: pa.Array | pa.ChunkedArray, words: int | None = None, ngrams: int | None = None, lower: bool = True
) -> pa.LargeListArray:
    """Hash the words and n-grams of each text, in the order of the text.

    A single word has the hash that `native.hash_array` gives to the same string.

    Args:
        array: Strings, plain or dictionary-encoded.
        words: Take every run of 1 to `words` neighbouring words: all words first, then all pairs, and so on.
        ngrams: Take every run of `ngrams` characters of the text with one space between words. A shorter text is one
            n-gram.
        lower: Lower-case character by character, which is not full case folding.

    Returns:
        One list of hashes per text. A null stays null; a text without words gives an empty list.

    Raises:
        BadInput: Neither `words` nor `ngrams` is given, one is out of range, or `array` has no strings.

    Example:
        >>> tokens(pa.array(["Green tea", None]), words=1)
    """
    _check_run("words", words)
    _check_run("ngrams", ngrams)
    if words is None and ngrams is None:
        raise BadInput("text tokens: give words or ngrams, for example words=1 or ngrams=3")
    if not isinstance(array, pa.Array | pa.ChunkedArray):
        raise BadInput(f"text tokens: expected an Arrow array, got {type(array).__name__}; use pyarrow.array(...)")
    _check_text(array.type)
    chunks = array.chunks if isinstance(array, pa.ChunkedArray) else [array]
    lists = [_tokenize(chunk, words, ngrams, lower) for chunk in chunks if len(chunk) > 0]
    if len(lists) == 1:
        return lists[0]
    return pa.concat_arrays(lists or [pa.array([], pa.large_list(pa.uint64()))])


def _check_run(name: str, length: int | None) -> None:
    if length is None:
        return
    if not isinstance(length, int) or isinstance(length, bool) or not 1 <= length <= MAX_RUN:
        raise BadInput(f"text tokens: {name} must be an integer from 1 to {MAX_RUN}, got {length!r}")


def _check_text(kind: pa.DataType) -> None:
    leaf = kind.value_type if types.is_dictionary(kind) else kind
    if not (types.is_string(leaf) or types.is_large_string(leaf) or types.is_string_view(leaf)):
        raise BadInput(f"text tokens: expected strings, got an array of {kind}; cast it to string first")


def _tokenize(chunk: pa.Array, words: int | None, ngrams: int | None, lower: bool) -> pa.LargeListArray:
    if types.is_dictionary(chunk.type):
        if len(chunk.dictionary) <= len(chunk):
            return tokens(chunk.dictionary, words, ngrams, lower).take(chunk.indices)
        chunk = chunk.dictionary_decode()  # a small piece of a big dictionary
    if types.is_string_view(chunk.type):
        chunk = chunk.cast(pa.large_string())
    return native.tokenize(chunk, words, ngrams, lower)
