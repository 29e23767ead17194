"""A stage of the user's own: `main(params, out)` of a script turns a config into a result directory.

config ─▶ sources found ─▶ keys and defaults compared with the script's text ─▶ directory begun ─▶ main ─▶ finished
────────── a mistake found here leaves nothing behind ─────────────────────────┘

A stage that failed or was killed begins its work anew, in an empty `files/`: nothing of an earlier attempt is left, so
a script that was mended in between is simply taken.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from samovar import seeds
from samovar.config import Ledger, Params, flatten
from samovar.config.identity import PLACE_KEYS, STAGE, without_parent
from samovar.config.values import covers
from samovar.errors import BadInput, ConfigError
from samovar.results import ResultDirectory, ResultPlan, Source, begin
from samovar.stages.inputs import (
    CHECKSUM_KEY,
    FILES_KEY,
    KEYS,
    Named,
    RawFiles,
    as_sources,
    find_named,
    find_raw,
    require_good,
    wants_checksum,
    with_paths,
)
from samovar.stages.out import Out
from samovar.stages.script_text import ScriptText, read_text
from samovar.store import LocalStore
from samovar.training.drift import Earlier, find_earlier, judge_changes, judge_defaults
from samovar.training.request import Request, choose_threads
from samovar.training.script import forbid_exit, load_script

STAGE_KEYS = ("seed", "num_threads", FILES_KEY, CHECKSUM_KEY, *KEYS)


@dataclass(frozen=True)
class _Inputs:
    """What the config names: earlier results, and raw files."""

    named: Sequence[Named]
    raw: RawFiles | None
    has_checksum: bool

    def sources(self, known: Sequence[Source]) -> list[Source]:
        """The links of lineage. What a finished directory was made from may be gone: it counts as it was."""
        recorded = next((source for source in known if source.key == FILES_KEY), None)
        links = as_sources(self.named, known)
        if self.raw is None:
            return links
        if recorded is not None and recorded.path == ", ".join(self.raw.patterns) and not self.raw.is_there:
            return [*links, recorded]
        return [*links, self.raw.as_source(self.has_checksum)]


@dataclass(frozen=True)
class Ran:
    directory: Path
    was_finished: bool
    """There was nothing to do."""
    notes: Sequence[str]


def run_stage(request: Request) -> Ran:
    """Returns when the result is finished. Writes nothing if it was, or if the config is wrong."""
    directory = ResultDirectory(LocalStore(request.out, request.disk))
    inputs = _find_inputs(request)
    effective = _make_effective(request, inputs)
    choose_threads(effective, directory)
    _check_numbers(effective, request.where)
    if directory.is_finished:
        plan = _plan(request, effective, inputs, directory)
        return Ran(request.out, True, begin(directory, plan).notes)
    require_good(inputs.named, request.out)
    plan = _plan(request, effective, inputs, directory)
    text = read_text(request.script)
    text.require_mentioned(_users_keys(effective), request.where)
    earlier = find_earlier(plan, request.out, request.replayed)
    notes = _judge_text(text, earlier, request.accept_defaults)
    main = _load_main(request, effective)
    with begin(directory, plan, accept_script=True) as result:
        if result.is_finished:
            return Ran(request.out, True, result.notes)
        result.restore()
        with forbid_exit(request.script.path, "main"):
            ledger = _work(main, effective, Out(result, request.out, inputs.named, inputs.raw))
        notes += _remarks(effective, ledger, earlier, notes)
        result.write_params(ledger.to_dict())
        result.register_files()
        result.finish(None, None)
        return Ran(request.out, False, [*result.notes, *notes])


def _find_inputs(request: Request) -> _Inputs:
    tree, folder = request.tree, request.folder
    return _Inputs(find_named(tree, folder), find_raw(tree, folder), wants_checksum(tree))


def _make_effective(request: Request, inputs: _Inputs) -> dict[str, Any]:
    """What goes into model_config.json, and can be run again as it stands, from anywhere."""
    kept = {key: value for key, value in request.tree.items() if key not in PLACE_KEYS["run"]}
    effective = with_paths(kept, inputs.named)
    return effective if inputs.raw is None else {**effective, FILES_KEY: inputs.raw.value}


def _plan(request: Request, effective: dict[str, Any], inputs: _Inputs, directory: ResultDirectory) -> ResultPlan:
    begun = directory if directory.is_created else request.replayed
    return ResultPlan(
        begun.lineage.kind if begun is not None else f"{STAGE}{request.script.path.stem}",
        effective,
        request.script.source,
        request.script.contents,
        inputs.sources(directory.lineage.sources if directory.is_created else ()),
        code_folder=request.script.path.parent,
    )


def _check_numbers(effective: dict[str, Any], where: str) -> None:
    for key, least in (("seed", 0), ("num_threads", 1)):
        value = effective.get(key, least)
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise ConfigError(f"{where}: {key}: found {value!r}, expected a whole number, at least {least}: mend it")


def _users_keys(effective: dict[str, Any]) -> list[str]:
    """What the script, and not we, must read."""
    return [key for key in flatten(without_parent(effective)) if not any(covers(own, key) for own in STAGE_KEYS)]


def _judge_text(text: ScriptText, earlier: Earlier | None, is_accepted: bool) -> list[str]:
    return [] if earlier is None else judge_changes(earlier, text.changed_defaults(earlier.ledger), is_accepted)


def _load_main(request: Request, effective: dict[str, Any]) -> Callable[[Params, Out], object]:
    """The script's `main`, loaded with the threads and the seed of the config."""
    torch.set_num_threads(effective["num_threads"])
    seeds.set_seed(effective.get("seed", 0))
    main = getattr(load_script(request.script), "main", None)
    if not callable(main):
        raise BadInput(f"{request.script.path}: has no function main; expected main(params, out): write one")
    return main  # type: ignore[no-any-return]  # whatever it is, it will be called


def _work(main: Callable[[Params, Out], object], effective: dict[str, Any], out: Out) -> Ledger:
    ledger = Ledger()
    seeds.set_seed(seeds.derive(effective.get("seed", 0), "stage"))  # however much the script drew while it loaded
    main(Params(effective, ledger), out)
    return ledger


def _remarks(effective: dict[str, Any], ledger: Ledger, earlier: Earlier | None, known: Sequence[str]) -> list[str]:
    """What can only be known when the script has run."""
    own = _users_keys(effective)
    remarks = [_unread(key, ledger) for key in ledger.unread(effective) if key in own]
    changed = judge_defaults(earlier, ledger, is_accepted=True)
    return remarks + [f"warning: {line}" for line in changed if line not in known]


def _unread(key: str, ledger: Ledger) -> str:
    best = ledger.nearest_absent(key)
    guess = f"did you mean {best!r}?" if best else "is its name right?"
    return f"warning: the script did not read {key}: {guess}"
