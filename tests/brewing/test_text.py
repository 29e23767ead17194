"""Texts to hashes, against a short reference on Python's own Unicode."""

# ruff: noqa: RUF001  # letters that look like others are what is tested

import re
import subprocess
import sys
import unicodedata
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import xxhash
from hypothesis import given
from hypothesis import strategies as st

from samovar import _native, native
from samovar.brewing import text
from samovar.errors import BadInput

NATIVE = Path(__file__).parents[2] / "native"
UNICODE_VERSION = "14.0.0"
IS_OUR_UNICODE = unicodedata.unidata_version == UNICODE_VERSION
LISTS = pa.large_list(pa.uint64())


def is_ours(character: str) -> bool:
    """Whether this Python's Unicode says of a character what ours says: one of 3.2 has not changed since."""
    return IS_OUR_UNICODE or unicodedata.ucd_3_2_0.category(character) != "Cn"


def lower_one(character: str) -> str:
    return "i" if character == "İ" else character.lower()  # the only character with a longer lower case


def words_of(content: str, lower: bool) -> list[str]:
    kinds = "".join("L" if (kind := unicodedata.category(c)[0]) in "LN" else kind for c in content)
    words = [content[match.start() : match.end()] for match in re.finditer("L[LM]*", kinds)]
    return ["".join(map(lower_one, word)) for word in words] if lower else words


def reference(content: str | None, words: int | None, ngrams: int | None, lower: bool) -> list[int] | None:
    if content is None:
        return None
    found = words_of(content, lower)
    runs = [(" ".join(found[i : i + n]), n - 1) for n in range(1, (words or 0) + 1) for i in range(len(found) - n + 1)]
    joined = " ".join(found)
    if ngrams and joined:
        starts = range(max(1, len(joined) - ngrams + 1))
        runs += [(joined[i : i + ngrams], 64 + ngrams - 1) for i in starts]
    return [int(xxhash.xxh64_intdigest(run.encode(), seed)) for run, seed in runs]


KNOWN = [
    "",
    " \t.,_-!",
    "a",
    "Hello, World! 3D x_y don't",
    "ПРИВЕТ Ёжик, привет",
    "STRASSE straße STRAẞE",
    "ΟΔΥΣΣΕΥΣ Ὀδυσσεύς",
    "İstanbul ISPARTA ılık ilik",
    "cafe\u0301 CAFÉ \u0301x",
    "北京，上海 東京タワー 서울",
    "❤\ufe0f 1\ufe0f\u20e3 👩\u200d💻 a😀b 🇷🇺",
    "שָׁלוֹם עולם مَرْحَبًا ٣٤ \u200fabc",
    "x² ½ Ⅷ ①",
    "𐐀𐐁 𝐀 𠀀 Ⱥ K Å ǅ",
    "हिन्दी ไทย",
    "\x00a\x00",
]

alphabets = st.one_of(
    st.characters(codec="utf-8").filter(is_ours),
    st.sampled_from(sorted(set("".join(KNOWN)))),
    st.sampled_from(" ,aAbB1жЖ\u0301\ufe0fıİßẞσςΣ"),
)
texts = st.text(alphabets, max_size=40)
runs = st.sampled_from([1, 2, 3, 5, 16])
features = st.fixed_dictionaries(
    {"words": st.none() | runs, "ngrams": st.none() | runs, "lower": st.booleans()}
).filter(lambda chosen: chosen["words"] is not None or chosen["ngrams"] is not None)


@st.composite
def arrays(draw: st.DrawFn) -> pa.Array:
    """Every type of texts, with nulls, sliced at both ends, as it is or dictionary-encoded."""
    kind = draw(st.sampled_from([pa.string(), pa.large_string(), pa.string_view()]))
    array = pa.array(draw(st.lists(st.none() | texts, max_size=8)), kind)
    if kind != pa.string_view() and draw(st.booleans()):
        array = array.dictionary_encode()
    start = draw(st.integers(0, len(array)))
    return array[start : draw(st.integers(start, len(array)))]


@given(arrays(), features)
def test_an_arrow_array_gives_the_hashes_of_the_reference(array: pa.Array, chosen: dict[str, Any]) -> None:
    lists = text.tokens(array, **chosen)
    assert isinstance(lists, pa.LargeListArray)
    assert lists.type == LISTS
    lists.validate(full=True)
    assert lists.to_pylist() == [reference(content, **chosen) for content in array.to_pylist()]


@given(arrays(), st.lists(st.integers(0, 8), max_size=3))
def test_chunks_do_not_matter(array: pa.Array, cuts: list[int]) -> None:
    bounds = [0, *sorted(min(cut, len(array)) for cut in cuts), len(array)]
    pieces = [array[a:b] for a, b in pairwise(bounds)]
    lists = text.tokens(pa.chunked_array(pieces, array.type), words=2, ngrams=3)
    assert isinstance(lists, pa.LargeListArray)
    assert lists.equals(text.tokens(array, words=2, ngrams=3))


