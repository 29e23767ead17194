"""A job without torch in a result directory: it goes through hours, logs, writes part files, takes a snapshot every
second hour, and ends with the same bytes however often it is killed. Also a program: job.py DIRECTORY [HOURS]."""

import sys
from pathlib import Path
from typing import Any

import numpy as np

from samovar.results import ResultDirectory, ResultPlan, begin
from samovar.seeds import numpy_generator
from samovar.store import LocalStore

CONFIG: dict[str, Any] = {"hours": 6, "seed": 1, "model": {"size": 1000, "decay": 0.9}}


def initial_state(config: dict[str, Any]) -> dict[str, Any]:
    return {
        "weights": np.zeros(config["model"]["size"], np.float32),
        "seen": {7: ("seven", None), 2**64 - 1: (float("nan"),)},
        "losses": [],
    }


def train_hour(state: dict[str, Any], hour: int, config: dict[str, Any]) -> dict[str, float]:
    """One step that depends on everything before it."""
    noise = numpy_generator(config["seed"], "noise", hour).standard_normal(state["weights"].shape, np.float32)
    state["weights"] = state["weights"] * np.float32(config["model"]["decay"]) + noise
    state["losses"] = [*state["losses"], float(np.square(state["weights"]).mean())]
    return {"hour": hour, "loss": state["losses"][-1]}


def run(directory: ResultDirectory, config: dict[str, Any], heartbeat_seconds: float | None = None) -> str:
    """Train the remaining hours, and return what was done."""
    plan = ResultPlan("counter", config, script=Path(__file__).read_bytes())
    with begin(directory, plan, heartbeat_seconds=heartbeat_seconds) as result:
        if result.is_finished:
            return "finished already: nothing to do"
        snapshot = result.restore()
        state = initial_state(config) if snapshot is None else snapshot.tree
        first = 0 if snapshot is None else snapshot.position["hour"]
        for hour in range(first, config["hours"]):
            result.append("metrics.jsonl", train_hour(state, hour, config))
            with result.create(f"evaluation/train/{hour:06d}.f32") as part:
                part.write(state["weights"][:64].tobytes())
            if hour % 2 == 1:
                result.save(state, {"hour": hour + 1})
        result.finish(state, {"hour": config["hours"]})
        return f"done from hour {first}"


if __name__ == "__main__":
    hours = {"hours": int(sys.argv[2])} if len(sys.argv) > 2 else {}
    print(run(ResultDirectory(LocalStore(sys.argv[1])), {**CONFIG, **hours}, heartbeat_seconds=10))
