"""A first recipe for data that nobody has described yet: a role for each column, guessed from its name, its type and
its first rows, with the reason. What could well be otherwise is marked. Writes nothing.
"""

import json
import os
import re
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from samovar.brewing.arrays import as_numpy, depth_of, is_text, leaf_of, unnest
from samovar.brewing.clock import Clock
from samovar.brewing.formats import find_format
from samovar.brewing.formats.base import UTF8
from samovar.brewing.frames import copy_rows, find_frame
from samovar.brewing.patterns import NamedColumns
from samovar.brewing.sources import (
    PathLike,
    ScannedSource,
    Source,
    SourceFile,
    WrongEncoding,
    find_source,
    read_in_order,
    scan,
)
from samovar.brewing.time_format import possible_formats
from samovar.errors import BadInput, Conflict, StoreError
from samovar.hours import DAY_SECONDS

MOST_ROWS = 100_000
"""How many rows are looked at, beyond names and types."""
_ENCODINGS = (UTF8, "cp1252", "latin-1")
_ALL = NamedColumns(frozenset("*"))
_ID_NAME = re.compile(r"(?i:(^|[_\W])(id|key|uuid|guid|code|no|sku|zip)s?$)|[a-z](ID|Id|No|Code|Key)s?$")
_TIME_NAME = re.compile(r"(?i:time|date|day|timestamp|created|(^|_)(ts|at|when)$)")
_FEW = 20
_WORDS_OF_A_TEXT = 2.5
_SECONDS_OF_2000, _SECONDS_OF_2100 = 946_684_800, 4_102_444_800


@dataclass(frozen=True)
class Guess:
    """What a column could become.

    Attributes:
        role: As in a recipe's `columns`.
        reason: Why.
        is_doubtful: Whether somebody who knows the data should look at it.

    Example:
        >>> import pandas as pd
        >>> from samovar.brewing import draft_recipe
        >>> rows = pd.DataFrame({"user_id": [7, 8, 9], "price": [1.5, 2.5, 1.5]})
        >>> draft_recipe(rows).guesses["user_id"].role
        'id'
    """

    role: Any
    reason: str
    is_doubtful: bool = False


@dataclass(frozen=True)
class Draft:
    """A recipe that can be brewed as it is, and why it says what it says.

    Attributes:
        recipe: The recipe.
        guesses: The guess for each column.
        notes: What else is in the recipe, and why.

    Example:
        >>> import pandas as pd
        >>> from samovar.brewing import draft_recipe
        >>> rows = pd.DataFrame({"user_id": [7, 8, 9], "price": [1.5, 2.5, 1.5]})
        >>> "user_id" in draft_recipe(rows).recipe["columns"]
        True
    """

    recipe: Mapping[str, Any]
    guesses: Mapping[str, Guess]
    notes: Sequence[str]

    def to_json(self) -> str:
        """The text of a recipe file, one column per line."""
        columns = ",\n".join(f"    {_dump(name)}: {_dump(role)}" for name, role in self.recipe["columns"].items())
        lines = [
            f'  "columns": {{\n{columns}\n  }}' if key == "columns" else f"  {_dump(key)}: {_dump(value)}"
            for key, value in self.recipe.items()
        ]
        return "{\n" + ",\n".join(lines) + "\n}\n"

    def explain(self) -> list[str]:
        """One line per column and note; doubtful ones begin with a question mark."""
        roles = {name: guess.role for name, guess in self.guesses.items()}
        shown = {name: role if isinstance(role, str) else _dump(role) for name, role in roles.items()}
        widths = [max(map(len, each), default=0) for each in (shown, shown.values())]
        return [
            f"{'?' if guess.is_doubtful else ' '} {name:{widths[0]}}  {shown[name]:{widths[1]}}  {guess.reason}"
            for name, guess in self.guesses.items()
        ] + [f"  {note}" for note in self.notes]


