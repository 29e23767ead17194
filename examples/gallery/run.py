"""The gallery: real data out of PyPI packages, brewed, trained and scored beside scikit-learn.

    python -m examples.gallery.run [adult sales …] [--folder build/gallery] [--page examples/gallery/README.md]

Each example is copied to a folder of its own, which then holds its rows, tables, model and scores. What is there is not
made again, so a run that was stopped goes on.
"""

import argparse
import itertools
import json
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from benchmarks.contest.summary import find_place, write_into
from examples.gallery.datasets import DATA, PARTS
from examples.gallery.learn_columns import learn_columns
from examples.gallery.peers import PEERS, Floats, Rows, Task, read_rows
from threadpoolctl import threadpool_limits

import samovar
from samovar.brewing import brew_recipe
from samovar.errors import BadInput
from samovar.scoring import measure

HERE = Path(__file__).parent
MARKERS = ("<!-- written by `make gallery`: from here -->", "<!-- written by `make gallery`: to here -->")
SAMOVAR = "Samovar"
MEASURED_AS: Mapping[Task, Literal["binary", "multiclass", "regression"]] = {
    "yes_or_no": "binary",
    "classes": "multiclass",
    "number": "regression",
}


@dataclass(frozen=True)
class Example:
    """What is predicted, and how well it is done is measured."""

    task: Task
    metric: str
    num_blocks: int | None = None
    """None: a table that is cut at random. Else how often scikit-learn is trained in the scored part of a stream."""
    is_amount: bool = False
    """Everyone learns the logarithm, and is measured by it."""


EXAMPLES = {
    "adult": Example("yes_or_no", "log_loss"),
    "california": Example("number", "rmse"),
    "covtype": Example("classes", "log_loss"),
    "weather": Example("yes_or_no", "log_loss"),
    "clicks": Example("yes_or_no", "log_loss", 12),
    "retail": Example("number", "rmse", 4, is_amount=True),
    "runway": Example("number", "rmse", 3),
    "sales": Example("number", "rmse", 7, is_amount=True),
}


def run(name: str, folder: Path) -> dict[str, Any]:
    """Score an example, in a folder that has its recipe, config and rows.

    Returns:
        How many rows were learned and scored, and the score of each contestant.
    """
    kept = folder / "scores.json"
    if not kept.exists():
        example = EXAMPLES[name]
        with threadpool_limits(1):  # scikit-learn's, which wait in loops
            found = _run_table(example, folder) if example.num_blocks is None else _run_stream(example, folder)
        kept.write_text(json.dumps(found, indent=2))
    scores: dict[str, Any] = json.loads(kept.read_text())
    return scores


def prepare(name: str, folder: Path) -> Path:
    """Copy an example, and write the rows that its package carries beside it."""
    place = folder / name
    if not place.exists():
        unfinished = folder / f"{name}.unfinished"
        shutil.rmtree(unfinished, ignore_errors=True)
        shutil.copytree(HERE / name, unfinished)
        DATA[name].get(unfinished)
        unfinished.rename(place)
    return place


# A table that is cut at random: train, stop by valid, score test


def _run_table(example: Example, folder: Path) -> dict[str, Any]:
    config = json.loads((folder / "train.json").read_text())
    (target,) = config["train_data"]["targets"]
    brew_recipe(folder / "recipe.json", progress=False)
    suffix = Path(json.loads((folder / "recipe.json").read_text())["source"]).suffix
    for part in list(PARTS)[1:]:
        changes = {"source": f"{part}{suffix}", "statistics": "train"}
        brew_recipe(folder / "recipe.json", folder / part, overrides=[changes], progress=False)
    if not (folder / "task.json").exists():
        learn_columns(folder / "train", target)
    files = {"columns": folder / "columns", "task": folder / "task.json"}
    samovar.train(HERE / "table_net.py", config=folder / "train.json", files=files, progress=False)
    done = samovar.predict(folder / "model", folder / "test", folder / "predicted", targets=[target], epoch="best")
    written = done.predictions()
    predicted = np.array(written["prediction"].tolist())

    tables = [samovar.open_table(folder / part) for part in PARTS]
    features = [each for each in tables[0].columns if each != target]
    train, valid, test = read_rows(tables, features, target)
    assert np.array_equal(written[target], test.target)  # predictions are in the order of the table
    scores = {SAMOVAR: _score(example, predicted, test.target)}
    for name, kind in PEERS.items():
        peer = kind(example.task)
        peer.fit(train, valid)
        scores[name] = _score(example, peer.predict(test), test.target)
    return {"learned": len(train.target), "scored": len(test.target), "scores": scores}


