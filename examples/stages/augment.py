"""Augments the training images: shifted, flipped, and with different brightness."""

import numpy as np

from samovar import Params
from samovar.seeds import numpy_generator
from samovar.stages import Out


def main(params: Params, out: Out) -> None:
    train = np.load(out.source("data") / "train.npz")
    images, labels = [train["images"]], [train["labels"]]
    for copy in range(params.get("copies", 2)):
        chance = numpy_generator(params.get("seed", 0), "augment", copy)
        moved = np.roll(train["images"], tuple(chance.integers(-2, 3, 2)), axis=(1, 2))
        if params.get("flip", True):
            moved = moved[:, ::-1, ::-1]
        images.append(moved * chance.uniform(0.8, 1.2, (len(moved), 1, 1)).astype(np.float32))
        labels.append(train["labels"])
    with (out / "train.npz").open("xb") as file:
        np.savez(file, images=np.concatenate(images), labels=np.concatenate(labels))
