"""Column roles: the short way to say what the columns of a recipe become, `"columns": {"user": "id"}`, and the factor
lists, which are the long form of the same. Checks nothing: the recipe's schema does (brewing/recipe.py)."""

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final

from samovar.config.values import Tree, is_object_list

LISTS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "id": "categorical_factors",
        "id_sequence": "unravelled_categorical_factors",
        "hash": "hashed_factors",
        "text": "text_factors",
        "number": "realvalue_factors",
        "key": "keys",
    }
)
"""The recipe key that is the long form of each role."""
TIME: Final = "time"
IGNORE: Final = "ignore"
ROLES: Final = (*LISTS, TIME, IGNORE)
OPTIONS: Final = ("scale", "bins", "missing")
"""The recipe keys that are the long form of the options of those names: real-valued columns to their option."""
STANDARD: Final = "standard"
"""The scale that brewing applies; the other one, "running", is training's."""
_DEFAULT_TEXT: Final = {"words": 1}


def roles_of(value: Any) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The roles of one column, each with its options: `"id"`, `["id", "key"]`, `{"text": {"words": 2}}` or
    `{"number": {"scale": "running"}}`."""
    for item in value if isinstance(value, list | tuple) else [value]:
        if isinstance(item, Mapping):
            yield from ((role, options) for role, options in item.items() if options is not None)
        else:
            yield item, _DEFAULT_TEXT if item == "text" else {}


def expand(columns: Mapping[str, Any]) -> Tree:
    """The long form of a mapping of roles: the lists that are not empty, and `time_field`."""
    lists: Tree = {}
    for column, value in columns.items():
        for role, options in roles_of(value):
            if role == "text":
                lists.setdefault(LISTS[role], {})[column] = dict(options)
            elif role in LISTS:
                lists.setdefault(LISTS[role], []).append(column)
                for name in OPTIONS:
                    if options.get(name) is not None:
                        lists.setdefault(name, {})[column] = options[name]
            elif role == TIME:
                lists["time_field"] = column
    return lists


def long_form(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """A recipe without roles, which makes the same table. Any other config stays as it is."""
    if not has_roles(config):
        return config
    recipe = _expand_table(config)
    if is_object_list(recipe.get("tables")):
        recipe["tables"] = [_expand_table(table) for table in recipe["tables"]]
    return recipe


def has_roles(config: Mapping[str, Any]) -> bool:
    tables = config["tables"] if is_object_list(config.get("tables")) else []
    return any(_is_mapping_of_roles(table.get("columns")) for table in (config, *tables))


def _is_mapping_of_roles(value: Any) -> bool:
    """Not if it is a mistake, or some other config's key of that name."""
    if not isinstance(value, Mapping):
        return False
    pairs = [pair for each in value.values() for pair in roles_of(each)]
    return all(isinstance(role, str) and role in ROLES and isinstance(options, Mapping) for role, options in pairs)


def _expand_table(table: Mapping[str, Any]) -> Tree:
    columns = table.get("columns", {})
    if not _is_mapping_of_roles(columns):
        return dict(table)
    recipe = {key: value for key, value in table.items() if key != "columns"}
    for key, found in expand(columns).items():
        given = recipe.get(key)
        if isinstance(found, list) and given:
            recipe[key] = [*given, *found]
        elif isinstance(found, dict) and given:
            recipe[key] = {**given, **found}
        else:
            recipe[key] = found
    return recipe
