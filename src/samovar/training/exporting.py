"""`export`: a trained model becomes a bundle, which scores raw rows without its script. Checks the bundle before it is
finished: it must give the scores of the model's own code.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, TypeAlias, get_args

import numpy as np
import torch
from numpy.typing import NDArray

from samovar.config.places import PathLike, Place, as_place
from samovar.errors import BadInput, SamovarError
from samovar.results import ResultDirectory, ResultPlan, Source, begin, open_directory
from samovar.results.checked import FileRecord, write_checked
from samovar.results.directory import WITHOUT_MODEL, Epoch
from samovar.results.open_result import OpenResult
from samovar.scoring.bundle import BUNDLE_KIND, CHECK, ONNX, read_bundle, write_parts
from samovar.scoring.distribution import Distribution
from samovar.scoring.frozen import FrozenModel
from samovar.scoring.model import Model, Score
from samovar.scoring.outputs import as_numpy
from samovar.scoring.samples import sample_inputs, take_rows
from samovar.scoring.signature import Inputs
from samovar.scoring.weights import Precision, decoded, encoded, weights_tree
from samovar.seeds import numpy_generator
from samovar.store import open_store
from samovar.tables import Table, open_table
from samovar.training.loading import Build, Restored, restore
from samovar.training.onnx import require_onnx, to_onnx
from samovar.training.tracing import Traced, hash_embeddings, trace

TOLERANCE = 1e-6
_ROWS = 256
_ROWS_OF_TABLE = 4096
_ROWS_ALONE = 32
Floats: TypeAlias = NDArray[np.float64]


@dataclass(frozen=True)
class ExportRequest:
    """A bundle that is asked for.

    Attributes:
        model: A model directory.
        out: The directory of the bundle.
        snapshot: Whether to export the newest snapshot of a model that is still training.
        epoch: "last", or "best" for the state after the best evaluation of training.
        weights: "fp32", or fewer bytes: "fp16", "int8".
        check: A tensor table to check the bundle with. None: made-up rows.
        onnx: Whether to add `model.onnx`.
        exact: Whether the score of a row must not depend on the rows around it.
        build: The function that it was trained with, if its script cannot run.

    Example:
        >>> ExportRequest(Path("models/hashed"), Path("bundles/small"), weights="fp16").weights
        'fp16'
    """

    model: Place
    out: Place
    snapshot: bool = False
    epoch: Epoch = "last"
    weights: Precision = "fp32"
    check: Place | None = None
    onnx: bool = False
    exact: bool = True
    build: Build | None = None


@dataclass(frozen=True)
class Verdict:
    """How a bundle was checked: the largest differences between scores of the same rows.

    Attributes:
        num_rows: How many rows were compared.
        shuffled: Between rows in their order and in another.
        alone: Between rows together and each alone.
        eager: Between the program and the model's own code, both with all bytes.
        precision: Of the weights in the bundle.
        precision_change: What that changes.
        auc: Of the model's own code on the table, if there are targets 0 and 1.
        auc_of_bundle: Of the bundle.
    """

    num_rows: int
    shuffled: float
    alone: float
    eager: float
    precision: Precision
    precision_change: float = 0.0
    auc: float | None = None
    auc_of_bundle: float | None = None

    @property
    def is_exact(self) -> bool:
        """Whether all scores had the same bits."""
        return max(self.shuffled, self.alone, self.eager) == 0

    def lines(self) -> Iterator[str]:
        """What people should know."""
        if self.is_exact:
            yield f"checked with {self.num_rows} rows: the bits of the model's own code, in any order and alone"
        else:
            found = {"shuffled": self.shuffled, "alone": self.alone, "against its own code": self.eager}
            shown = ", ".join(f"{name} {value:.2g}" for name, value in found.items())
            yield f"checked with {self.num_rows} rows: scores agree to {TOLERANCE:g} only (differences: {shown})"
        if self.precision != "fp32":
            yield f"{self.precision} weights change a score by up to {self.precision_change:.3g}"
            if self.auc is not None and self.auc_of_bundle is not None:
                change = self.auc_of_bundle - self.auc
                yield f"AUC {self.auc:.6f} → {self.auc_of_bundle:.6f} ({change:+.6f})"


@dataclass(frozen=True)
class ExportResult:
    """A bundle that is written.

    Attributes:
        directory: Its directory.
        was_finished: Whether there was nothing to do.
        notes: What the user should know.

    Example:
        >>> done = run_export(ExportRequest(Path("models/hashed"), Path("bundles/first")))
        >>> done.was_finished
        False
    """

    directory: Place
    was_finished: bool
    notes: Sequence[str]


def export(
    model_dir: PathLike | ResultDirectory,
    out: PathLike,
    *,
    snapshot: bool = False,
    epoch: Epoch = "last",
    weights: Precision = "fp32",
    check: PathLike | Table | None = None,
    onnx: bool = False,
    exact: bool = True,
    build: Build | None = None,
) -> Model:
    """Make a bundle of a trained model: a directory that scores raw rows without the model's script.

    The bundle is compared with the model's own code before it is finished; `check.json` in it has the verdict.

    Args:
        model_dir: A model directory.
        out: The directory of the bundle.
        snapshot: Whether to export the newest snapshot of a model that is still training.
        epoch: "best" exports the model after its best evaluation, "last" the model as training ended.
        weights: "fp32" keeps every bit; "fp16" and "int8" take a half and a quarter of the bytes on disk.
        check: A tensor table to compare on. Default: made-up rows.
        onnx: Whether to add `model.onnx`, which computes the dense part in other runtimes, to 1e-6.
        exact: False scores all rows of a request at once, so that a score may differ in its last bits with the rows
            around it.
        build: The function that it was trained with, if that uses values of a notebook that are not in `script.py`.

    Returns:
        The model, as `samovar.load(out)` loads it.

    Raises:
        BadInput: The model does what cannot be exported. Names the line of the code.
        NotAResult: There is no model, or none that is finished.

    Example:
        >>> model = samovar.export("models/hashed", "bundles/hashed")
        >>> model.predict([{"user": 7}, {"user": 8}]).shape
        (2,)
    """
    table = as_place(check.name) if isinstance(check, Table) else None if check is None else as_place(check, "check")
    model = model_dir.place if isinstance(model_dir, ResultDirectory) else as_place(model_dir, "model")
    place = as_place(out, "out")
    run_export(ExportRequest(model, place, snapshot, epoch, weights, table, onnx, exact, build))
    return read_bundle(open_directory(place)).model()


def run_export(request: ExportRequest) -> ExportResult:
    """Write a bundle, or find it finished.

    Args:
        request: Model, bundle and how.

    Returns:
        The directory of the bundle, and what the user should know.

    Raises:
        UserError: The model cannot be exported, or the directory belongs to another export.

    Example:
        >>> str(run_export(ExportRequest(Path("models/hashed"), Path("bundles/second"))).directory)
        'bundles/second'
    """
    for name, value, kind in (("weights", request.weights, Precision), ("epoch", request.epoch, Epoch)):
        if value not in get_args(kind):
            raise BadInput(f"{name} must be one of {', '.join(get_args(kind))}, got {value!r}")
    if request.onnx:
        require_onnx()
    origin = open_directory(request.model)
    if origin.kind in WITHOUT_MODEL:
        raise origin.is_not("model")
    table = None if request.check is None else open_table(request.check)
    plan = _plan(request, origin, table)
    directory = ResultDirectory(open_store(request.out))
    if directory.is_finished:
        return ExportResult(request.out, True, begin(directory, plan).notes)
    restored = restore(origin, snapshot=request.snapshot, epoch=request.epoch, build=request.build)
    traced = _trace(restored, request)
    with begin(directory, plan) as result:
        result.restore()
        verdict, files = _write(result, restored, traced, request, table)
        result.finish(None, restored.position, files)
        return ExportResult(request.out, False, [*result.notes, *verdict.lines()])


def _plan(request: ExportRequest, origin: ResultDirectory, table: Table | None) -> ResultPlan:
    """The config includes the model's position, because the model may still be in training."""
    sources = [origin.as_source("source")]
    config: dict[str, Any] = {"source": sources[0].path, "weights": request.weights, "exact": request.exact}
    if not origin.is_finished:
        config["position"] = origin.load_model(request.epoch).position
    if request.epoch != "last":
        config["epoch"] = request.epoch
    if request.onnx:
        config["onnx"] = True
    if table is not None:
        sources.append(_table_source(table))
        config["check"] = sources[-1].path
    return ResultPlan(BUNDLE_KIND, config, sources=sources)