def draft_recipe(source: Any) -> Draft:
    """Draft a recipe from raw rows, to begin with.

    Types come from all rows, everything else from the first 100,000.

    Args:
        source: Paths or globs of raw files, or rows in memory, as in `samovar.brew`.

    Returns:
        The recipe, and the reason for each column.

    Raises:
        BadInput: The source cannot be read, or has no rows.

    Example:
        >>> import pandas as pd
        >>> rows = pd.DataFrame({"user_id": [7, 8, 9], "ad": ["tea", "tea", "cups"], "price": [1.5, 2.5, 1.5]})
        >>> draft_recipe(rows).recipe["columns"]
        {'user_id': 'id', 'ad': 'hash', 'price': {'number': {'scale': 'running'}}}
    """
    with TemporaryDirectory(prefix="samovar-draft-") as folder:
        frame = find_frame(source)
        if frame is not None:
            path = Path(folder) / "rows.arrow"
            found = copy_rows(frame, frame.names, path, known_types={})
            file = SourceFile(path, find_format(path), frame.name, found)
            return _draft(scan(Source(frame.name, (file,))), source, UTF8)
        scanned, encoding = _scan(source)
        return _draft(scanned, _as_json(source), encoding)


def write_recipe(draft: Draft, path: PathLike) -> Draft:
    """Write a draft to a recipe file.

    Args:
        draft: What `draft_recipe` returned for files; its paths start at the current folder.
        path: The file, which must not exist.

    Returns:
        The draft with paths that start at the folder of the file, as it was written.

    Raises:
        Conflict: The file exists.
        BadInput: The draft is of rows in memory, which a file cannot name.

    Example:
        >>> draft = write_recipe(draft_recipe("clicks.csv"), "clicks.json")
    """
    place, source = Path(path), draft.recipe["source"]
    if not isinstance(source, str | list):
        raise BadInput(f"{place}: a recipe file cannot name rows in memory; give the rows to samovar.brew")
    folder = place.parent
    moved = [_moved(each, folder) for each in source] if isinstance(source, list) else _moved(source, folder)
    written = replace(draft, recipe={**draft.recipe, "source": moved})
    try:
        with place.open("x", encoding=UTF8) as file:
            file.write(written.to_json())
    except FileExistsError:
        raise Conflict(f"{place} already exists. Remove it, or choose another name") from None
    except OSError as error:
        raise StoreError(f"{place}: cannot be written ({error.strerror})") from None
    return written


def _moved(source: str, folder: Path) -> str:
    return source if os.path.isabs(source) else os.path.relpath(source, folder)


def _scan(source: PathLike | Sequence[PathLike]) -> tuple[ScannedSource, str]:
    """The source in the first encoding that reads it."""
    for encoding in _ENCODINGS[:-1]:
        try:
            return scan(find_source(source, encoding=encoding, folder_columns=_ALL)), encoding
        except WrongEncoding:
            continue
    return scan(find_source(source, encoding=_ENCODINGS[-1], folder_columns=_ALL)), _ENCODINGS[-1]


def _as_json(source: PathLike | Sequence[PathLike]) -> Any:
    return [str(path) for path in source] if isinstance(source, list | tuple) else str(source)


def _draft(scanned: ScannedSource, source: Any, encoding: str) -> Draft:
    rows = _first_rows(scanned)
    recipe: dict[str, Any] = {"source": source}
    notes = []
    if encoding != UTF8:
        recipe["encoding"] = encoding
        notes.append(f"encoding {encoding}: the files are not UTF-8")
    time = _find_time(scanned, rows)
    guesses = {name: _guess(_Look(name, scanned.schema.field(name), rows, scanned)) for name in rows.schema.names}
    if time is not None:
        guesses[time.clock.field] = Guess("time", time.reason, time.is_doubtful)
        if time.clock.format is not None:
            recipe["time_format"] = time.clock.format
        if time.is_daily:
            recipe["uri"] = "day"
            notes.append("uri day: all times are midnight, so an hour would be too fine")
        if time.has_nulls:
            recipe["missing"] = {time.clock.field: "drop"}
            notes.append(f"rows without {time.clock.field!r} are left out")
    else:
        recipe["shuffle"] = {"seed": 0}
        notes.append("no time was found, so the rows are shuffled")
    if all(guess.role == "ignore" or guess.role == "time" for guess in guesses.values()):
        raise BadInput(f"{scanned.source.name}: no column can become an input, as far as the first rows show")
    recipe["columns"] = {name: guess.role for name, guess in guesses.items()}
    return Draft(recipe, guesses, notes)


