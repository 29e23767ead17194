"""The dense part of a frozen model as a list of operations, run one by one. Data, not code: what it may do is listed in
operators.py, and everything is checked before it runs. Knows no hash tables and no files.

    program.json   {"format": 1, "inputs": […], "weights": ["top.weight", …], "nodes": […], "outputs": {"score": 17}, …}

Values are numbered: inputs first, then weights, then one per node. A node is {"op", "args", "kwargs"}, and its
arguments are JSON with {"value": n} for an earlier value. So there are no cycles, no names and no branches.
"""

import json
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Annotated, Any, Final, Literal, Self, TypeAlias

import torch
from pydantic import Field

from samovar.config.records import Count, read_object, read_record
from samovar.errors import BadInput, CorruptData
from samovar.scoring.operators import MEMORY_FORMATS, TYPES, WITHOUT_STRIDES, find, find_side_effect

FORMAT: Final = 1
MAX_DIM: Final = 512
Part: TypeAlias = Literal["values", "ids", "lengths", "pooled"]
Values: TypeAlias = Sequence[torch.Tensor]
_MAX_BYTES = 1 << 31
"""Of the values that one operation makes for a tile of rows."""
_META = torch.device("meta")


@dataclass(frozen=True)
class Lookup:
    """The bags of a column, looked up as a feature of a hash embedding."""

    embedding: str
    feature: str
    column: str


@dataclass(frozen=True)
class ProgramInput:
    """A tensor that a program starts from: the values of a real column, the ids or lengths of a categorical one, or the
    outputs of the lookup of that number."""

    part: Part
    name: str


@dataclass(frozen=True)
class EmbeddingPlan:
    """How a hash embedding is built."""

    features: Mapping[str, Annotated[int, Field(ge=1, le=MAX_DIM)]]
    tables: Mapping[str, str]
    """The table of each feature."""
    means: tuple[str, ...]
    """The features whose bags are averaged; those of others are added up."""
    ttl: Mapping[str, Annotated[int, Field(ge=0, lt=2**32)] | None]
    """By table. None: its rows never expire."""


