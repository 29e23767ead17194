"""Turns a model's Python into a program: `torch.export` follows one call of it. Writes no files.

    the user's forward ─▶ torch.export ─▶ operations of torch ─▶ Program, if all of them may be in one

Hash tables are looked up before the program runs, so stand-ins take their place here: a first call notes what is looked
up, and the traced one gets the results as inputs.
"""

import linecache
import logging
import math
import operator
import traceback
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import fx, nn

from samovar.embeddings import HashEmbedding
from samovar.embeddings.pooled import Pool, replaced_embeddings
from samovar.errors import BadInput, UserError
from samovar.runner import Learner
from samovar.runner.step import frozen
from samovar.scoring.operators import ATEN, SIZES
from samovar.scoring.program import EmbeddingPlan, Lookup, Node, Part, Program, ProgramInput
from samovar.scoring.samples import sample_inputs
from samovar.scoring.signature import Inputs, Output, Signature
from samovar.scoring.tiles import TILE_ROWS
from samovar.tables.record import Bag, RecordValue

_LENGTH = 4
_OURS = Path(__file__).parents[1]
_TORCH = Path(torch.__file__).parent
_ARITHMETIC: Mapping[Any, str] = {
    operator.add: "add", operator.sub: "sub", operator.mul: "mul", operator.floordiv: "floordiv", operator.mod: "mod",
    operator.neg: "neg", operator.truediv: "truediv", operator.getitem: "getitem", math.ceil: "ceil",
    math.floor: "floor", torch.sym_max: "max", torch.sym_min: "min", torch.sym_float: "float", torch.sym_int: "int",
}  # fmt: skip
_CHECKS = ("_assert_tensor_metadata", "_assert_scalar", "sym_constrain_range", "_assert_async")
_LOGGERS = ("torch.fx.experimental.symbolic_shapes", "torch.export", "torch._dynamo", "torch._export")


@dataclass(frozen=True)
class Traced:
    """A program, and where its weights are.

    Attributes:
        program: What is computed.
        signature: With the outputs.
        constants: Weights that are no parameters or buffers of the model.
        exported: What torch made of the model, for other formats.
        example: The tensors that it was called with.
    """

    program: Program
    signature: Signature
    constants: Mapping[str, torch.Tensor]
    exported: torch.export.ExportedProgram
    example: Sequence[torch.Tensor]

    def dense(self, model: nn.Module) -> dict[str, torch.Tensor]:
        """The weights of the program, as they are in the model now."""
        inner = unwrapped(model)
        found: dict[str, torch.Tensor] = dict(inner.named_parameters(remove_duplicate=False))
        found |= dict(inner.named_buffers(remove_duplicate=False))
        return {name: self.constants[name] if name in self.constants else found[name] for name in self.program.weights}


def trace(learner: Learner, signature: Signature, num_threads: int, seed: int, name: str) -> Traced:
    """Follow one call of a model, and make it a program.

    Args:
        learner: The model, and its `predict`.
        signature: The columns that it reads.
        num_threads: Threads to score with.
        seed: Of the run.
        name: Of the model, for errors.

    Raises:
        BadInput: It mixes the rows of a minibatch, or does what a program cannot. Names the line of the code.
    """
    if learner.mixes_rows:
        raise BadInput(
            f"{name} cannot be exported: it has Learner(mixes_rows=True), so the score of a row depends on the other "
            "rows of its minibatch"
        )
    inputs = sample_inputs(signature, TILE_ROWS, {}, max_length=_LENGTH)
    with frozen(learner.model, seed), torch.no_grad(), _quietly():
        lookups, pooled, found = _note_lookups(learner, inputs, name)
        call = _Call(learner, inputs, lookups)
        example = [*_tensors(inputs, call.parts), *pooled]
        try:
            with replaced_embeddings(call, call.pool):
                exported = torch.export.export(
                    call, tuple(example), dynamic_shapes=(_free_sizes(call.parts, inputs, pooled),), strict=False
                ).run_decompositions({})
        except UserError:
            raise
        except Exception as error:
            raise _refuse(name, _first_sentence(error), _place_of_error(error)) from error
    program, constants = _Translation(exported, call, list(found), name).make()
    outputs = tuple(
        Output(each, tuple(value.shape[1:]), str(value.dtype).removeprefix("torch.")) for each, value in found.items()
    )
    program = replace(program, num_threads=num_threads, embeddings=_plan_embeddings(learner.model, lookups))
    return Traced(program, replace(signature, outputs=outputs), constants, exported, example)


# The call that is traced


