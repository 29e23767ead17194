"""Packs image files into arrays; a file's folder is its label. Every fourth file is kept for testing."""

import json
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from samovar import Params
from samovar.stages import Out


def read_pgm(path: Path) -> NDArray[np.float32]:
    header, _, pixels = path.read_bytes().partition(b"\n")
    _, width, height, brightest = header.split()
    image = np.frombuffer(pixels, np.uint8).reshape(int(height), int(width))
    return image.astype(np.float32) / np.float32(int(brightest))


def main(params: Params, out: Out) -> None:
    files = out.raw_files()
    shapes = sorted({path.parent.name for path in files})
    is_test = np.arange(len(files)) % params.get("test_every", 4) == 0
    images = np.stack([read_pgm(path) for path in files])
    labels = np.array([shapes.index(path.parent.name) for path in files])
    for part, rows in (("train", ~is_test), ("test", is_test)):
        with (out / f"{part}.npz").open("xb") as file:
            np.savez(file, images=images[rows], labels=labels[rows])
    metadata = {"shapes": shapes, "train": int((~is_test).sum()), "test": int(is_test.sum())}
    (out / "metadata.json").write_text(json.dumps(metadata))
