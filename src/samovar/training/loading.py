"""A trained model as its script builds it, with the weights of its directory. Runs the script; writes nothing."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch

from samovar.embeddings import HashEmbedding
from samovar.errors import Conflict, NotAResult
from samovar.results import ResultDirectory
from samovar.results.directory import CONFIG, SCRIPT, WITHOUT_MODEL, Epoch
from samovar.results.lineage import digest
from samovar.runner import Learner, Run
from samovar.runner.scaling import scale_inputs
from samovar.runner.step import frozen
from samovar.scoring.model import Model
from samovar.scoring.signature import Inputs, Signature
from samovar.scoring.tiles import restored_threads, score
from samovar.seeds import seeded
from samovar.training.function import script_of
from samovar.training.schema import Config, load_config
from samovar.training.script import Script, read_kept_script
from samovar.training.session import build_learner

Build: TypeAlias = Callable[..., Any]


@dataclass(frozen=True)
class Restored:
    """A trained model with its code.

    Attributes:
        origin: Its directory.
        config: What it was trained with.
        learner: What the script built, with the trained weights.
        signature: The columns that it reads.
        position: Where training was.
    """

    origin: ResultDirectory
    config: Config
    learner: Learner
    signature: Signature
    position: Any

    @property
    def num_threads(self) -> int:
        """The threads that its scores depend on."""
        return self.config.num_threads or 1

    def apply(self, inputs: Inputs, num_rows: int) -> Any:
        """The predictions of any number of rows."""
        learner = self.learner

        def forward(inputs: Inputs) -> Any:
            return learner.predict(learner.model(inputs))

        with restored_threads(self.num_threads), torch.no_grad(), frozen(learner.model, self.config.seed):
            return forward(inputs) if learner.mixes_rows else score(forward, inputs, num_rows)

    def model(self) -> Model:
        """What `samovar.load` returns."""
        modules = [module for module in self.learner.model.modules() if isinstance(module, HashEmbedding)]
        return Model(self.origin.name, self.signature, self.apply, modules)


def restore(
    origin: ResultDirectory, *, snapshot: bool = False, epoch: Epoch = "last", build: Build | None = None
) -> Restored:
    """Run the script of a model directory, and load its weights.

    Args:
        origin: The directory.
        snapshot: Whether to load the newest snapshot of a model that is still training.
        epoch: Which state of the model.
        build: The function that it was trained with, if its script cannot run.

    Raises:
        NotAResult: There is no model, none that is finished, or no best one.
        Conflict: `build` is another function than the one that it was trained with.
    """
    if origin.kind in WITHOUT_MODEL:
        raise origin.is_not("model")
    signature = Signature.read(origin.store)
    if not origin.is_finished and not snapshot:
        raise NotAResult(f"{origin.name} is {origin.condition}, not finished. snapshot=True loads its newest snapshot")
    state = origin.load_model(epoch)
    config = load_config(origin.config, f"{origin.name}/{CONFIG}")
    script = read_kept_script(origin) if build is None else _same_function(build, origin)
    with restored_threads(torch.get_num_threads()), seeded(config.seed):
        learner = build_learner(config, script).learner
    scale_inputs(learner.model, signature.inputs)
    Run(learner).load_model(state.tree)
    return Restored(origin, config, learner, signature, state.position)


def _same_function(build: Build, origin: ResultDirectory) -> Script:
    script = script_of(build)
    if digest(script.source) != origin.code.get(SCRIPT):
        raise Conflict(f"{origin.name} was trained with another function. Pass that one; its source is in its {SCRIPT}")
    return script