def _first_rows(scanned: ScannedSource) -> pa.Table:
    names = [field.name for field in scanned.schema]
    single = [name for name in dict.fromkeys(names) if names.count(name) == 1]
    batches, num_rows = [], 0
    with closing(read_in_order(scanned.source, scanned.schema, single)) as stream:
        for batch in stream:
            batches.append(batch.slice(0, MOST_ROWS - num_rows).select(single))
            num_rows += batches[-1].num_rows
            if num_rows >= MOST_ROWS:
                break
    if num_rows == 0:
        raise BadInput(f"{scanned.source.name}: no rows to draft a recipe from")
    return pa.Table.from_batches(batches)


# The time


@dataclass(frozen=True)
class _Time:
    clock: Clock
    reason: str
    is_doubtful: bool = False
    has_nulls: bool = False
    is_daily: bool = False
    """Whether all times are midnight."""


def _find_time(scanned: ScannedSource, rows: pa.Table) -> _Time | None:
    """The column that reads as a time in all rows: rather one whose name says so, then the first."""
    names = sorted(rows.schema.names, key=lambda name: _TIME_NAME.search(name) is None)  # stable
    for name in names:
        found = _as_time(name, rows.column(name).combine_chunks(), is_named=_TIME_NAME.search(name) is not None)
        checked = None if found is None else _check_time(found, scanned)
        if checked is not None:
            rest = rows.drop_columns([name])
            others = [other for other in rest.schema.names if _as_time(other, rest.column(other).combine_chunks())]
            if others:
                return replace(checked, is_doubtful=True, reason=f"{checked.reason}; {others[0]!r} is a time too")
            return checked
    return None


def _as_time(name: str, values: pa.Array, is_named: bool = False) -> _Time | None:
    kind, known = values.type, values.drop_null()
    if len(known) == 0:
        return None
    if types.is_timestamp(kind) or types.is_date(kind):
        return _Time(Clock(name), f"{kind}")
    if types.is_string(kind):
        return _text_as_time(name, known)
    if types.is_integer(kind) and is_named:
        low, high = pc.min_max(known).as_py().values()
        for factor, unit in ((1, "seconds"), (1000, "milliseconds")):
            if _SECONDS_OF_2000 * factor <= low and high < _SECONDS_OF_2100 * factor:
                return _Time(Clock(name), f"{unit} since 1970, by name and size")
    return None


def _text_as_time(name: str, texts: pa.Array) -> _Time | None:
    try:
        Clock(name).seconds(texts[:1])
        return _Time(Clock(name), "ISO times")
    except BadInput:
        possible = possible_formats([texts])
    if not possible:
        return None
    others = f"; {possible[1]!r} reads every row too" if len(possible) > 1 else ""
    return _Time(Clock(name, format=possible[0]), f"times such as {texts[0].as_py()!r}{others}", bool(others))


def _check_time(time: _Time, scanned: ScannedSource) -> _Time | None:
    """None if a later row has something else."""
    has_nulls, is_daily = False, True
    with closing(read_in_order(scanned.source, scanned.schema, [time.clock.field])) as batches:
        try:
            for batch in batches:
                seconds = time.clock.seconds(batch.column(0))
                has_nulls |= seconds.null_count > 0
                is_daily &= not (as_numpy(seconds.drop_null()) % DAY_SECONDS).any()
        except BadInput:
            return None
    return replace(time, has_nulls=has_nulls, is_daily=is_daily)


# All other columns


@dataclass(frozen=True)
class _Look:
    """One column, as far as the first rows show it."""

    name: str
    field: pa.Field
    rows: pa.Table
    scanned: ScannedSource

    @property
    def kind(self) -> pa.DataType:
        return self.field.type

    @property
    def values(self) -> Any:
        return self.rows.column(self.name).combine_chunks()

    @property
    def is_id_name(self) -> bool:
        return _ID_NAME.search(self.name) is not None

    @property
    def is_csv(self) -> bool:
        return any(file.format.name == "csv" for file in self.scanned.source.files)

    def count_distinct(self) -> int:
        return int(pc.count_distinct(self.values, mode="only_valid").as_py())


