"""A stage: `main(params, out)` of the user's script turns a config into a result directory.

config ─▶ inputs found ─▶ keys and defaults checked ─▶ directory created ─▶ main(params, out) ─▶ files kept, finished
────────── a mistake found here leaves nothing behind ─┘        ▲                     │
                                                                └─ failed or killed ──┘

A stage that failed or was killed starts over with an empty `files/`. Nothing of the earlier attempt remains, so a
changed script is accepted without asking.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from samovar import seeds
from samovar.config import Ledger, Params, flatten
from samovar.config.identity import PLACE_KEYS, STAGE, without_parent
from samovar.config.places import PathLike, Place
from samovar.config.values import covers, did_you_mean
from samovar.errors import BadInput, ConfigError, UnknownKey
from samovar.results import ResultDirectory, ResultPlan, begin
from samovar.stages.inputs import CHECKSUM_KEY, FILES_KEY, SOURCE_KEYS, StageInputs, find_inputs
from samovar.stages.out import Out
from samovar.stages.script_text import read_text
from samovar.store import open_store
from samovar.training.drift import EarlierRun, check_changes, check_defaults, find_earlier_run
from samovar.training.request import Request, fix_num_threads, make_request
from samovar.training.script import forbid_exit, load_script

STAGE_KEYS = ("seed", "num_threads", FILES_KEY, CHECKSUM_KEY, *SOURCE_KEYS)
"""Keys that Samovar reads itself; the script must read all others."""


@dataclass(frozen=True)
class StageResult:
    """A stage that is finished.

    Attributes:
        directory: Its result directory.
        was_finished: Whether there was nothing to do.
        notes: What a user should look at.

    Example:
        >>> run_stage("stages/total.py", "stages/total.json").was_finished
        True
    """

    directory: Place
    was_finished: bool
    notes: Sequence[str]


def run_stage(
    script: PathLike,
    config: PathLike,
    out: PathLike | None = None,
    *,
    overrides: Sequence[Mapping[str, Any]] = (),
    accept_defaults: bool = False,
) -> StageResult:
    """Run a script of your own, its `main(params, out)`, unless its directory is finished already.

    Args:
        script: A Python file with `main(params, out)`.
        config: A JSON file.
        out: The result directory. Default: the one that the config names, or the config's file name without its suffix.
        overrides: Config keys to change; a dotted key is a path.
        accept_defaults: Accept defaults of the script that changed since an earlier run of the config.

    Returns:
        The directory of the finished result.

    Raises:
        UserError: The config, the script or a source cannot be used; nothing is written.

    Example:
        >>> done = run_stage("stages/numbers.py", "stages/numbers.json", "stages/four", overrides=[{"count": 4}])
        >>> str(done.directory), done.was_finished
        ('stages/four', False)
    """
    request = make_request(config, script, overrides, out=out, directory_keys=PLACE_KEYS["run"])
    return make_stage(replace(request, accept_defaults=accept_defaults))


def make_stage(request: Request) -> StageResult:
    """Run the stage that was asked for."""
    directory = ResultDirectory(open_store(request.out, request.disk))
    inputs = find_inputs(request.tree, request.folder)
    effective = _make_effective_config(request, inputs)
    fix_num_threads(effective, directory)
    _check_numbers(effective, request.where)
    if directory.is_finished:
        plan = _plan_result(request, effective, inputs, directory)
        return StageResult(request.out, True, begin(directory, plan).notes)
    inputs.check_sources(request.out)
    plan = _plan_result(request, effective, inputs, directory)
    text = read_text(request.script)
    try:
        text.check_keys(_script_keys(effective), request.where)
    except UnknownKey:
        if re.search(rb"\bmain\b", request.script.source) is None:  # a script of another command
            raise _no_main(request) from None
        raise
    earlier = find_earlier_run(plan, request.out, request.replayed)
    notes: list[str] = []
    if earlier is not None:
        notes = check_changes(earlier, text.changed_defaults(earlier.ledger), request.accept_defaults)
    main = _load_main(request, effective)
    with begin(directory, plan, accept_script=True) as result:
        if result.is_finished:
            return StageResult(request.out, True, result.notes)
        result.restore()
        with forbid_exit(request.script.path, "main"):
            ledger = _call_main(main, effective, Out(result, request.out, inputs.named, inputs.raw))
        notes += _make_warnings(effective, ledger, earlier, notes)
        result.write_params(ledger.to_dict())
        result.register_files()
        result.finish(None, None)
        return StageResult(request.out, False, [*result.notes, *notes])


def _make_effective_config(request: Request, inputs: StageInputs) -> dict[str, Any]:
    """The content of model_config.json. It runs as it is, from anywhere."""
    kept = {key: value for key, value in request.tree.items() if key not in PLACE_KEYS["run"]}
    return inputs.with_absolute_paths(kept)


def _check_numbers(effective: dict[str, Any], where: str) -> None:
    for key, least in (("seed", 0), ("num_threads", 1)):
        value = effective.get(key, least)
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise ConfigError(f"{where}: {key} must be an integer of at least {least}, got {value!r}")


def _plan_result(
    request: Request, effective: dict[str, Any], inputs: StageInputs, directory: ResultDirectory
) -> ResultPlan:
    existing = directory if directory.is_created else request.replayed
    return ResultPlan(
        existing.lineage.kind if existing is not None else f"{STAGE}{request.script.path.stem}",
        effective,
        request.script.source,
        request.script.contents,
        inputs.as_sources(directory.lineage.sources if directory.is_created else ()),
        code_folder=request.script.path.parent,
    )


def _script_keys(effective: dict[str, Any]) -> list[str]:
    """The keys that the script must read."""
    return [key for key in flatten(without_parent(effective)) if not any(covers(own, key) for own in STAGE_KEYS)]


def _load_main(request: Request, effective: dict[str, Any]) -> Callable[[Params, Out], object]:
    """Load the script with the threads and the seed of the config."""
    torch.set_num_threads(effective["num_threads"])
    seeds.set_seed(effective.get("seed", 0))
    main = getattr(load_script(request.script), "main", None)
    if not callable(main):
        raise _no_main(request)
    return main  # type: ignore[no-any-return]  # whatever it is, it will be called


def _no_main(request: Request) -> BadInput:
    return BadInput(f"{request.script.path}: no function main(params, out)")


def _call_main(main: Callable[[Params, Out], object], effective: dict[str, Any], out: Out) -> Ledger:
    ledger = Ledger()
    seeds.set_seed(seeds.derive(effective.get("seed", 0), "stage"))  # the script may have drawn while it was loaded
    main(Params(effective, ledger), out)
    return ledger


def _make_warnings(
    effective: dict[str, Any], ledger: Ledger, earlier: EarlierRun | None, notes: Sequence[str]
) -> list[str]:
    """What only shows after the script has run: keys that it did not read, and computed defaults that changed."""
    script_keys = _script_keys(effective)
    unread = [_describe_unread(key, ledger) for key in ledger.unread(effective) if key in script_keys]
    changed = check_defaults(earlier, ledger, is_accepted=True)
    return unread + [f"warning: {line}" for line in changed if line not in notes]


def _describe_unread(key: str, ledger: Ledger) -> str:
    return f"warning: the script did not read {key}{did_you_mean(ledger.nearest_absent(key))}"