def _note_lookups(
    learner: Learner, inputs: Inputs, name: str
) -> tuple[dict[tuple[str, str, str], int], list[torch.Tensor], dict[str, torch.Tensor]]:
    """What the model looks up for a tile of rows, what it gets, and what it predicts."""
    lookups: dict[tuple[str, str, str], int] = {}
    pooled: list[torch.Tensor] = []
    originals = hash_embeddings(learner.model)
    columns = {id(value): column for column, value in inputs.items()}

    def pool_of(path: str) -> Pool:
        path = _inside(path)

        def pool(feature: str, bag: Bag) -> torch.Tensor:
            key = (path, feature, _column_of(bag, columns, feature, name))
            if key not in lookups:
                lookups[key] = len(lookups)
                pooled.append(originals[path]({feature: bag})[feature])
            return pooled[lookups[key]]

        return pool

    call = _Root(learner.model)
    with replaced_embeddings(call, pool_of):
        found = _named(learner.predict(call.model(inputs)))
    for output, value in found.items():
        if not isinstance(value, torch.Tensor):
            raise _refuse(name, f"{output or '`predict`'} is {type(value).__name__}, no tensor", None)
    return lookups, pooled, found


def hash_embeddings(model: nn.Module) -> dict[str, HashEmbedding]:
    """The hash embeddings of a model, by path."""
    return {path: each for path, each in unwrapped(model).named_modules() if isinstance(each, HashEmbedding)}


def unwrapped(model: nn.Module) -> nn.Module:
    """The model itself, if `torch.compile` wraps it."""
    inner = getattr(model, "_orig_mod", model)
    assert isinstance(inner, nn.Module)
    return inner


def _inside(path: str) -> str:
    return path.removeprefix("model").removeprefix(".")


def _column_of(bag: Any, columns: Mapping[int, str], feature: str, name: str) -> str:
    column = columns.get(id(bag))
    if column is None:
        place = _place_of_frames(traceback.extract_stack())
        raise _refuse(name, f"the feature {feature!r} is looked up in a bag that `forward` makes itself", place)
    return column


