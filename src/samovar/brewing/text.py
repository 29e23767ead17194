"""Texts to bags of 64-bit hashes: words, runs of words, n-grams of characters. Knows no tables and no recipes.

A word is a letter or digit and the letters, digits and marks after it; everything else only parts words.
`native/include/samovar/text.h` says it to the last byte, so that it can be written again in another language.
"""

import pyarrow as pa
from pyarrow import types

from samovar import native
from samovar.errors import BadInput

MAX_RUN = 16


def tokens(
    array: pa.Array | pa.ChunkedArray, words: int | None = None, ngrams: int | None = None, lower: bool = True
) -> pa.LargeListArray:
    """One list of hashes a text, in the order of the text; null stays null, a text without words gives none.

    `words=2` asks for all words, then all pairs of neighbours, and so on up to `words`. `ngrams=3` asks for every
    three characters in a row of the text whose words stand one space apart; a shorter text is one n-gram.
    `lower` lower-cases character by character; it is not full case folding. A single word has the hash
    that `native.hash_array` gives to a string of that text.
    """
    _check_run("words", words)
    _check_run("ngrams", ngrams)
    if words is None and ngrams is None:
        raise BadInput("text tokens: found neither words nor ngrams; expected at least one: give words=1 or ngrams=3")
    if not isinstance(array, pa.Array | pa.ChunkedArray):
        found = type(array).__name__
        raise BadInput(f"text tokens: found {found}; expected an Arrow array: wrap the texts in pyarrow.array")
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
        raise BadInput(
            f"text tokens: found {name}={length!r}; expected a whole number from 1 to {MAX_RUN}: "
            "choose one, or leave it out"
        )


def _check_text(kind: pa.DataType) -> None:
    leaf = kind.value_type if types.is_dictionary(kind) else kind
    if not (types.is_string(leaf) or types.is_large_string(leaf) or types.is_string_view(leaf)):
        raise BadInput(f"text tokens: found a column of type {kind}; expected strings: cast it to string first")


def _tokenize(chunk: pa.Array, words: int | None, ngrams: int | None, lower: bool) -> pa.LargeListArray:
    if types.is_dictionary(chunk.type):
        if len(chunk.dictionary) <= len(chunk):
            return tokens(chunk.dictionary, words, ngrams, lower).take(chunk.indices)
        chunk = chunk.dictionary_decode()  # a small piece of a big dictionary
    if types.is_string_view(chunk.type):
        chunk = chunk.cast(pa.large_string())
    return native.tokenize(chunk, words, ngrams, lower)