def _table_source(table: Table) -> Source:
    return ResultDirectory(table.store).as_source("check", table.version)


def _trace(restored: Restored, request: ExportRequest) -> Traced:
    traced = trace(
        restored.learner, restored.signature, restored.num_threads, restored.config.seed, restored.origin.name
    )
    if request.exact:
        return traced
    if traced.program.num_rows is not None:
        raise BadInput(
            f"{restored.origin.name} cannot be exported without tiles: `forward` works for {traced.program.num_rows} "
            "rows only. Export it with tiles"
        )
    return replace(traced, program=replace(traced.program, is_exact=False))


def _write(
    result: OpenResult, restored: Restored, traced: Traced, request: ExportRequest, table: Table | None
) -> tuple[Verdict, dict[str, FileRecord]]:
    tree = weights_tree(traced.dense(restored.learner.model), _used_embeddings(restored, traced))
    stored = encoded(tree, request.weights)
    where = restored.origin.name
    exact = FrozenModel(traced.program, traced.signature, decoded(tree, where), where)
    frozen = (
        exact
        if request.weights == "fp32"
        else FrozenModel(traced.program, traced.signature, decoded(stored, where), where)
    )
    verdict = _check(restored, exact, frozen, request.weights, table)
    store = result.directory.store
    files = write_parts(store, "", traced.program, traced.signature, stored, result.check)
    text = json.dumps({"format": 1, **asdict(verdict), "is_exact": verdict.is_exact}, indent=2)
    files[CHECK] = write_checked(store, CHECK, text.encode() + b"\n", result.check)
    if request.onnx:
        files[ONNX] = write_checked(store, ONNX, to_onnx(traced), result.check)
    return verdict, files