class _Root(nn.Module):
    """A place for the model, so that it can be a hash embedding itself."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = unwrapped(model)


class _Call(_Root):
    """The model as a function of tensors alone."""

    def __init__(self, learner: Learner, inputs: Inputs, lookups: Mapping[tuple[str, str, str], int]) -> None:
        super().__init__(learner.model)
        self.lookups = dict(lookups)
        self.parts: list[tuple[Part, str]] = []
        for column, value in inputs.items():
            self.parts += [("ids", column), ("lengths", column)] if isinstance(value, Bag) else [("values", column)]
        self._predict = learner.predict
        self._pooled: Sequence[torch.Tensor] = ()
        self._columns: dict[int, str] = {}

    def pool(self, path: str) -> Pool:
        path = _inside(path)

        def pool(feature: str, bag: Bag) -> torch.Tensor:
            key = (path, feature, _column_of(bag, self._columns, feature, "the model"))
            if key not in self.lookups:
                raise BadInput(f"the model cannot be exported: it looks up {feature!r} only sometimes")
            return self._pooled[self.lookups[key]]

        return pool

    def forward(self, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        given = dict(zip(self.parts, tensors, strict=False))
        inputs: dict[str, RecordValue] = {}
        for part, column in self.parts:
            if part == "values":
                inputs[column] = given[part, column]
            elif part == "ids":
                inputs[column] = Bag.of_checked(given[part, column], given["lengths", column])
        self._pooled = tensors[len(self.parts) :]
        self._columns = {id(value): column for column, value in inputs.items()}
        return tuple(_named(self._predict(self.model(inputs))).values())


def _named(prediction: Any) -> dict[str, Any]:
    """Outputs by name; the name of a single one is empty."""
    return (
        {str(name): each for name, each in prediction.items()} if isinstance(prediction, Mapping) else {"": prediction}
    )


def _tensors(inputs: Inputs, parts: Sequence[tuple[Part, str]]) -> list[torch.Tensor]:
    tensors = []
    for part, column in parts:
        value: Any = inputs[column]
        tensors.append(value if part == "values" else value.data if part == "ids" else value.data_len)
    return tensors


def _free_sizes(
    parts: Sequence[tuple[Part, str]], inputs: Inputs, pooled: Sequence[torch.Tensor]
) -> tuple[dict[int, Any], ...]:
    """The dimensions that differ from tile to tile: rows, ids, and lengths of sequences."""
    free = torch.export.Dim.AUTO
    sizes = []
    for part, column in parts:
        value = inputs[column]
        rank = value.data_len.dim() if part == "lengths" and isinstance(value, Bag) else 1
        sizes.append(dict.fromkeys(range(rank), free))
    return (*sizes, *(dict.fromkeys(range(each.dim() - 1), free) for each in pooled))


def _plan_embeddings(model: nn.Module, lookups: Mapping[tuple[str, str, str], int]) -> dict[str, EmbeddingPlan]:
    used = {path for path, _, _ in lookups}
    return {path: plan_of(each) for path, each in hash_embeddings(model).items() if path in used}


def plan_of(embedding: HashEmbedding) -> EmbeddingPlan:
    """How a frozen copy of an embedding is built."""
    state = embedding.get_extra_state()["tables"]
    frozen_tables = embedding.frozen_tables
    return EmbeddingPlan(
        embedding.features,
        embedding.tables_of_features,
        tuple(embedding.mean_features),
        {name: None if name in frozen_tables else state[name]["ttl"] for name in embedding.table_names},
    )


# From torch's graph to a program


class _Translation:
    def __init__(self, exported: torch.export.ExportedProgram, call: _Call, outputs: Sequence[str], name: str) -> None:
        self._exported = exported
        self._call = call
        self._outputs = outputs
        self._name = name
        self._numbers: dict[fx.Node, int] = {}
        self._num_rows: int | None = None

    def make(self) -> tuple[Program, dict[str, torch.Tensor]]:
        """The program without embeddings, and the constants."""
        graph = self._exported.graph_module.graph
        output = next(node for node in graph.nodes if node.op == "output")
        results = self._results(output)
        needed = _needed(results)
        inputs, weights, constants = self._placeholders(graph, needed)
        nodes = []
        for node in graph.nodes:
            if node.op == "call_function" and node in needed:
                nodes.append(self._translate(node))
                self._numbers[node] = len(self._numbers)
            elif node in needed and node.op not in ("placeholder", "call_function"):
                raise self._refuse(f"`{node.target}` has operations inside it", node)
        outputs = {name: self._numbers[node] for name, node in zip(self._outputs, results, strict=True)}
        lookups = tuple(Lookup(*key) for key in self._call.lookups)
        program = Program({}, lookups, inputs, weights, tuple(nodes), outputs, 1, num_rows=self._num_rows)
        return program, constants

    def _results(self, output: fx.Node) -> list[fx.Node]:
        specs = self._exported.graph_signature.output_specs
        found = []
        for spec, node in zip(specs, output.args[0], strict=True):  # type: ignore[arg-type]  # a tuple of nodes
            if spec.kind is not torch.export.graph_signature.OutputKind.USER_OUTPUT:
                raise _refuse(self._name, f"`forward` changes {_inside(str(spec.target))!r}", None)
            assert isinstance(node, fx.Node)
            found.append(node)
        return found

    def _placeholders(
        self, graph: fx.Graph, needed: set[fx.Node]
    ) -> tuple[tuple[ProgramInput, ...], tuple[str, ...], dict[str, torch.Tensor]]:
        kinds = torch.export.graph_signature.InputKind
        parts = [*self._call.parts, *(("pooled", str(number)) for number in self._call.lookups.values())]
        inputs: list[tuple[fx.Node, ProgramInput]] = []
        weights: list[tuple[fx.Node, str]] = []
        constants: dict[str, torch.Tensor] = {}
        placeholders = [node for node in graph.nodes if node.op == "placeholder"]
        given = iter(parts)
        for spec, node in zip(self._exported.graph_signature.input_specs, placeholders, strict=True):
            if spec.kind is kinds.USER_INPUT:
                part, column = next(given)
                if node in needed:
                    self._check_sizes(node, part, column)
                    inputs.append((node, ProgramInput(part, column)))
            elif node in needed:
                target = str(spec.target)
                name = _inside(target)
                if spec.kind not in (kinds.PARAMETER, kinds.BUFFER):
                    constants[name] = self._exported.constants[target]
                weights.append((node, name))
        for node, _ in (*inputs, *weights):
            self._numbers[node] = len(self._numbers)
        return tuple(each for _, each in inputs), tuple(name for _, name in weights), constants

    def _check_sizes(self, node: fx.Node, part: str, column: str) -> None:
        """Rows may be of a fixed number, because tiles have one; sequences may not."""
        shape = node.meta["val"].shape
        if part == "pooled":
            column = next(key[2] for key, number in self._call.lookups.items() if str(number) == column)
            shape = shape[:-1]
        elif part == "values":
            shape = shape[:1]
        for axis, size in enumerate(shape):
            low, high = self._range(size)
            is_free = low <= 2 and high is None
            if not is_free and axis == 0 and part != "ids":
                self._num_rows = TILE_ROWS
            elif not is_free:
                what = "the number of its ids" if part == "ids" else "the length of its sequences"
                said = f"{low}" if low == high else f"{low} or more" if high is None else f"{low} to {high}"
                raise self._refuse(
                    f"column {column!r}: `forward` works only if {what} is {said}", self._first_use(node)
                )

    def _range(self, size: Any) -> tuple[int, int | None]:
        if isinstance(size, int):
            return size, size
        found = self._exported.range_constraints.get(size.node.expr)
        if found is None:  # twice another size, or the like
            return 0, 0
        low, high = found.lower, found.upper
        return int(low), int(high) if high.is_Integer and int(high) < 2**40 else None

    def _first_use(self, node: fx.Node) -> fx.Node:
        return next(iter(node.users))

    def _translate(self, node: fx.Node) -> Node:
        op = _ARITHMETIC.get(node.target) or str(node.target)
        args, kwargs = _as_positional(node)
        if "dropout" in op and args[2] is True:
            raise self._refuse("it draws random numbers, in a dropout that is also for predictions", node)
        if op not in ATEN and op not in SIZES:
            raise self._refuse(f"a program cannot do {op!r}", node)
        encoded = {name: self._encode(value, node) for name, value in kwargs.items()}
        kept = {name: value for name, value in encoded.items() if value is not None}
        return Node(op, tuple(self._encode(each, node) for each in args), kept)

    def _encode(self, value: Any, node: fx.Node) -> Any:
        if isinstance(value, fx.Node):
            return {"value": self._numbers[value]}
        if isinstance(value, list | tuple):
            return [self._encode(each, node) for each in value]
        if isinstance(value, float) and not math.isfinite(value):
            return {"float": repr(value)}
        if value is None or isinstance(value, bool | int | float | str):
            return value
        if isinstance(value, torch.dtype):
            return {"dtype": str(value).removeprefix("torch.")}
        if isinstance(value, torch.memory_format):
            return {"memory_format": str(value).removeprefix("torch.")}
        raise self._refuse(f"a program cannot call {node.target} with {value!r}", node)

    def _refuse(self, reason: str, node: fx.Node) -> BadInput:
        return _refuse(self._name, reason, _place_in_text(node.meta.get("stack_trace")))


def _as_positional(node: fx.Node) -> tuple[list[Any], dict[str, Any]]:
    """Arguments that are values come by position; where a tensor is, is left out."""
    args, kwargs = list(node.args), dict(node.kwargs)
    for name in ("device", "layout", "pin_memory"):
        kwargs.pop(name, None)
    schema = getattr(node.target, "_schema", None)
    while schema is not None and any(_has_nodes(value) for value in kwargs.values()):
        argument = schema.arguments[len(args)]
        if argument.kwarg_only:
            break
        args.append(kwargs.pop(argument.name, argument.default_value))
    return args, kwargs


def _has_nodes(value: Any) -> bool:
    return isinstance(value, fx.Node) or (isinstance(value, list | tuple) and any(map(_has_nodes, value)))


def _needed(results: Sequence[fx.Node]) -> set[fx.Node]:
    """The nodes that the results depend on: checks of sizes, which torch adds, are not among them."""
    needed, left = set(results), list(results)
    while left:
        for each in left.pop().all_input_nodes:
            if each not in needed:
                needed.add(each)
                left.append(each)
    return needed


# What to say


def _refuse(name: str, reason: str, place: str | None) -> BadInput:
    return BadInput(f"{name} cannot be exported: {reason}{f' ({place})' if place else ''}")


def _first_sentence(error: Exception) -> str:
    if type(error).__name__ == "GuardOnDataDependentSymNode":
        return "which way `forward` takes depends on values, and a program has only one"
    return str(error).strip().partition("\n")[0] or type(error).__name__


def _place_of_error(error: BaseException) -> str | None:
    return _place_of_frames(traceback.extract_tb(error.__traceback__))


def _place_of_frames(frames: Sequence[traceback.FrameSummary]) -> str | None:
    """The user's line that is deepest."""
    users = [frame for frame in frames if _is_users(frame.filename)]
    return _show_place(users[-1].filename, users[-1].lineno or 0) if users else None


def _place_in_text(stack: str | None) -> str | None:
    """The same, of what torch keeps for an operation."""
    places = []
    for line in (stack or "").splitlines():
        words = line.strip().split('"')
        if len(words) == 3 and words[0] == "File " and _is_users(words[1]):
            places.append((words[1], int(words[2].split()[2].rstrip(","))))
    return _show_place(*places[-1]) if places else None


def _is_users(filename: str) -> bool:
    path = Path(filename)
    return not (filename.startswith("<") or path.is_relative_to(_TORCH) or path.is_relative_to(_OURS))


def _show_place(filename: str, line: int) -> str:
    code = linecache.getline(filename, line).strip()
    return f"{filename}:{line}{f': {code}' if code else ''}"


@contextmanager
def _quietly() -> Iterator[None]:
    """Torch says in the log what we say in an error."""
    loggers = [logging.getLogger(name) for name in _LOGGERS]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.CRITICAL + 1)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
