"""Predicts image files: one line per file, with probabilities."""

import csv
import json

import numpy as np
import torch
from make_dataset import read_pgm  # type: ignore[import-not-found]  # beside this script
from net import load_net  # type: ignore[import-not-found]  # the same

from samovar import Params
from samovar.stages import Out


def main(params: Params, out: Out) -> None:
    model = out.source("model")
    shapes = json.loads((model.source("augmentation").source("data") / "metadata.json").read_text())["shapes"]
    net = load_net(model / "weights.npz", model.params)
    with (out / "predictions.csv").open("x", newline="") as file, torch.no_grad():
        writer = csv.writer(file)
        writer.writerow(["file", *shapes])
        for path in out.raw_files():
            chances = net(torch.from_numpy(read_pgm(path)[np.newaxis])).softmax(1)[0]
            writer.writerow([f"{path.parent.name}/{path.name}", *(f"{chance:.4f}" for chance in chances.tolist())])
