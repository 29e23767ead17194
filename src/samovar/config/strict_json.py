"""JSON text to a tree, refusing what two readers could understand differently: a key given twice, NaN,
a number past infinity. Points at the line. Knows no files and does not care what the tree means.
"""

import json
import math
import re
import sys
from dataclasses import dataclass
from typing import Any

from samovar.config.values import at, join
from samovar.errors import ConfigError

MAX_DEPTH = 100

_TOKEN = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"|[{}\[\]:,]|[^\s{}\[\]:,"]+')
_EXCERPT_MARGIN = 50
_EXPECTED = {
    "Expecting value": "a value",
    "Expecting ',' delimiter": "a comma or a closing bracket",
    "Expecting ':' delimiter": "a colon",
    "Expecting property name enclosed in double quotes": "a key in double quotes",
    "Extra data": "nothing after the last bracket",
    "Unterminated string starting at": "a closing quote",
    "Invalid control character at": "a closing quote, or an escape such as \\n",
}


def parse_json(text: str, where: str) -> Any:
    try:
        return _parse_plain(text)
    except ValueError:
        return _parse_with_care(text, where)


def _parse_plain(text: str) -> Any:
    """Ten times as fast as looking at every token; a `ValueError` for all that may need a look."""
    if "\\u" in text or text.count("{") + text.count("[") > MAX_DEPTH:
        raise ValueError("perhaps half of a surrogate pair, or too deep")
    text.encode()
    return json.loads(text, object_pairs_hook=_unique, parse_float=_finite, parse_constant=_finite)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    tree = dict(pairs)
    if len(tree) < len(pairs):
        raise ValueError("a duplicate key")
    return tree


def _finite(token: str) -> float:
    number = float(token)
    if not math.isfinite(number):
        raise ValueError(token)
    return number


def _parse_with_care(text: str, where: str) -> Any:
    source = _Source(text, where)
    try:
        tree = json.loads(text)
    except json.JSONDecodeError as error:
        raise source.broken(error) from None
    except RecursionError:
        raise source.too_deep(0) from None
    except ValueError:  # all that is left: an integer with more digits than Python reads
        found = f"found an integer of more than {sys.get_int_max_str_digits()} digits"
        raise ConfigError(f"{where}: {found}, expected a number that Python can read: shorten it") from None
    _check_tokens(source)
    return tree


@dataclass(frozen=True)
class _Source:
    text: str
    where: str

    def broken(self, error: json.JSONDecodeError) -> ConfigError:
        is_end = error.pos == len(self.text)
        position = len(self.text.rstrip()) if is_end else error.pos  # the last line that has something on it
        found = "the end of the text" if is_end else repr(self.text[error.pos])
        expected = _EXPECTED.get(error.msg, f"valid JSON ({error.msg})")
        cure = "mend this line (double quotes only, no comments, no comma after the last entry)"
        return self.fault(position, f"broken JSON, found {found}, expected {expected}: {cure}")

    def too_deep(self, position: int) -> ConfigError:
        return self.fault(position, f"found more than {MAX_DEPTH} nested levels, expected a config: flatten it")

    def fault(self, position: int, text: str) -> ConfigError:
        line, column = self.line_at(position), position - self.text.rfind("\n", 0, position)
        return ConfigError(f"{self.where}, line {line}, column {column}: {text}\n{self._excerpt(position)}")

    def line_at(self, position: int) -> int:
        return self.text.count("\n", 0, position) + 1

    def _excerpt(self, position: int) -> str:
        begin = self.text.rfind("\n", 0, position) + 1
        end = self.text.find("\n", position)
        end = len(self.text) if end < 0 else end
        begin, end = max(begin, position - _EXCERPT_MARGIN), min(end, position + _EXCERPT_MARGIN)
        line = self.text[begin:end].rstrip().replace("\t", " ")  # a tab would move the caret
        return f"  {line}\n  {' ' * (position - begin)}^"


@dataclass
class _Frame:
    """One object or list that is open where the scan stands."""

    path: str
    first_seen: dict[str, int] | None
    key: str = ""
    index: int = 0

    def place(self) -> str:
        return at(self.path, self.index) if self.first_seen is None else join(self.path, self.key)


def _check_tokens(source: _Source) -> None:
    """`json` has already accepted the text, so the tokens are well-formed and well-nested."""
    frames: list[_Frame] = []
    previous = ""
    for match in _TOKEN.finditer(source.text):
        token, position = match.group(), match.start()
        place = frames[-1].place() if frames else ""
        if token in ("{", "["):
            if len(frames) == MAX_DEPTH:
                raise source.too_deep(position)
            frames.append(_Frame(place, {} if token == "{" else None))
        elif token in ("}", "]"):
            frames.pop()
        elif token == ",":
            frames[-1].index += 1
        elif token.startswith('"'):
            string = _check_string(source, position, token)
            if previous in ("{", ",") and frames[-1].first_seen is not None:
                _enter_key(source, position, frames[-1], string)
        elif token != ":":
            _check_number(source, position, token, place)
        previous = token


def _enter_key(source: _Source, position: int, frame: _Frame, key: str) -> None:
    assert frame.first_seen is not None
    frame.key = key
    if key in frame.first_seen:
        first = source.line_at(frame.first_seen[key])
        found = f"duplicate key {frame.place()!r}, first given on line {first}"
        raise source.fault(position, f"{found}, expected each key once: keep one of the two")
    frame.first_seen[key] = position


def _check_string(source: _Source, position: int, token: str) -> str:
    string: str = json.loads(token)
    try:
        string.encode()
    except UnicodeEncodeError:
        found = "found half of a surrogate pair in a string"
        raise source.fault(position, f"{found}, expected text that UTF-8 can hold: rewrite it") from None
    return string


def _check_number(source: _Source, position: int, token: str, place: str) -> None:
    is_number = token not in ("true", "false", "null")
    # An integer of any size is exact; only a point or an exponent makes a float that can overflow.
    if is_number and not token.lstrip("-").isdecimal() and not math.isfinite(float(token)):
        cure = "write a finite number, null, or leave the key out"
        raise source.fault(position, f"{place or 'the config'}: found {token}, expected a finite number: {cure}")
