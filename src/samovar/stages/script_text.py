"""Which config keys a script reads, and their defaults, found in its text. Runs nothing, so it sees only names, and
defaults that are literals or constants of their module.
"""

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from samovar.config import MISSING, ChangedDefault, Ledger
from samovar.config.values import did_you_mean, nearest, plain, same, split
from samovar.errors import UnknownKey
from samovar.training.script import Script


@dataclass(frozen=True)
class ScriptText:
    names: frozenset[str]
    """Every identifier and string."""
    keys: frozenset[str]
    """The names that are used like keys: `params.lr`, `params["lr"]`, `params.get("lr", …)`."""
    defaults: Mapping[str, list[Any]]
    """By key: the second argument of each `get`, or `MISSING` if it is computed."""

    def check_keys(self, keys: list[str], where: str) -> None:
        """Raise `UnknownKey` for a flat config key whose name the script never mentions."""
        for key in keys:
            name = _last_name(key)
            if name in self.names:
                continue
            guess = did_you_mean(nearest(name, self.keys)) or "."
            raise UnknownKey(
                f"{where}: the script does not read {key}{guess} Remove the key, or call "
                f'params.retired("{name}") in the script'
            )

    def changed_defaults(self, old: Ledger) -> list[ChangedDefault]:
        """Defaults that an earlier run used and that the script no longer has for their key."""
        changes = []
        for path, record in sorted(old.records.items()):
            now = self.defaults.get(_last_name(path), [])
            is_known = bool(now) and MISSING not in now and not record.is_present
            gone = [value for value in record.defaults if not any(same(value, each) for each in now)]
            if is_known and gone:
                changes.append(ChangedDefault(path, gone[0], now[0] if len(now) == 1 else sorted(now, key=repr)))
        return changes


def _last_name(path: str) -> str:
    return str(next(part for part in reversed(split(path)) if isinstance(part, str)))


def read_text(script: Script) -> ScriptText:
    """Read the script and every local module that it imports."""
    sources = [script.source, *(path.read_bytes() for path in script.modules.values())]
    names: set[str] = set()
    keys: set[str] = set()
    defaults: dict[str, list[Any]] = {}
    for tree in map(ast.parse, sources):
        constants = dict(_constants(tree))
        for node in ast.walk(tree):
            names.update(_names(node))
            keys.update(_keys(node))
            for key, default in _defaults(node):
                defaults.setdefault(key, []).append(_value(default, constants))
    return ScriptText(frozenset(names), frozenset(keys), defaults)


def _names(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Name):
        yield node.id
    elif isinstance(node, ast.Attribute):
        yield node.attr
    elif isinstance(node, ast.arg | ast.keyword) and node.arg is not None:
        yield node.arg
    elif isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value


def _keys(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        yield node.attr
    elif isinstance(node, ast.Subscript):
        yield from _names(node.slice)
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "get":
        yield from (name for argument in node.args[:1] for name in _names(argument))


def _defaults(node: ast.AST) -> Iterator[tuple[str, ast.expr]]:
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "get":
        named = {each.arg: each.value for each in node.keywords}
        arguments = [*node.args, *([named["default"]] if "default" in named else [])]
        if arguments and isinstance(arguments[0], ast.Constant) and isinstance(arguments[0].value, str):
            yield arguments[0].value, arguments[1] if len(arguments) > 1 else ast.Constant(None)


def _constants(tree: ast.Module) -> Iterator[tuple[str, ast.expr]]:
    for node in tree.body:
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
            yield node.targets[0].id, node.value
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value is not None:
            yield node.target.id, node.value


def _value(node: ast.expr, constants: Mapping[str, ast.expr]) -> Any:
    if isinstance(node, ast.Name):
        node = constants.get(node.id, node)
    try:
        return plain(ast.literal_eval(node))
    except ValueError:
        return MISSING