def _used_embeddings(restored: Restored, traced: Traced) -> dict[str, Any]:
    found = hash_embeddings(restored.learner.model)
    return {path: found[path] for path in traced.program.embeddings}


# The check


def _check(
    restored: Restored, exact: FrozenModel, frozen: FrozenModel, precision: Precision, table: Table | None
) -> Verdict:
    num_rows, found = 0, {"shuffled": 0.0, "alone": 0.0, "eager": 0.0, "precision_change": 0.0}
    for inputs, count in _sample(restored, exact, table):
        together = _scores(exact.apply, inputs, count)
        scale = np.maximum(1, np.abs(together))
        for name, other in _other_scores(restored, exact, inputs, count):
            found[name] = max(found[name], _difference(together[: len(other)], other, scale[: len(other)]))
        if frozen is not exact:
            change = _difference(together, _scores(frozen.apply, inputs, count), np.ones_like(scale))
            found["precision_change"] = max(found["precision_change"], change)
        num_rows += count
    verdict = Verdict(num_rows, precision=precision, **found)
    if max(verdict.shuffled, verdict.alone) > TOLERANCE and exact.program.is_exact:
        raise BadInput(
            f"{restored.origin.name} cannot be exported: the score of a row depends on the rows around it (by "
            f"{max(verdict.shuffled, verdict.alone):.3g}). Declare Learner(mixes_rows=True) to score whole minibatches"
        )
    if not verdict.eager <= TOLERANCE:
        raise SamovarError(
            f"{restored.origin.name} cannot be exported: the program gives other scores than the model's own code, by "
            f"{verdict.eager:.3g}. `forward` may change what it reads"
        )
    if table is None or frozen is exact:
        return verdict
    auc, auc_of_bundle = _aucs(restored, exact, frozen, table)
    return replace(verdict, auc=auc, auc_of_bundle=auc_of_bundle)


