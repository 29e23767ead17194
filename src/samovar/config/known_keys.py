"""Which keys a schema knows at some place of a config, for "did you mean". Reads pydantic's field tables
and checks nothing itself."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, get_args

from pydantic import AliasChoices, BaseModel
from pydantic.fields import FieldInfo

from samovar.config.nearest import nearest
from samovar.config.paths import at, join
from samovar.config.wrong_places import Member


@dataclass(frozen=True)
class KnownKeys:
    path: str
    fields: Mapping[str, FieldInfo]
    """By every name that is accepted for them."""
    names: tuple[str, ...]
    elsewhere: Mapping[str, str]
    """The name of every field in the whole schema, with a path where it may stand."""

    def nearest(self, name: str) -> str | None:
        """The full path of the key that was probably meant, here or in another section."""
        best = nearest(name, self.fields)
        if best:
            return join(self.path, best)
        other = self.elsewhere.get(name)  # the very place, if only another member of a union has the key
        return other if other != join(self.path, name) else None

    def twin(self, name: str) -> str | None:
        """The main name of the field, if `name` is accepted for it."""
        field = self.fields.get(name)
        return next((main for main in self.names if main != name and self.fields[main] is field), None)

    def about(self, name: str) -> str:
        """The field's own text, as a remark."""
        field = self.fields.get(name)
        return f" ({' '.join(field.description.split())})" if field and field.description else ""


def known_keys(schema: type[BaseModel], steps: Iterable[str | int | Member]) -> KnownKeys:
    """The keys of the section that holds the place to which `steps` lead."""
    models, path = [schema], ""
    for step in _all_but_last_key(steps):
        if isinstance(step, Member):
            models = [model for model in models if model.__name__ == step.name] or models
            continue
        path = at(path, step) if isinstance(step, int) else join(path, step)
        field = _accepted(models).get(step) if isinstance(step, str) else None
        # An index, or a key of a plain dict, leads to the models that the field has already named.
        models = list(_models_in(field.annotation)) if field else models
    names = tuple(dict.fromkeys(name for model in models for name in model.model_fields))
    return KnownKeys(path, _accepted(models), names, dict(_all_paths(schema, "", ())))


def _all_but_last_key(steps: Iterable[str | int | Member]) -> list[str | int | Member]:
    section = list(steps)
    while section and isinstance(section.pop(), Member):
        pass
    return section


def _accepted(models: Iterable[type[BaseModel]]) -> dict[str, FieldInfo]:
    fields: dict[str, FieldInfo] = {}
    for model in models:
        for name, field in model.model_fields.items():
            alias = field.validation_alias
            aliases = alias.choices if isinstance(alias, AliasChoices) else [alias]
            for accepted in (name, *aliases):
                if isinstance(accepted, str):
                    fields.setdefault(accepted, field)
    return fields


def _models_in(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for argument in get_args(annotation):
        yield from _models_in(argument)


def _all_paths(schema: type[BaseModel], path: str, above: tuple[type[BaseModel], ...]) -> Iterator[tuple[str, str]]:
    """Deepest first, so that in a dict made of these the place nearest the top wins."""
    if schema in above:  # a schema that contains itself
        return
    for name, field in schema.model_fields.items():
        for model in _models_in(field.annotation):
            yield from _all_paths(model, join(path, name), (*above, schema))
    for name in schema.model_fields:
        yield name, join(path, name)
