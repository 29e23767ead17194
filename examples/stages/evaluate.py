"""Accuracy on images that the model has never seen."""

import json

import numpy as np
import torch
from net import load_net  # type: ignore[import-not-found]  # beside this script, where `samovar run` finds it

from samovar import Params
from samovar.stages import Out


def main(params: Params, out: Out) -> None:
    model = out.source("model")
    data = model.source("augmentation").source("data")
    test = np.load(data / "test.npz")
    with torch.no_grad():
        guesses = load_net(model / "weights.npz", model.params)(torch.from_numpy(test["images"])).argmax(1).numpy()
    is_right = guesses == test["labels"]
    shapes = json.loads((data / "metadata.json").read_text())["shapes"]
    each = {shape: float(is_right[test["labels"] == label].mean()) for label, shape in enumerate(shapes)}
    (out / "accuracy.json").write_text(json.dumps({"all": float(is_right.mean()), **each}, indent=2))
    out.log(accuracy=is_right.mean())
