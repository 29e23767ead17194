"""Attributes of directories in a bucket: one object each, swapped by its tag. See objects.py for why that is exact."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from secrets import token_hex
from typing import Any

from samovar.config.records import Count, read_record
from samovar.errors import CorruptData, NotFound, StoreError
from samovar.store.base import Attributes, Json
from samovar.store.bucket import Bucket, Written
from samovar.store.reading import MAX_ATTRIBUTE_BYTES, decode_attributes, encode_attributes

KEPT_WORDS = 64


@dataclass(frozen=True)
class _Record:
    """What the object has, as JSON behind a checksum."""

    version: Count
    words: list[str]
    """The random words of this version and of those before it, the newest first."""
    values: dict[str, Any]


def read_attributes(bucket: Bucket, key: str) -> Attributes:
    """The attributes in an object. Their tag is what `swap_attributes` needs to know about it."""
    try:
        content = bucket.get(key, 0, MAX_ATTRIBUTE_BYTES + 1)
    except NotFound:
        return Attributes()
    where = f"{bucket.url}/{key}"
    if len(content.data) > MAX_ATTRIBUTE_BYTES:
        raise CorruptData(f"{where}: more than the limit of {MAX_ATTRIBUTE_BYTES:,} bytes. Restore it from a copy")
    body = decode_attributes(bytes(content.data))
    if body is None:
        raise CorruptData(f"{where}: wrong checksum: the object was damaged or changed. Restore it from a copy")
    record = read_record(_Record, body, where, MAX_ATTRIBUTE_BYTES)
    return Attributes(record.version, record.values, Written(content.found.tag, record.words))


def swap_attributes(bucket: Bucket, key: str, expected: Attributes, values: Mapping[str, Json]) -> Attributes | None:
    """Replace attributes, unless they changed since `expected` was read; then None."""
    if expected.version > 0 and expected.tag is None:  # made by a caller, or by a swap that was replaced at once
        current = read_attributes(bucket, key)
        if current.version != expected.version:
            return None
        expected = current
    before: Written | None = expected.tag
    words = [token_hex(8), *(before.words if before else ())][:KEPT_WORDS]
    new = _Record(expected.version + 1, words, dict(values))

    num_forgotten = 0

    def look(was_lost: bool) -> Written | None:
        nonlocal num_forgotten
        current = read_attributes(bucket, key)
        found: Written | None = current.tag
        num_changes = current.version - expected.version
        is_unknown = was_lost and found is not None and words[0] not in found.words and num_changes > KEPT_WORDS
        num_forgotten = num_changes if is_unknown else 0
        return found

    tag = bucket.put_if(key, encode_attributes(vars(new)), before.tag if before else None, words[0], look)
    if num_forgotten:
        raise StoreError(
            f"{bucket.url}/{key}: nobody knows whether our change was made: the answer was lost, and others made "
            f"{num_forgotten} changes since. Start again"
        )
    if tag is None:
        return None
    is_current = tag.e_tag is not None
    return Attributes(new.version, new.values, Written(tag, words) if is_current else None)


def refuse_careless_server(bucket: Bucket, key: str, name: str) -> None:
    """Find out, with an object of this key, whether the server obeys the conditions of writes; `StoreError` if not."""
    try:
        first = bucket.put_if(key, b"1", None, token_hex(8))
        is_second_refused = bucket.put_if(key, b"2", None, token_hex(8)) is None
        is_swapped = first is not None and bucket.put_if(key, b"3", first, token_hex(8)) is not None
        is_late_swap_refused = bucket.put_if(key, b"4", first, token_hex(8)) is None
    finally:
        with suppress(StoreError):
            bucket.delete([key])
    if not (is_second_refused and is_swapped and is_late_swap_refused):
        raise StoreError(
            f"{name}: this server ignores conditions of writes (If-None-Match, If-Match), so two processes could "
            "overwrite each other's work. Use another server, or a newer version of this one"
        )