@pytest.mark.parametrize("lower", [True, False])
@pytest.mark.parametrize("content", KNOWN)
def test_known_scripts_give_the_hashes_of_the_reference(content: str, lower: bool) -> None:
    lists = text.tokens(pa.array([content]), words=3, ngrams=3, lower=lower)
    assert lists.to_pylist() == [reference(content, words=3, ngrams=3, lower=lower)]


def test_every_character_is_in_or_out_of_words_and_lower_cased_as_unicode_says() -> None:
    characters = [c for c in map(chr, range(sys.maxunicode + 1)) if not "\ud800" <= c <= "\udfff" and is_ours(c)]
    kinds = [unicodedata.category(c)[0] for c in characters]
    alone = text.tokens(pa.array(characters), words=1)
    expected = [lower_one(c) if kind in "LN" else None for c, kind in zip(characters, kinds, strict=True)]
    assert np.array_equal(alone.value_lengths(), [word is not None for word in expected])
    assert alone.flatten().equals(native.hash_array(pa.array(expected)).drop_null())
    after_a_letter = text.tokens(pa.array([f"A{c}" for c in characters]), words=1)
    expected = [f"a{lower_one(c)}" if kind in "LNM" else "a" for c, kind in zip(characters, kinds, strict=True)]
    assert after_a_letter.flatten().equals(native.hash_array(pa.array(expected)))


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("don't x_y 3D", ["don", "t", "x", "y", "3d"]),
        ("STRASSE straße STRAẞE", ["strasse", "straße", "straße"]),
        ("ΟΔΟΣ οδος", ["οδοσ", "οδος"]),
        ("İI ıi", ["ii", "ıi"]),
        ("E\u0301te\u0301 \u0301e", ["e\u0301te\u0301", "e"]),
        ("❤\ufe0f a😀b", ["a", "b"]),
        ("北京，上海", ["北京", "上海"]),
    ],
)
def test_a_word_has_the_hash_of_a_string_of_that_text(content: str, words: list[str]) -> None:
    assert text.tokens(pa.array([content]), words=1)[0].values.equals(native.hash_array(pa.array(words)))


def test_hashes_never_change() -> None:
    lists = text.tokens(pa.array(["Самовар, A!", None, "", "Щи"]), words=2, ngrams=3)
    assert lists.to_pylist() == [
        [
            0x6164F77D3BEC09B4,
            0xD24EC4F1A98C6E5B,
            0xDFB098CE5AF072D5,
            0x1A7937C6B94598F4,
            0x1F38F76B90AA1ECB,
            0x0561467A943B30EA,
            0xFA77902098151E02,
            0xE78499869ED6B042,
            0x0D3C768BE54BE1AD,
            0xECE5475CA5E02249,
        ],
        None,
        [],
        [0xA1EA3C98682CD151, 0x91572AEDF8D7FF58],
    ]
    assert text.tokens(pa.array(["Самовар"]), words=1, lower=False).to_pylist() == [[0xE6F516DC68C5A948]]


def test_different_kinds_of_runs_share_no_hashes() -> None:
    array = pa.array(["a", "a b", "a b c"])
    runs_of = [text.tokens(array, words=1), *(text.tokens(array, ngrams=n) for n in range(1, 17))]
    hashes = [hash for lists in runs_of for hash in set(lists.flatten().to_pylist())]
    assert len(hashes) == len(set(hashes))


@pytest.mark.parametrize(
    "kind", [pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int8(), pa.string())]
)
def test_nothing_gives_nothing(kind: pa.DataType) -> None:
    for array in (pa.array([], kind), pa.chunked_array([], kind), pa.nulls(3, kind)[3:]):
        assert text.tokens(array, words=1).equals(pa.array([], LISTS))
    assert text.tokens(pa.nulls(2, kind), words=1).to_pylist() == [None, None]


def test_the_bytes_below_a_null_are_not_read() -> None:
    buffers = [pa.py_buffer(b"\x05"), pa.py_buffer(np.array([0, 1, 3, 4], np.int32)), pa.py_buffer(b"abcd")]
    lists = text.tokens(pa.Array.from_buffers(pa.string(), 3, buffers), words=1)
    assert lists.to_pylist() == [[native.hash_bytes(b"a")], None, [native.hash_bytes(b"d")]]
    assert len(lists.values) == 2


def test_a_small_piece_of_a_big_dictionary_gives_the_same() -> None:
    array = pa.array([f"Word {i}" for i in range(100)]).dictionary_encode()[40:43]
    plain = pa.array([f"Word {i}" for i in range(40, 43)])
    assert text.tokens(array, words=2).equals(text.tokens(plain, words=2))


def test_a_null_inside_a_dictionary_stays_null() -> None:
    array = pa.DictionaryArray.from_arrays(pa.array([1, 0, None], pa.int8()), pa.array(["a", None]))
    assert text.tokens(array, words=1).to_pylist() == [None, [native.hash_bytes(b"a")], None]