@dataclass(frozen=True)
class Node:
    """One operation."""

    op: str
    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Program:
    """A frozen model: what is looked up, and what is computed from it.

    Attributes:
        embeddings: The hash embeddings, by their path in the model.
        lookups: What is looked up in them.
        inputs: The first values.
        weights: The names of the next ones.
        nodes: One operation per further value.
        outputs: The value of each output; the name of a single one is empty.
        num_threads: Threads that a score may depend on.
        is_exact: Whether rows are scored in tiles, so that none depends on its neighbours.
        num_rows: How many rows it computes at a time. None: any number.

    Example:
        >>> node = Node("aten.mul.Tensor", ({"value": 0}, 2))
        >>> program = Program({}, (), (ProgramInput("values", "price"),), (), (node,), {"": 1}, 1)
        >>> program.run([torch.tensor([1.0, 3.0])], [])
        {'': tensor([2., 6.])}
    """

    embeddings: Mapping[str, EmbeddingPlan]
    lookups: tuple[Lookup, ...]
    inputs: tuple[ProgramInput, ...]
    weights: tuple[str, ...]
    nodes: tuple[Node, ...]
    outputs: Mapping[str, Count]
    num_threads: Annotated[int, Field(ge=1, le=4096)]
    is_exact: bool = True
    num_rows: Annotated[int, Field(ge=1, le=4096)] | None = None
    format: int = FORMAT

    def to_bytes(self) -> bytes:
        """The text of `program.json`."""
        return json.dumps(_plain(self), allow_nan=False, indent=1).encode() + b"\n"

    @classmethod
    def from_bytes(cls, data: bytes, where: str) -> Self:
        """Read the file. Nothing is run; see `check`.

        Raises:
            CorruptData: It is damaged, of another version, or uses what a program may not.
        """
        form = read_object(data, where).get("format")
        if form != FORMAT:
            raise CorruptData(f"{where}: format {form!r} is not the one that this Samovar reads, {FORMAT}")
        program = read_record(cls, data, where)
        try:
            _ = program._steps
        except ValueError as error:
            raise CorruptData(f"{where}: {error}") from error
        return program

    def run(self, inputs: Values, weights: Values) -> dict[str, Any]:
        """Compute the outputs.

        Args:
            inputs: In the order of `inputs`.
            weights: In the order of `weights`.
        """
        values: list[Any] = [*inputs, *weights, *[None] * len(self.nodes)]
        number = len(inputs) + len(weights)
        for call, make_arguments, kwargs, done in self._steps:
            values[number] = call(*make_arguments(values), **kwargs)
            number += 1
            for each in done:
                values[each] = None
        return {name: values[number] for name, number in self.outputs.items()}

    def check(self, inputs: Values, weights: Values, where: str) -> None:
        """Compute the shapes of all values, without any numbers.

        Args:
            inputs: Examples for a tile of rows.
            weights: Those that `run` will get.
            where: The name of the program, for errors.

        Raises:
            CorruptData: An operation does not fit its arguments, or its result is too large.
        """
        values: list[Any] = [torch.empty_like(each, device=_META) for each in (*inputs, *weights)]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for number, (node, step) in enumerate(zip(self.nodes, self._steps, strict=True)):
                call, make_arguments, kwargs, _ = step
                call = find(WITHOUT_STRIDES.get(node.op, node.op)) or call
                try:
                    on_meta = {**kwargs, "device": _META} if "device" in _argument_names(node.op) else kwargs
                    with torch.device(_META):
                        made = call(*make_arguments(values), **on_meta)
                    if _num_bytes(made) > _MAX_BYTES:
                        raise ValueError(f"its result has {_num_bytes(made):,} bytes")
                except Exception as error:
                    reason = str(error).partition("\n")[0]
                    raise CorruptData(f"{where}: node {number}, {node.op}: {reason}") from error
                values.append(made)
        for name, number in self.outputs.items():
            if not isinstance(values[number], torch.Tensor):
                raise CorruptData(f"{where}: the output {name!r} is no tensor")

    @cached_property
    def _steps(self) -> list["_Step"]:
        """The operations, ready to be called; ValueError for what a program may not have."""
        num_given = len(self.inputs) + len(self.weights)
        if len(set(self.weights)) < len(self.weights):
            raise ValueError("two weights have one name")
        for lookup in self.lookups:
            if lookup.embedding not in self.embeddings:
                raise ValueError(f"a lookup in {lookup.embedding!r}, which it does not have")
            if lookup.feature not in self.embeddings[lookup.embedding].features:
                raise ValueError(f"a lookup of {lookup.feature!r}, which {lookup.embedding!r} does not have")
        for each in self.inputs:
            if each.part == "pooled" and not (each.name.isdecimal() and int(each.name) < len(self.lookups)):
                raise ValueError(f"an input is the lookup {each.name!r}, of {len(self.lookups)}")
        for name, number in self.outputs.items():
            if number >= num_given + len(self.nodes):
                raise ValueError(f"the output {name!r} is value {number}, which it does not have")
        steps = [_make_step(node, num_given + number) for number, node in enumerate(self.nodes)]
        return _with_ends(steps, num_given, set(self.outputs.values()), self.nodes)


MakeArguments: TypeAlias = Callable[[list[Any]], list[Any]]
_Step: TypeAlias = tuple[Callable[..., Any], MakeArguments, dict[str, Any], tuple[int, ...]]
"""What is called, its arguments, and the values that are not needed any more."""


def _make_step(node: Node, number: int) -> _Step:
    call = find(node.op)
    if call is None:
        raise ValueError(f"node {number}: a program may not use {node.op!r}")
    names = _argument_names(node.op)
    if len(node.args) > len(names) or not set(node.kwargs) <= set(names):
        raise ValueError(f"node {number}: {node.op} takes the arguments {', '.join(names)}")
    reason = find_side_effect(node.op, {**dict(zip(names, node.args, strict=False)), **node.kwargs})
    if reason is not None:
        raise ValueError(f"node {number}: {node.op} may not be used so: {reason}")
    for used in _values_of([*node.args, *node.kwargs.values()]):
        if used >= number:
            raise ValueError(f"node {number}: uses value {used}, which is not computed before it")
    kwargs = {name: _constant(value) for name, value in node.kwargs.items()}
    return call, _make_arguments(node.args), kwargs, ()


