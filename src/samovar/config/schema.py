"""The base of every strict config section. Knows how a config is checked, not which sections there are;
a field's text stands under the field."""

from collections.abc import Mapping
from typing import Any, Self

from pydantic import BaseModel, ConfigDict, ValidationError

from samovar.config.document import dump_config
from samovar.config.parent import without_parent
from samovar.config.problems import find_problems
from samovar.errors import ConfigError, UnknownKey


class Schema(BaseModel):
    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        strict=True,
        allow_inf_nan=False,
        populate_by_name=True,
        use_attribute_docstrings=True,
    )

    @classmethod
    def load(cls, tree: Mapping[str, Any], where: str) -> Self:
        """Checks a whole config and tells everything that is wrong with it in one error."""
        tree = without_parent(tree)
        try:
            # As JSON, strictness still lets a list be a tuple and a string be a path or an enum.
            return cls.model_validate_json(dump_config(tree))
        except ValidationError as error:
            problems = find_problems(cls, tree, error)
        kind = UnknownKey if all(problem.is_unknown_key for problem in problems) else ConfigError
        if len(problems) == 1:
            raise kind(f"{where}: {problems[0]}")
        lines = "".join(f"\n  {problem}" for problem in problems)
        raise kind(f"{where}: {len(problems)} problems, each to be mended in the config or with --conf:{lines}")