# A stream: every row is predicted by models that were trained on earlier ones


def _run_stream(example: Example, folder: Path) -> dict[str, Any]:
    brew_recipe(folder / "recipe.json", progress=False)
    done = samovar.train(HERE / "stream_net.py", config=folder / "train.json", progress=False)
    written = done.predictions()
    predicted = written["prediction"].to_numpy(np.float64)

    config = json.loads((folder / "train.json").read_text())
    (target,) = config["train_data"]["targets"]
    model: Mapping[str, Any] = config["model"]
    features = [*model["ids"], *model["numbers"], *model.get("pairs", [])]
    (rows,) = read_rows([samovar.open_table(folder / "rows")], features, target)
    first = len(rows.target) - len(predicted)
    assert np.array_equal(written[target], rows.target[first:])  # predictions are in the order of the table
    if example.is_amount:
        rows.numbers[:, : len(model["numbers"])] = np.log1p(rows.numbers[:, : len(model["numbers"])])
        rows = replace(rows, target=np.log1p(rows.target))
        predicted = np.log1p(predicted.clip(0))
    wanted = rows.target[first:]
    scores = {SAMOVAR: _score(example, predicted, wanted)}
    for peer in PEERS:
        scores[peer] = _score(example, _predict_blocks(example, peer, rows, first), wanted)
    return {"learned": len(rows.target), "scored": len(wanted), "scores": scores}


def _predict_blocks(example: Example, name: str, rows: Rows, first: int) -> Floats:
    """Predict the rows from `first` on, block by block, each by a model of all rows before it. Blocks are whole hours,
    days or weeks."""
    assert example.num_blocks is not None
    ends = np.linspace(first, len(rows.target), example.num_blocks + 1).astype(int)[1:-1]
    cuts = np.searchsorted(rows.periods, rows.periods[ends])
    bounds = np.unique([first, *cuts[cuts > first], len(rows.target)])
    predicted = []
    for start, end in itertools.pairwise(bounds):
        peer = PEERS[name](example.task)
        peer.fit(rows.take(slice(0, start)))
        predicted.append(peer.predict(rows.take(slice(start, end))))
    return np.concatenate(predicted)


# Scores


def _score(example: Example, predicted: Floats, wanted: Floats) -> float:
    return float(measure(wanted, predicted, task=MEASURED_AS[example.task])[example.metric])


def to_markdown(found: Mapping[str, Mapping[str, Any]]) -> str:
    """One row per example; the best score of each is bold."""
    contestants = [SAMOVAR, *PEERS]
    lines = ["| data | learned | scored | metric | " + " | ".join(contestants) + " |"]
    lines.append("|---|--:|--:|---|" + "--:|" * len(contestants))
    for name, outcome in found.items():
        example, scores = EXAMPLES[name], outcome["scores"]
        best = min(scores.values())
        shown = [f"**{scores[each]:.4f}**" if scores[each] == best else f"{scores[each]:.4f}" for each in contestants]
        metric = {"log_loss": "log-loss", "rmse": "RMSE of logarithms" if example.is_amount else "RMSE"}[example.metric]
        lines.append(f"| {name} | {outcome['learned']:,} | {outcome['scored']:,} | {metric} | {' | '.join(shown)} |")
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"only these; all by default: {', '.join(EXAMPLES)}")
    parser.add_argument("--folder", type=Path, default=Path("build/gallery"))
    parser.add_argument("--page", type=Path, help="write the table between the markers of this page")
    options = parser.parse_args()
    unknown = [name for name in options.names if name not in EXAMPLES]
    if unknown:
        parser.error(f"no example {', '.join(unknown)}; there are {', '.join(EXAMPLES)}")
    torch.set_num_threads(1)
    try:
        if options.page:
            find_place(options.page, MARKERS)  # fail now, not at the end
        found = {}
        for name in options.names or EXAMPLES:
            found[name] = run(name, prepare(name, options.folder))
            print(name, json.dumps(found[name]["scores"]), flush=True)
    except BadInput as error:
        print(f"python -m examples.gallery.run: {error}", file=sys.stderr)
        return 2
    print(to_markdown(found))
    if options.page:
        write_into(options.page, to_markdown(found), MARKERS)
    return 0


if __name__ == "__main__":
    sys.exit(main())