def _argument_names(op: str) -> list[str]:
    found = find(op)
    schema = getattr(found, "_schema", None)
    return ["a", "b"] if schema is None else [argument.name for argument in schema.arguments]


def _make_arguments(args: Sequence[Any]) -> MakeArguments:
    """Only arguments that are values are looked up in each run."""
    template = [None if _reads_values(each) else _constant(each) for each in args]
    places = [(place, each) for place, each in enumerate(args) if _reads_values(each)]
    plain = [(place, each["value"]) for place, each in places if isinstance(each, Mapping)]
    nested = [(place, each) for place, each in places if not isinstance(each, Mapping)]

    def make(values: list[Any]) -> list[Any]:
        arguments = template.copy()
        for place, number in plain:
            arguments[place] = values[number]
        for place, each in nested:
            arguments[place] = _fill(each, values)
        return arguments

    return make


def _fill(argument: Any, values: list[Any]) -> Any:
    if isinstance(argument, Mapping) and "value" in argument:
        return values[argument["value"]]
    return [_fill(each, values) for each in argument] if isinstance(argument, list | tuple) else _constant(argument)


def _reads_values(argument: Any) -> bool:
    return bool(_values_of([argument]))


def _values_of(arguments: Sequence[Any]) -> list[int]:
    """The values that arguments name; ValueError for one that is none."""
    found: list[int] = []
    for each in arguments:
        if isinstance(each, list | tuple):
            found += _values_of(each)
        elif isinstance(each, Mapping) and "value" in each:
            number = each["value"]
            if type(number) is not int or number < 0 or len(each) > 1:
                raise ValueError(f"{number!r} is not the number of a value")
            found.append(number)
    return found


def _constant(argument: Any) -> Any:
    if isinstance(argument, list | tuple):
        return [_constant(each) for each in argument]
    if not isinstance(argument, Mapping):
        return argument
    tag, value = next(iter(argument.items()), ("", None))
    known: Mapping[str, Mapping[Any, Any]] = {"dtype": TYPES, "memory_format": MEMORY_FORMATS, "float": _FLOATS}
    if len(argument) == 1 and tag in known and isinstance(value, str) and value in known[tag]:
        return known[tag][value]
    raise ValueError(f"an argument cannot be {dict(argument)!r}")


_FLOATS: Final = {"inf": float("inf"), "-inf": float("-inf"), "nan": float("nan")}


def _with_ends(steps: list[_Step], num_given: int, outputs: set[int], nodes: Sequence[Node]) -> list[_Step]:
    """The same steps, each with the values that are used for the last time."""
    last = {number: number for number in range(num_given, num_given + len(nodes))}
    for number, node in enumerate(nodes, num_given):
        for used in _values_of([*node.args, *node.kwargs.values()]):
            last[used] = number
    ends: list[list[int]] = [[] for _ in nodes]
    for used, number in last.items():
        if used not in outputs and number >= num_given:
            ends[number - num_given].append(used)
    return [(*step[:3], tuple(done)) for step, done in zip(steps, ends, strict=True)]


def _num_bytes(value: Any) -> int:
    if isinstance(value, torch.Tensor):
        return value.numel() * value.element_size()
    return sum(map(_num_bytes, value)) if isinstance(value, list | tuple) else 0


def _plain(program: Program) -> dict[str, Any]:
    return {
        "format": program.format,
        "num_threads": program.num_threads,
        "is_exact": program.is_exact,
        "num_rows": program.num_rows,
        "embeddings": {
            path: {"features": dict(each.features), "tables": dict(each.tables), "means": list(each.means),
                   "ttl": dict(each.ttl)}
            for path, each in program.embeddings.items()
        },
        "lookups": [vars(each) for each in program.lookups],
        "inputs": [vars(each) for each in program.inputs],
        "weights": list(program.weights),
        "nodes": [vars(each) for each in program.nodes],
        "outputs": dict(program.outputs),
    }  # fmt: skip


def refuse_unfit(found: Mapping[str, Any], num_rows: int) -> None:
    """Refuse outputs that are not one prediction per row."""
    for name, value in found.items():
        if value.dim() == 0 or len(value) != num_rows:
            raise BadInput(f"the output {name!r} has the shape {list(value.shape)} for {num_rows} rows")
