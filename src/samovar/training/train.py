"""`train`: a config and a script become a model directory, however often the process is killed on the way.

config ─▶ schema ─▶ tables opened ─▶ script built ─▶ directory begun ─▶ session: restore, loop, finish
────────── a mistake found here leaves nothing behind ─────────────┘
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from rich.console import Console

from samovar import seeds
from samovar.config import flatten
from samovar.results import ResultDirectory, ResultPlan, Source, begin, open_directory
from samovar.store import LocalStore
from samovar.tables import open_table
from samovar.training.drift import Earlier, find_earlier, judge_defaults
from samovar.training.inputs import TableOpener
from samovar.training.plan import TrainingData, is_followed, open_training_data, plan_loop
from samovar.training.request import Request, make_effective
from samovar.training.schema import Config, load_config
from samovar.training.script import Built, Script, build, forbid_exit
from samovar.training.session import Session

MODEL_KIND = "model"


@dataclass(frozen=True)
class TrainResult:
    directory: Path
    was_finished: bool
    """There was nothing to do."""
    notes: Sequence[str] = field(default_factory=list)


def train(request: Request, console: Console | None = None) -> TrainResult:
    """Start, or go on; returns when the model is finished, or raises `Stopped`."""
    directory = ResultDirectory(LocalStore(request.out, request.disk))
    effective = make_effective(request.tree, request.folder, request.out, directory)
    config = load_config(effective, request.where)
    if directory.is_finished:
        return TrainResult(
            request.out,
            True,
            begin(directory, ResultPlan(MODEL_KIND, effective, sources=_known(directory, effective))).notes,
        )
    opener = TableOpener(request.folder, request.replayed or directory, is_followed(config))
    stage = open_training_data(config, opener)
    plan = _plan(request, effective, stage, directory)
    ready = None
    if not directory.is_created:  # a mistake found here leaves nothing behind
        ready = _build(request, config, find_earlier(plan, request.out, request.replayed))
        plan_loop(stage, ready.built.learner, lambda: None)  # finds columns that the model asks for in vain
    assert config.num_threads is not None
    torch.set_num_threads(config.num_threads)  # a run that goes on compares them with those that it began with
    with begin(directory, plan, accept_script=request.accept_script) as result:
        if result.is_finished:
            return TrainResult(request.out, True, result.notes)
        ready = ready or _build(request, config, Earlier.of(directory))
        result.notes += ready.notes
        with forbid_exit(request.script.path, "something that the training uses"):
            Session(result, stage, ready.built, request.out, console).run()
        return TrainResult(request.out, False, result.notes)


@dataclass(frozen=True)
class _Ready:
    built: Built
    notes: Sequence[str]
    """Defaults that changed, and that the user accepts."""


def _build(request: Request, config: Config, earlier: Earlier | None) -> _Ready:
    built = build_learner(config, request.script)
    return _Ready(built, judge_defaults(earlier, built.ledger, request.accept_defaults))


def build_learner(config: Config, script: Script) -> Built:
    """Run the script, with the threads and the seed of the config."""
    assert config.num_threads is not None
    torch.set_num_threads(config.num_threads)
    seeds.set_seed(config.seed)
    return build(script, config.model)


def _plan(
    request: Request, effective: Mapping[str, Any], stage: TrainingData, directory: ResultDirectory
) -> ResultPlan:
    sources = [link for source in (stage.train, *stage.evaluations) for link in source.lineage]
    if stage.config.init_from is not None:
        sources.append(_origin(stage.config.init_from, directory))
    return ResultPlan(
        MODEL_KIND,
        effective,
        request.script.source,
        request.script.contents,
        sources,
        code_folder=request.script.path.parent,
    )


def _origin(path: str, directory: ResultDirectory) -> Source:
    """The model to start from. A directory that was begun has its own copy, so it need not be there any more."""
    known = directory.lineage.sources if directory.is_created else ()
    recorded = next((source for source in known if source.key == "init_from"), None)
    if recorded is not None and recorded.path == path and not Path(path).exists():
        return recorded
    return open_directory(path).as_source("init_from")


def _known(directory: ResultDirectory, effective: Mapping[str, Any]) -> list[Source]:
    """The inputs of a finished directory, as they are now; one that is gone counts as it was."""
    paths = flatten(effective)
    found = []
    for source in directory.lineage.sources:
        path = paths.get(source.key)
        if path == source.path and not Path(path).exists():
            found.append(source)
        elif path is not None:
            name = open_directory(path).id if source.key == "init_from" else open_table(path).id
            found.append(replace(source, path=path, id=name))
    return found