@given(st.binary(max_size=40))
def test_bytes_that_are_not_utf8_separate_words(data: bytes) -> None:
    broken = pa.Array.from_buffers(
        pa.string(), 1, [None, pa.py_buffer(np.array([0, len(data)], np.int32)), pa.py_buffer(data)]
    )
    readable = data.decode("utf-8", "replace")  # U+FFFD is a symbol, and so parts words
    if all(map(is_ours, readable)):
        assert text.tokens(broken, words=2, ngrams=3).to_pylist() == [reference(readable, 2, 3, lower=True)]


@pytest.mark.parametrize(
    "array",
    [
        pa.array([1]),
        pa.array([b"ab"]),
        pa.array([None]),
        pa.array([["a"]]),
        pa.chunked_array([], pa.float32()),
        pa.array([1]).dictionary_encode(),
    ],
    ids=lambda array: str(array.type),
)
def test_a_type_other_than_string_is_refused_by_name(array: Any) -> None:
    with pytest.raises(BadInput) as caught:
        text.tokens(array, words=1)
    expected = f"text tokens: expected strings, got an array of {array.type}; cast it to string first"
    assert str(caught.value) == expected


def test_what_is_not_an_arrow_array_is_refused() -> None:
    with pytest.raises(BadInput, match="text tokens: expected an Arrow array, got list; use"):
        text.tokens(["a"], words=1)


@pytest.mark.parametrize("length", [0, -1, 17, True, 1.5, "2"])
@pytest.mark.parametrize("name", ["words", "ngrams"])
def test_a_run_length_out_of_range_is_refused(name: str, length: Any) -> None:
    message = rf"text tokens: {name} must be an integer from 1 to 16, got {re.escape(repr(length))}"
    with pytest.raises(BadInput, match=message):
        text.tokens(pa.array(["a"]), **{name: length})


def test_asking_for_nothing_is_refused() -> None:
    with pytest.raises(BadInput, match="text tokens: give words or ngrams, for example words=1"):
        text.tokens(pa.array(["a"]))


def tokenize(offsets: Any, data: bytes = b"abc", words: int = 1, **changed: Any) -> Any:
    n = max(0, len(offsets) - 1)
    valid: dict[str, Any] = {
        "is_null": np.zeros(n, bool),
        "ngrams": 0,
        "lower": True,
        "list_offsets": np.zeros(n + 1, np.int64),
    }
    return _native.tokenize(offsets, data, words=words, **(valid | changed))


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
@pytest.mark.parametrize("offsets", [[0, 4], [-1, 2], [-2, -1], [0, 2, 1], [0, 2**31 - 1, 3]])
def test_wild_offsets_raise_instead_of_reading_wild_memory(offsets: list[int], dtype: Any) -> None:
    with pytest.raises(ValueError, match="offsets: string"):
        tokenize(np.array(offsets, dtype))


def test_a_broken_arrow_array_is_bad_input() -> None:
    buffers = [None, pa.py_buffer(np.array([0, 2**30, 3], np.int32)), pa.py_buffer(b"abc")]
    with pytest.raises(BadInput, match=r"breaks Arrow's layout .*string 1 starts at 1073741824 and ends at 3"):
        text.tokens(pa.Array.from_buffers(pa.string(), 2, buffers), words=1)


def test_the_border_takes_exactly_one_dtype_rank_and_layout() -> None:
    offsets = np.array([0, 1, 3], np.int32)
    assert tokenize(offsets).tolist() == [native.hash_bytes(b"a"), native.hash_bytes(b"bc")]
    for wrong in (offsets.astype(np.uint32), offsets.reshape(1, 3), np.zeros(6, np.int32)[::2], [0, 1, 3]):
        with pytest.raises(TypeError):
            tokenize(wrong)
    for changed in (
        {"is_null": np.zeros(2, np.uint8)},
        {"list_offsets": np.zeros(3, np.int32)},
        {"list_offsets": np.frombuffer(bytes(24), np.int64)},
        {"words": -1},
        {"words": 1.0},
        {"data": "abc"},
    ):
        with pytest.raises(TypeError):
            tokenize(offsets, **changed)
    for changed, message in (
        ({"is_null": np.zeros(1, bool)}, "is_null: has 1 elements; expected 2"),
        ({"list_offsets": np.zeros(2, np.int64)}, "list_offsets: has 2 elements; expected 3"),
        ({"words": 17}, "words: found 17; a run has at most 16"),
        ({"ngrams": 17}, "ngrams: found 17; a run has at most 16"),
        ({"words": 0}, "neither words nor ngrams"),
    ):
        with pytest.raises(ValueError, match=message):
            tokenize(offsets, **changed)
    with pytest.raises(ValueError, match="n texts have n \\+ 1 offsets"):
        tokenize(offsets[:0])
    with pytest.raises(ValueError, match="offsets: not aligned"):
        tokenize(np.frombuffer(bytes(13), np.int32, 3, 1))


def test_the_committed_unicode_tables_are_the_generated_ones() -> None:
    command = [sys.executable, str(NATIVE / "generate_unicode_tables.py")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if IS_OUR_UNICODE:
        assert done.stdout == (NATIVE / "src/unicode_tables.h").read_text()
    else:
        assert f"expected Unicode {UNICODE_VERSION}: run it with Python 3.11" in done.stderr
