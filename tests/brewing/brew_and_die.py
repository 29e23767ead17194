"""Brews a table, or kills itself after some minibatches: python brew_and_die.py FOLDER NUM_MINIBATCHES.

Prints the peak of its resident memory in kilobytes.
"""

import json
import os
import signal
import sys
from pathlib import Path

from samovar.brewing.brew import load_recipe, make_table
from samovar.brewing.progress import Progress


def main(folder: Path, num_minibatches: int) -> None:
    class Deadly(Progress):
        num_batches = 0

        def reach(self, done: float) -> None:
            super().reach(done)
            self.num_batches += self.state.phase == "writing"
            if self.num_batches == num_minibatches:
                os.kill(os.getpid(), signal.SIGKILL)

    tree = json.loads((folder / "recipe.json").read_text())
    make_table(load_recipe(tree, "recipe.json", folder), folder / "table", progress=Deadly())
    status = Path("/proc/self/status").read_text().splitlines()
    print(next(line.split()[1] for line in status if line.startswith("VmHWM")))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