def _guess(look: _Look) -> Guess:
    kind, leaf = look.kind, leaf_of(look.kind)
    if types.is_null(leaf) or look.values.null_count == len(look.values):
        return Guess("ignore", "empty in all rows that were looked at", is_doubtful=not types.is_null(leaf))
    if depth_of(kind) > 0:
        return _guess_list(look, leaf)
    if types.is_temporal(kind):
        return Guess("ignore", f"{kind}, a further time", is_doubtful=True)
    if types.is_boolean(kind):
        return Guess("number", "true and false")
    if types.is_integer(kind):
        return _guess_integer(look)
    if types.is_floating(kind) or types.is_decimal(kind):
        return _guess_number(look)
    if types.is_string(kind):
        return _guess_text(look)
    return Guess("ignore", f"{kind} has no role", is_doubtful=True)


def _guess_list(look: _Look, leaf: pa.DataType) -> Guess:
    if is_text(leaf):
        return Guess("hash", "lists of strings: bags")
    if types.is_integer(leaf):
        return Guess("id", "lists of integers: bags; id_sequence if their order counts", is_doubtful=True)
    lengths = {int(length) for each in unnest(look.values).lengths for length in set(each[each > 0].tolist())}
    if types.is_floating(leaf) and len(lengths) == 1:
        return Guess("number", f"lists of {lengths.pop()} numbers", is_doubtful=True)
    return Guess("ignore", f"{look.kind} of several lengths has no role", is_doubtful=True)


_LARGEST_EXACT = 2**53
"""No float holds larger integers exactly, so nobody counts that far; hashes and random ids do."""


def _guess_integer(look: _Look) -> Guess:
    num_distinct, num_rows = look.count_distinct(), len(look.values)
    if num_distinct == 1:
        return Guess("ignore", "the same in all rows that were looked at", is_doubtful=True)
    lacking = "; drop the rows that lack it if it is to be predicted" if look.values.null_count else ""
    if num_distinct == 2:
        return Guess("number", f"two values: a flag, or what is to be predicted{lacking}", bool(lacking))
    if num_distinct == num_rows and num_rows > _FEW:
        return Guess("key", "another integer in each row", is_doubtful=not look.is_id_name)
    if look.is_id_name:
        return Guess("id", f"{num_distinct:,} distinct integers, by name")
    if pc.max(pc.abs(look.values)).as_py() > _LARGEST_EXACT:
        return Guess("id", "integers that are too large to be amounts")
    if num_distinct <= _FEW:
        reason = f"{num_distinct} distinct integers; id if they only name something{lacking}"
        return Guess("number", reason, is_doubtful=True)
    return _guess_number(look)


def _guess_number(look: _Look) -> Guess:
    if look.is_id_name and look.is_csv:
        return Guess("hash", "by name; its values are no integers", is_doubtful=True)
    options: dict[str, Any] = {"scale": "running"}
    reason = "numbers, which training standardises"
    num_missing = look.values.null_count
    if num_missing > 0:
        options["missing"] = "indicator"
        reason += f"; {num_missing / len(look.values):.0%} are missing"
    return Guess({"number": options}, reason)


def _guess_text(look: _Look) -> Guess:
    known = look.values.drop_null()
    num_distinct = look.count_distinct()
    num_words = pc.mean(pc.add(pc.count_substring_regex(known, r"\S\s+\S"), 1)).as_py()
    odd = look.scanned.odd_texts.get(look.name)
    if odd is not None:
        return Guess("hash", f"numbers and texts: {odd}", is_doubtful=True)
    if num_words >= _WORDS_OF_A_TEXT and num_distinct > _FEW:
        return Guess("text", f"{num_words:.0f} words on average")
    if num_distinct == len(look.values) and num_distinct > _FEW:
        return Guess("key", "another string in each row", is_doubtful=not look.is_id_name)
    if num_distinct == 1:
        return Guess("ignore", "the same in all rows that were looked at", is_doubtful=True)
    return Guess("hash", f"{num_distinct:,} distinct strings")


def _dump(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
