"""`--where "lr>0.01"`: conditions on one column each. Knows values, and not where they come from."""

import fnmatch
import json
import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from samovar.config.diff import show_value
from samovar.config.values import MISSING, same
from samovar.errors import BadInput

_FORM = re.compile(r"\s*(?P<column>[^=!<>~]+?)\s*(?P<sign>==|!=|<=|>=|=|<|>|~)\s*(?P<value>.*?)\s*")
_ORDERS: Mapping[str, Callable[[Any, Any], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


@dataclass(frozen=True)
class Condition:
    column: str
    sign: str
    value: Any
    """As JSON reads it; what is no JSON is a string."""
    text: str

    def holds(self, found: Any) -> bool:
        """A run that has no such value fulfils no condition but `!=`."""
        if self.sign == "!=":
            return not self._is_equal(found)
        if found is MISSING:
            return False
        if self.sign == "~":
            return fnmatch.fnmatchcase(show_value(found), self.text)
        if self.sign in _ORDERS:
            return self._is_ordered(found)
        return self._is_equal(found)

    def _is_equal(self, found: Any) -> bool:
        return same(found, self.value) or (isinstance(found, str) and found == self.text)

    def _is_ordered(self, found: Any) -> bool:
        if _is_number(found) and _is_number(self.value):
            return _ORDERS[self.sign](found, self.value)
        # dates and names have an order too, but none with numbers
        return isinstance(found, str) and not _is_number(self.value) and _ORDERS[self.sign](found, self.text)


def parse_condition(text: str) -> Condition:
    form = _FORM.fullmatch(text)
    if form is None or not form["value"]:
        raise BadInput(
            f"--where {text!r}: expected a column, one of = != < <= > >= ~ and a value: "
            """write, for example, --where "lr>0.01", --where state=finished, --where "name~*/click_*" """.rstrip()
        )
    try:
        value = json.loads(form["value"])
    except ValueError:
        value = form["value"]
    return Condition(form["column"], form["sign"], value, form["value"])


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
