"""`replay`: make a result again elsewhere, from nothing but what its directory holds, and compare bit for bit."""

import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from samovar.brewing.brew import load_recipe, make_table
from samovar.brewing.stage import TABLE_KIND
from samovar.config.identity import STAGE
from samovar.config.places import PathLike, Place, as_place
from samovar.errors import BadInput, Conflict
from samovar.provenance.contract import compare, contract_of
from samovar.provenance.reasons import explain_link, find_lost_rows, find_raw_changes
from samovar.results import ResultDirectory, open_directory
from samovar.results.directory import CONFIG
from samovar.results.environment import changed_environment
from samovar.stages.stage import make_stage
from samovar.store import open_store
from samovar.training.prediction import PREDICTION_KIND, PredictRequest, run_prediction
from samovar.training.request import Request
from samovar.training.script import read_kept_script
from samovar.training.session import MODEL_KIND, run_training

Remake = Callable[[ResultDirectory, Place, Console | None], object]
_DATE_KEYS = ("start_date", "end_date", "datetime_format", "timezone")


@dataclass(frozen=True)
class ReplayReport:
    """How a replay compares with the original.

    Attributes:
        num_files: How many files were compared.
        differences: One line per difference. Empty: equal to the last bit.
        environment: What differs from the environment in which the result was made.

    Example:
        >>> from samovar.provenance import replay
        >>> replay("stages/total").differences
        []
    """

    num_files: int
    differences: list[str]
    environment: list[str]


def replay(path: PathLike, into: PathLike | None = None, console: Console | None = None) -> ReplayReport:
    """Make a result again and compare it with the original.

    Executes the script that the directory keeps.

    Args:
        path: A finished result of brew, train, predict or run.
        into: Where to make it: a new directory, or a replay that was stopped, which resumes. None: in a temporary
            directory.
        console: Where to show progress. None: nowhere.

    Returns:
        How the two compare.

    Raises:
        Conflict: The result is not finished, its sources changed, or `into` is not empty.
        BadInput: The result cannot be made again from its directory.

    Example:
        >>> replay("stages/total").differences
        []
    """
    if into is not None:
        return _replay(as_place(path), as_place(into), console)
    with tempfile.TemporaryDirectory(prefix="samovar-replay-") as temporary:
        return _replay(as_place(path), Path(temporary) / as_place(path).resolve().name, console)


def _replay(path: Place, into: Place, console: Console | None) -> ReplayReport:
    original = open_directory(path)
    _check_replayable(original)
    remake = _find_remake(original)
    started = ResultDirectory(open_store(into))
    is_unfinished = started.is_created and not started.is_finished
    if started.store.names() and not is_unfinished:
        raise Conflict(f"{into}: not empty, and results are never overwritten. Choose another directory for --into")
    remake(original, into, console)
    expected, found = contract_of(path), contract_of(into)
    environment = changed_environment(original.environment, open_directory(into).environment)
    return ReplayReport(len(expected), compare(expected, found), environment)


def _find_remake(original: ResultDirectory) -> Remake:
    kind = original.lineage.kind
    return _remake_stage if kind.startswith(STAGE) else _REMAKES[kind]


def _check_replayable(original: ResultDirectory) -> None:
    kind = original.lineage.kind
    if not original.is_finished:
        raise Conflict(f"{original.name}: not finished ({original.describe_state()})")
    is_known = kind.startswith(STAGE) or kind in _REMAKES
    if not is_known or (kind == TABLE_KIND and "source" not in original.config):
        raise BadInput(
            f"{original.name}: this {kind} was made by a call from Python. Only results of brew, train, predict and "
            "run can be replayed"
        )
    if find_lost_rows(original):
        raise BadInput(
            f"{original.name}: was brewed from rows in memory, which its directory does not keep. Call samovar.brew "
            "with the same rows to make it again"
        )
    changes = original.code_changes
    if changes and kind == MODEL_KIND:
        raise BadInput(
            f"{original.name}: its script changed at position {changes[-1].position}, so no single script makes it "
            "again"
        )
    for link in original.chain():
        if link.depth == 0 and link.is_stale:
            reasons = "; ".join(explain_link(link))
            raise Conflict(f"{original.name}: its source {link.source.path} is {link.state}: {reasons}")
    for change in find_raw_changes(original):
        raise Conflict(f"{original.name}: its raw files changed: {change}")


def _make_request(original: ResultDirectory, into: Place) -> Request:
    script = read_kept_script(original)
    return Request(original.config, f"{original.name}/{CONFIG}", Path(), script, into, replayed=original)


def _remake_table(original: ResultDirectory, into: Place, console: Console | None) -> None:
    make_table(load_recipe(original.config, f"{original.name}/{CONFIG}", Path()), into)


def _remake_model(original: ResultDirectory, into: Place, console: Console | None) -> None:
    run_training(_make_request(original, into), console)


def _remake_stage(original: ResultDirectory, into: Place, console: Console | None) -> None:
    make_stage(_make_request(original, into))


def _remake_prediction(original: ResultDirectory, into: Place, console: Console | None) -> None:
    config = original.config
    position = open_directory(config["source"]).load_model().position
    if position != config["position"]:
        raise Conflict(
            f"{original.name}: its model has trained further, from {config['position']} to {position}, so these "
            "predictions cannot be made again"
        )
    run_prediction(
        PredictRequest(
            as_place(config["source"]),
            as_place(config["table"]),
            into,
            config["keys"],
            config["targets"],
            config.get("features"),
            {key: config[key] for key in _DATE_KEYS if key in config},
        ),
        console,
    )


_REMAKES: Mapping[str, Remake] = {
    TABLE_KIND: _remake_table,
    MODEL_KIND: _remake_model,
    PREDICTION_KIND: _remake_prediction,
}
