"""A result made again elsewhere, from nothing but what its directory holds, and compared bit for bit."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from samovar.brewing.brew import TABLE_KIND, brew
from samovar.brewing.recipe import Recipe
from samovar.config.identity import STAGE
from samovar.errors import BadInput, Conflict
from samovar.provenance.contract import compare, contract_of
from samovar.provenance.why import explain_link, find_raw_changes
from samovar.results import ResultDirectory, open_directory
from samovar.results.directory import CONFIG, SCRIPT
from samovar.results.environment import changed_environment
from samovar.stages.stage import run_stage
from samovar.store import LocalStore
from samovar.training.predict import PREDICTION_KIND, PredictRequest, predict
from samovar.training.request import Request
from samovar.training.script import read_script
from samovar.training.train import MODEL_KIND, train

Again = Callable[[ResultDirectory, Path, Console | None], object]
_DATES = ("start_date", "end_date", "datetime_format", "timezone")


@dataclass(frozen=True)
class ReplayReport:
    directory: Path
    num_files: int
    differences: list[str]
    """Empty: equal to the last bit."""
    environment: list[str]
    """What is not as it was when the result was made."""


def replay(path: Path, into: Path, console: Console | None = None) -> ReplayReport:
    """`into` must not be there yet, or be a replay that was stopped: it goes on. Executes the script that the directory
    keeps; `console` shows how far it is."""
    directory = open_directory(path)
    again = _choose(directory)
    begun = ResultDirectory(LocalStore(into))
    is_unfinished = begun.is_created and not begun.is_finished
    if into.exists() and any(into.iterdir()) and not is_unfinished:
        raise Conflict(f"{into}: is not empty; a result is never overwritten: choose another directory for --into")
    again(directory, into, console)
    expected, found = contract_of(path), contract_of(into)
    environment = changed_environment(directory.environment, open_directory(into).environment)
    return ReplayReport(into, len(expected), compare(expected, found), environment)


def _choose(directory: ResultDirectory) -> Again:
    """How it was made; refuses what cannot be made again."""
    kind = directory.lineage.kind
    if not directory.is_finished:
        raise Conflict(
            f"{directory.name}: is not finished ({directory.describe_state()}); expected a finished result: let it end"
        )
    again = _run_again if kind.startswith(STAGE) else _KINDS.get(kind)
    if again is None or (kind == TABLE_KIND and "source" not in directory.config):
        raise BadInput(
            f"{directory.name}: is a {kind} that a call from Python made; expected a result of brew, train, predict or "
            "run: call it again yourself"
        )
    changes = directory.store.attributes().values.get("script_changes", [])
    if changes and kind == MODEL_KIND:
        raise BadInput(
            f"{directory.name}: its code changed at position {changes[-1]['position']}; expected one script from the "
            "beginning to the end: train it anew with the script that it keeps"
        )
    for link in directory.chain():
        if link.depth == 0 and link.is_stale:
            raise Conflict(
                f"{directory.name}: its source {link.source.path} is {link.state}; expected it as it was: "
                f"{'; '.join(explain_link(link))}"
            )
    for change in find_raw_changes(directory):
        raise Conflict(f"{directory.name}: {change}; expected the raw files as they were: bring them back")
    return again


def _brew_again(directory: ResultDirectory, into: Path, console: Console | None) -> None:
    config = directory.config
    brew(Recipe.load(config, f"{directory.name}/{CONFIG}"), config, Path(), into)


def _request(directory: ResultDirectory, into: Path) -> Request:
    folder = Path(directory.name)
    script = read_script(folder / SCRIPT)
    return Request(directory.config, f"{directory.name}/{CONFIG}", folder, script, into, replayed=directory)


def _train_again(directory: ResultDirectory, into: Path, console: Console | None) -> None:
    train(_request(directory, into), console)


def _run_again(directory: ResultDirectory, into: Path, console: Console | None) -> None:
    run_stage(_request(directory, into))


def _predict_again(directory: ResultDirectory, into: Path, console: Console | None) -> None:
    config = directory.config
    position = open_directory(config["source"]).load_model().position
    if position != config["position"]:
        raise Conflict(
            f"{directory.name}: its model stood at {config['position']} and is now at {position}; expected the same: "
            "a model that learns on cannot be asked again"
        )
    predict(
        PredictRequest(
            Path(config["source"]),
            Path(config["table"]),
            into,
            config["keys"],
            config["targets"],
            config.get("features"),
            {key: config[key] for key in _DATES if key in config},
        ),
        console,
    )


_KINDS: Mapping[str, Again] = {
    TABLE_KIND: _brew_again,
    MODEL_KIND: _train_again,
    PREDICTION_KIND: _predict_again,
}