def _other_scores(
    restored: Restored, model: FrozenModel, inputs: Inputs, num_rows: int
) -> Iterator[tuple[str, Floats]]:
    """Scores that should be the same, of all rows or of the first ones."""
    order = numpy_generator(0, "shuffle").permutation(num_rows)
    shuffled = _scores(model.apply, take_rows(inputs, order), num_rows)
    back = np.empty_like(shuffled)
    back[order] = shuffled
    yield "shuffled", back
    first = [take_rows(inputs, np.array([row])) for row in range(min(num_rows, _ROWS_ALONE))]
    if first:
        yield "alone", np.concatenate([_scores(model.apply, each, 1) for each in first])
    if model.program.is_exact:
        yield "eager", _scores(restored.apply, inputs, num_rows)
    else:
        yield "eager", _scores(_untiled(restored), inputs, num_rows)


def _untiled(restored: Restored) -> Score:
    whole = replace(restored, learner=replace(restored.learner, mixes_rows=True))
    return whole.apply


def _sample(restored: Restored, model: FrozenModel, table: Table | None) -> Iterator[tuple[Inputs, int]]:
    if table is None:
        yield sample_inputs(restored.signature, _ROWS, model.known_ids(), seed=1), _ROWS
        return
    left = _ROWS_OF_TABLE
    for inputs, num_rows in restored.signature.read_rows(table):
        if left <= 0:
            return
        left -= num_rows
        yield inputs, num_rows


def _scores(apply: Score, inputs: Inputs, num_rows: int) -> Floats:
    """All outputs side by side, as numbers that keep every bit."""
    found = apply(inputs, num_rows)
    named = found if isinstance(found, dict) else {"": found}
    columns = [np.asarray(as_numpy(named[name]), np.float64).reshape(num_rows, -1) for name in sorted(named)]
    return np.concatenate(columns, 1)


def _difference(one: Floats, two: Floats, scale: Floats) -> float:
    """The largest; 0 only for the same bits, except for the sign of zero. NaN counts as equal to NaN."""
    with np.errstate(invalid="ignore"):
        apart = np.where((one == two) | (np.isnan(one) & np.isnan(two)), 0.0, np.abs(one - two) / scale)
    return float(np.where(np.isnan(apart), np.inf, apart).max(initial=0.0))


def _aucs(
    restored: Restored, exact: FrozenModel, frozen: FrozenModel, table: Table
) -> tuple[float | None, float | None]:
    """The AUC of the first output for the first target, if that has only 0 and 1."""
    targets = [name for name in restored.config.train_data.targets if name in table.schema.names]
    if not targets:
        return None, None
    counted = Distribution(), Distribution()
    for record in table.read([*restored.signature.names, targets[0]]):
        truth = record[targets[0]]
        if not isinstance(truth, torch.Tensor) or not bool(((truth == 0) | (truth == 1)).all()):
            return None, None
        inputs = {name: record[name] for name in restored.signature.names}
        for distribution, model in zip(counted, (exact, frozen), strict=True):
            scores = _scores(model.apply, inputs, record.num_examples)[:, 0]
            distribution.add(truth.double().reshape(-1).numpy(), scores, np.ones(len(scores)))
    return counted[0].auc(), counted[1].auc()
