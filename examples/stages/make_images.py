"""Sample data: small, noisy grey images of three shapes, as PGM files in one folder per shape.

python make_images.py images [COUNT]
"""

import sys
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from samovar.seeds import numpy_generator

SIZE = 12
SHAPES = ("bar", "disc", "stripe")


def draw(shape: str, chance: np.random.Generator) -> NDArray[np.uint8]:
    row, column = np.mgrid[:SIZE, :SIZE]
    middle = chance.integers(3, SIZE - 3, 2)
    inside = {
        "bar": abs(row - middle[0]) < 2,
        "disc": (row - middle[0]) ** 2 + (column - middle[1]) ** 2 < 9,
        "stripe": abs(column - middle[1]) < 2,
    }[shape]
    return np.asarray(inside * 120 + chance.integers(0, 120, (SIZE, SIZE)), np.uint8)


def write_images(folder: Path, count: int) -> None:
    for place, shape in enumerate(SHAPES):
        (folder / shape).mkdir(parents=True)
        for number in range(count):
            pixels = draw(shape, numpy_generator(1, "images", place, number))
            with (folder / shape / f"{number:04d}.pgm").open("xb") as file:
                file.write(f"P5 {SIZE} {SIZE} 255\n".encode() + pixels.tobytes())


if __name__ == "__main__":
    write_images(Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 60)
