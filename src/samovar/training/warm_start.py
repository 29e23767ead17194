"""What a new model starts from: the state of another (`init_from`), and vectors from files (`pretrained`). Runs nothing
and saves nothing.

    saved state ─▶ renamed by `match`, without what `drop` names ─▶ compared with the model that the script builds
                   what fits is taken, the rest starts as built; a difference that no key allows is an error
    the result is a state of the new model, which `Run.load_model` loads as it loads any other
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import torch

from samovar.config.values import join as join_key
from samovar.config.values import nearest, suggest
from samovar.embeddings import HashEmbedding, HashOptimizer
from samovar.embeddings.state import refit_table
from samovar.embeddings.vectors import read_vectors, vectors_source
from samovar.errors import BadInput, ConfigError, Conflict
from samovar.results import Source, open_directory
from samovar.runner import Run
from samovar.runner.learner import Learner
from samovar.scoring.signature import Signature
from samovar.store import open_store
from samovar.training.parts import check_prefixes, covers, is_covered, join, named_tables, state_parts
from samovar.training.schema import Config, InitFrom

INIT_KEYS = ("init_from", "init_from.model")
"""Where a config may name the model to start from."""
_MOST_SHOWN = 3


@dataclass
class Start:
    """What a model started from: the content of `start.json`."""

    position: Any = None
    """How far the other model was trained."""
    taken: dict[str, str] = field(default_factory=dict)
    """By name in the new model: the name in the other."""
    resized: dict[str, list[int]] = field(default_factory=dict)
    """Of hash tables that were taken: the old and the new dimension."""
    dropped: list[str] = field(default_factory=list)
    """Names in the other model."""
    new: list[str] = field(default_factory=list)
    """Parts that start as the script builds them."""
    optimizers: list[str] = field(default_factory=list)
    """Those whose state was taken."""
    pretrained: dict[str, int] = field(default_factory=dict)
    """By hash table: how many ids got their vectors from a file."""
    rescaled: list[str] = field(default_factory=list)
    """Columns whose numbers were scaled or cut into bins by other statistics than those of the other model."""

    def to_bytes(self) -> bytes:
        """The text of `start.json`."""
        return json.dumps({"format": 1, **asdict(self)}, indent=2).encode() + b"\n"

    def lines(self) -> Iterator[str]:
        """What a user should see."""
        if self.taken or self.dropped or self.new:
            state = ", ".join(self.optimizers) or "none"
            yield f"init_from: took {_count(self.taken)}, dropped {_count(self.dropped)}, new {_count(self.new)}; " + (
                f"state of optimizers: {state}"
            )
        for name, (old, new) in self.resized.items():
            yield f"init_from: {name} resized from dimension {old} to {new}"
        for name in self.rescaled:
            yield f"init_from: column {name!r} was brewed by other statistics than the old model's: weights may not fit"
        for name, count in self.pretrained.items():
            yield f"pretrained: {name} got {count:,} vectors"


def _count(names: Iterable[str]) -> str:
    listed = list(names)
    more = ", …" if len(listed) > _MOST_SHOWN else ""
    return f"{len(listed)} ({', '.join(listed[:_MOST_SHOWN])}{more})" if listed else "0"


def start_model(run: Run, config: Config, signature: Signature) -> Start | None:
    """Load what a run starts from, before its first URI.

    Args:
        run: The run of the new model.
        config: The effective config.
        signature: Of the new model.

    Returns:
        What was loaded; None if the model starts as the script builds it, or as a whole copy of another.

    Raises:
        Conflict: The other model does not fit; names the first differences and the keys that allow them.
        ConfigError: A key names a part that does not exist.
        BadInput: A file of vectors cannot be used, or the columns of a whole copy were scaled by other statistics.
    """
    start = None
    if isinstance(config.init_from, str):
        directory = open_directory(config.init_from)
        Signature.read(directory.store).refuse_other_scales(signature.inputs, "train_data")
        tree = directory.load_model().tree
        _Comparison(tree, run.learner, None).check(config.init_from)
        run.load_model(tree)
    elif config.init_from is not None:
        directory = open_directory(config.init_from.model)
        origin = directory.load_model()
        found = _Comparison(origin.tree, run.learner, config.init_from)
        found.check(config.init_from.model)
        run.load_model(found.adapted())
        start = found.start(origin.position)
        other = Signature.read(directory.store).other_scales(signature.inputs)
        start.rescaled = list(dict.fromkeys(name for name, _ in other))  # several statistics of a column may differ
    if config.pretrained:
        start = start or Start()
        start.pretrained = _set_vectors(run.model, config.pretrained)
    return start


# Lineage


def start_sources(config: Config, recorded: Sequence[Source]) -> list[Source]:
    """The links to what a run starts from. A directory that was started has its own copy, so a model or a file may be
    gone: then it counts as it was recorded."""
    known = {(source.key, source.path): source for source in recorded}

    def link(key: str, path: str, make: Callable[[], Source]) -> Source:
        found = known.get((key, path))
        return found if found is not None and not open_store(path).exists() else make()

    sources = []
    if config.init_from is not None:
        key, path = INIT_KEYS[0], config.init_from
        if isinstance(path, InitFrom):
            key, path = INIT_KEYS[1], path.model
        sources.append(link(key, path, lambda: open_directory(path, "model").as_source(key)))
    for name, file in config.pretrained.items():
        place = join_key("pretrained", name)
        sources.append(link(place, file, partial(vectors_source, place, file)))
    return sources


# What fits


@dataclass(frozen=True)
class _Problem:
    """A difference, and the keys of `init_from` that would allow it."""

    text: str
    drop: str | None = None
    """The saved part that would have to be dropped."""
    needs_resize: bool = False
    is_about_optimizers: bool = False


class _Comparison:
    """A saved state beside the model that is to start from it. Without options, everything has to be equal."""

    def __init__(self, tree: Mapping[str, Any], learner: Learner, options: InitFrom | None) -> None:
        self._tree, self._learner, self._options = tree, learner, options
        self._weights = learner.model.state_dict()
        self._here = {name: (key, table, value) for name, key, table, value in state_parts(self._weights)}
        saved = {name: (key, table, value) for name, key, table, value in state_parts(tree["model"]["weights"])}
        drop, match = (options.drop, options.match) if options is not None else ((), {})
        check_prefixes("init_from.drop", drop, saved, "part of the saved model")
        check_prefixes("init_from.match", match, saved, "part of the saved model")
        self._dropped = [name for name in saved if is_covered(name, drop)]
        self._saved: dict[str, tuple[str, str, str | None, Any]] = {}  # by new name: old name, key, table, value
        for name, part in saved.items():
            if name not in self._dropped:
                self._saved[self._rename(name, match)] = (name, *part)

    def _rename(self, name: str, match: Mapping[str, str]) -> str:
        prefix = max((each for each in match if covers(each, name)), key=len, default=None)
        renamed = name if prefix is None else f"{match[prefix]}{name[len(prefix) :]}".lstrip(".")
        if renamed in self._saved:
            raise ConfigError(
                f"init_from.match: {name!r} and {self._saved[renamed][0]!r} of the saved model both become "
                f"{renamed!r}. Give one of them another name"
            )
        return renamed

    @property
    def _taken(self) -> dict[str, str]:
        return {name: self._saved[name][0] for name in self._here if name in self._saved}

    @property
    def _new(self) -> list[str]:
        return [name for name in self._here if name not in self._saved]

    def check(self, path: str) -> None:
        """Raise `Conflict` with the first differences, and a config that allows all of them."""
        problems = [*self._part_problems(), *self._optimizer_problems()]
        if not problems:
            return
        shown = "; ".join(problem.text for problem in problems[:_MOST_SHOWN])
        more = f"; and {len(problems) - _MOST_SHOWN} more" if len(problems) > _MOST_SHOWN else ""
        given = self._options
        keys: dict[str, Any] = {"model": path} if given is None else given.model_dump(exclude_defaults=True)
        dropped = {problem.drop for problem in problems if problem.drop is not None}
        if dropped:
            others = [old for old, *_ in self._saved.values() if old not in dropped]
            keys["drop"] = [*keys.get("drop", ()), *_shortest(dropped, others)]
        if any(problem.needs_resize for problem in problems):
            keys["resize_embeddings"] = True
        if any(problem.is_about_optimizers for problem in problems):
            keys["optimizers"] = False
        raise Conflict(
            f"init_from: {path} does not fit the model that the script builds: {shown}{more}. Restore the script that "
            f'made it, or take what fits: "init_from": {json.dumps(keys, ensure_ascii=False)}'
        )

    def _part_problems(self) -> Iterator[_Problem]:
        new = self._new
        for name, (old, _, table, value) in self._saved.items():
            if name not in self._here:
                best = nearest(name, new)
                hint = f" (match it to {best!r}?)" if best else ""
                yield _Problem(f"{_describe(old, table, value)} is saved, and the model has no {name!r}{hint}", old)
                continue
            _, here_table, here = self._here[name]
            if table is not None and here_table is not None:
                may_resize = self._options is not None and self._options.resize_embeddings
                if value["dim"] != here["dim"] and not may_resize:
                    yield _Problem(
                        f"hash table {name!r} has dimension {value['dim']} in the saved model and {here['dim']} here",
                        needs_resize=True,
                    )
            elif (table is None) != (here_table is None) or _shape(value) != _shape(here):
                shapes = f"{_describe(old, table, value)} is saved, the model has {_describe(name, here_table, here)}"
                yield _Problem(shapes, old)
        if self._options is None:
            yield from (_Problem(f"{_describe(name, *self._here[name][1:])} is new") for name in new)

    # Optimizers

    def _wants(self, optimizer: str) -> bool:
        wanted = True if self._options is None else self._options.optimizers
        return wanted if isinstance(wanted, bool) else optimizer in wanted

    def _optimizer_problems(self) -> Iterator[_Problem]:
        built, saved = self._learner.named_optimizers, self._tree["optimizers"]
        if self._options is not None and not isinstance(self._options.optimizers, bool):
            for name in self._options.optimizers:
                if name not in built:
                    raise ConfigError(f"init_from.optimizers: no optimizer {name!r}{suggest(name, built)}")
        wanted = self._options is None or self._options.optimizers is True
        for name in saved.keys() - built.keys() if wanted else ():
            yield _Problem(
                f"the optimizer {name!r} is saved, and the script does not build it", is_about_optimizers=True
            )
        for name, optimizer in built.items():
            if not self._wants(name):
                continue
            if name not in saved:
                yield _Problem(
                    f"the script builds the optimizer {name!r}, which is not saved", is_about_optimizers=True
                )
            elif isinstance(optimizer, HashOptimizer):
                yield from self._kind_problems(name)
            elif (reason := self._misfit(optimizer, saved[name])) is not None:
                yield _Problem(
                    f"the state of the optimizer {name!r} cannot be taken: {reason}", is_about_optimizers=True
                )

    def _kind_problems(self, optimizer: str) -> Iterator[_Problem]:
        owners = self._owners()
        for name in self._taken:
            key, table, here = self._here[name]
            value = self._saved[name][3]
            is_own = table is not None and owners.get(key) == optimizer
            if is_own and "optimizer" in value and value["optimizer"] != here["optimizer"]:
                yield _Problem(
                    f"hash table {name!r} was trained with {value['optimizer']}, and now has {here['optimizer']}",
                    is_about_optimizers=True,
                )

    def _owners(self) -> dict[str, str]:
        """By key in the state of a HashEmbedding: the name of its optimizer."""
        modules = dict(self._learner.model.named_modules(remove_duplicate=False))
        return {
            join(place, "_extra_state"): name
            for name, optimizer in self._learner.named_optimizers.items()
            if isinstance(optimizer, HashOptimizer)
            for place, module in modules.items()
            if any(module is each for each in optimizer.embeddings)
        }

    def _misfit(self, optimizer: Any, saved: Mapping[str, Any]) -> str | None:
        """Why a saved state of a torch optimizer does not belong to the parameters that it has now. A state counts
        parameters and does not name them, so it is taken whole, and only if their order is known to be the same."""
        names: dict[int, str] = {}
        for name, parameter in self._learner.model.named_parameters(remove_duplicate=False):
            names.setdefault(id(parameter), name)
        groups = [[names.get(id(each)) for each in group["params"]] for group in optimizer.param_groups]
        own = [name for group in groups for name in group if name in self._here]  # others have no name in the state
        new = next((name for name in own if name not in self._taken), None)
        if new is not None:
            return f"{new!r} is new"
        if not saved.keys() >= {"state", "param_groups"}:  # a layout of its own
            return None
        if [len(group) for group in groups] != [len(group["params"]) for group in saved["param_groups"]]:
            return "it was made for another number of parameters"
        places_here = {name: place for place, name in enumerate(self._here)}
        places_saved = {old: place for place, old in enumerate(self._tree["model"]["weights"])}
        here, before = [places_here[name] for name in own], [places_saved[self._taken[name]] for name in own]
        is_same = _order(here) == _order(before) and _has_shapes(optimizer, saved)
        return None if is_same else "its parameters have another order or other shapes"

    # The state to load

    def start(self, position: Any) -> Start:
        saved = self._tree["optimizers"]
        resized = {
            name: [self._saved[name][3]["dim"], here["dim"]]
            for name, (_, table, here) in self._here.items()
            if name in self._saved and table is not None and self._saved[name][3]["dim"] != here["dim"]
        }
        optimizers = [name for name in self._learner.named_optimizers if self._wants(name) and name in saved]
        return Start(position, self._taken, resized, self._dropped, self._new, optimizers)

    def adapted(self) -> dict[str, Any]:
        """A state of the model here, with all that is taken from the saved one."""
        tree = dict(self._tree)
        metadata = getattr(self._weights, "_metadata", {})
        weights = {key: self._adapt(key, value) for key, value in self._weights.items()}
        tree["model"] = {"weights": weights, "metadata": {name: dict(each) for name, each in metadata.items()}}
        tree["optimizers"] = {
            name: self._tree["optimizers"][name]
            if self._wants(name) and not isinstance(optimizer, HashOptimizer)
            else optimizer.state_dict()
            for name, optimizer in self._learner.named_optimizers.items()
        }
        own = getattr(self._learner.loss, "state_dict", None)
        tree["loss"] = None if own is None else self._tree["loss"] or dict(own())
        return tree

    def _adapt(self, key: str, value: Any) -> Any:
        parts = {name: table for name, (where, table, _) in self._here.items() if where == key}
        if None in parts.values():
            (name,) = parts
            return self._saved[name][3] if name in self._saved else value
        module = self._learner.model.get_submodule(key.removesuffix("_extra_state").removesuffix("."))
        assert isinstance(module, HashEmbedding)
        owner = self._owners().get(key)
        keeps_state = owner is not None and self._wants(owner)
        clock, tables = value["clock"], dict(value["tables"])
        for name, table in parts.items():
            if table is not None and name in self._saved:
                _, saved_key, _, saved = self._saved[name]
                tables[table] = refit_table(saved, module, table, keeps_state=keeps_state)
                clock = max(clock, self._tree["model"]["weights"][saved_key]["clock"])
        return {"clock": clock, "tables": tables}


def _order(places: list[int]) -> list[int]:
    return sorted(range(len(places)), key=places.__getitem__)


def _has_shapes(optimizer: Any, saved: Mapping[str, Any]) -> bool:
    """Whether saved moments have the shapes of the parameters that they would belong to."""
    numbers = [number for group in saved["param_groups"] for number in group["params"]]
    parameters = [each for group in optimizer.param_groups for each in group["params"]]
    return all(
        value.shape == parameter.shape
        for number, parameter in zip(numbers, parameters, strict=True)
        for value in saved["state"].get(number, {}).values()
        if isinstance(value, torch.Tensor) and value.numel() > 1
    )


def _shape(value: Any) -> Any:
    return list(value.shape) if isinstance(value, torch.Tensor) else None


def _describe(name: str, table: str | None, value: Any) -> str:
    if table is not None:
        return f"hash table {name!r}"
    return f"{name!r} {_shape(value)}" if isinstance(value, torch.Tensor) else repr(name)


def _shortest(names: Iterable[str], others: Sequence[str]) -> list[str]:
    """The shortest prefixes that cover all names and none of the others."""
    found: dict[str, None] = {}
    for name in sorted(names):
        parts = name.split(".")
        prefixes = (".".join(parts[:count]) for count in range(1, len(parts) + 1))
        found[next(each for each in prefixes if not any(covers(each, other) for other in others))] = None
    return list(found)


# Vectors from files


def _set_vectors(model: torch.nn.Module, files: Mapping[str, str]) -> dict[str, int]:
    tables = named_tables(model)
    counts = {}
    for name, path in files.items():
        if name not in tables:
            raise ConfigError(f"pretrained: no hash table {name!r}{suggest(name, tables)}")
        module, table = tables[name]
        counts[name] = 0
        try:
            for ids, vectors in read_vectors(Path(path), module.dim_of(table)):
                module.set_weights(table, ids, vectors)
                counts[name] += len(ids)
        except BadInput as error:
            raise BadInput(f"{join_key('pretrained', name)}: {error}") from error
    return counts
