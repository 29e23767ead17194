"""Strict JSON: rejects what two parsers could read differently, such as duplicate keys, NaN and numbers that overflow.
Errors point at the line. Knows no files and no schema.
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
    """Parse a text; `where` is its name in errors."""
    try:
        return _parse_plain(text)
    except ValueError:
        return _parse_carefully(text, where)


def _parse_plain(text: str) -> Any:
    """Ten times as fast as checking every token. A `ValueError` means that the text may need those checks."""
    if "\\u" in text or text.count("{") + text.count("[") > MAX_DEPTH:
        raise ValueError("may have half of a surrogate pair, or be too deep")
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


def _parse_carefully(text: str, where: str) -> Any:
    source = _Source(text, where)
    try:
        tree = json.loads(text)
    except json.JSONDecodeError as error:
        raise source.broken(error) from None
    except RecursionError:
        raise source.too_deep(0) from None
    except ValueError:  # the only case left: an integer with more digits than Python reads
        raise ConfigError(
            f"{where}: an integer has more than {sys.get_int_max_str_digits()} digits. Write it as a string"
        ) from None
    _check_tokens(source)
    return tree


@dataclass(frozen=True)
class _Source:
    text: str
    where: str

    def broken(self, error: json.JSONDecodeError) -> ConfigError:
        is_end = error.pos == len(self.text)
        position = len(self.text.rstrip()) if is_end else error.pos  # the last line that is not empty
        found = "the end of the text" if is_end else repr(self.text[error.pos])
        expected = _EXPECTED.get(error.msg, f"valid JSON ({error.msg})")
        rules = "JSON has only double quotes, no comments and no comma after the last entry"
        return self.fault(position, f"invalid JSON: expected {expected}, got {found}. {rules}")

    def too_deep(self, position: int) -> ConfigError:
        return self.fault(position, f"more than {MAX_DEPTH} nested levels")

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
    """An object or list that is open at the current position."""

    path: str
    first_seen: dict[str, int] | None
    key: str = ""
    index: int = 0

    def place(self) -> str:
        return at(self.path, self.index) if self.first_seen is None else join(self.path, self.key)


def _check_tokens(source: _Source) -> None:
    """Check a text that `json` has accepted, so its tokens are well-formed and well-nested."""
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
        raise source.fault(position, f"duplicate key {frame.place()!r}, first given on line {first}")
    frame.first_seen[key] = position


def _check_string(source: _Source, position: int, token: str) -> str:
    string: str = json.loads(token)
    try:
        string.encode()
    except UnicodeEncodeError:
        raise source.fault(position, "a string has half of a surrogate pair, which UTF-8 cannot hold") from None
    return string


def _check_number(source: _Source, position: int, token: str, place: str) -> None:
    is_number = token not in ("true", "false", "null")
    # An integer of any size is exact; only a point or an exponent makes a float that can overflow.
    if is_number and not token.lstrip("-").isdecimal() and not math.isfinite(float(token)):
        raise source.fault(position, f"{place or 'the config'} must be a finite number, got {token}")
