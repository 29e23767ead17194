"""A frozen model that is data alone: hash tables, a program and its weights. Knows no scripts and no files."""

import threading
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from samovar.config.records import as_corrupt
from samovar.embeddings import HashEmbedding
from samovar.errors import BadInput, CorruptData
from samovar.scoring.model import Model
from samovar.scoring.program import Program
from samovar.scoring.samples import sample_inputs
from samovar.scoring.signature import Inputs, Signature
from samovar.scoring.tiles import TILE_ROWS, restored_threads, score
from samovar.scoring.weights import Tree, checked_shards, make_embedding
from samovar.tables.record import Bag, RecordValue


class FrozenModel:
    """Computes the predictions of a program.

    Args:
        program: What it computes.
        signature: What it reads.
        tree: Its numbers; see `samovar.scoring.weights`.
        where: Its name in errors.

    Raises:
        CorruptData: The parts do not fit each other.
    """

    def __init__(self, program: Program, signature: Signature, tree: Tree, where: str) -> None:
        self.program = program
        self.signature = signature
        self.where = where
        self.embeddings = {
            path: make_embedding(plan, tree["embeddings"][path], where) for path, plan in program.embeddings.items()
        }
        self.lock = threading.Lock()
        """Whoever changes the model holds it, and whoever scores with a model that may be changed."""
        self._use(tree["dense"])
        self._check()

    def _use(self, dense: Mapping[str, torch.Tensor]) -> None:
        missing = [name for name in self.program.weights if name not in dense]
        if missing:
            raise CorruptData(f"{self.where}: its weights lack {missing[0]!r}")
        # In memory of our own, which torch aligns: other alignments may give other bits.
        self._weights = [dense[name].clone() for name in self.program.weights]
        self._calls = _group(self.program, self.embeddings)

    def _check(self) -> None:
        """Run the program on made-up rows, so that what does not fit is found now: first without numbers, because a
        stranger's program could fill the memory."""
        known = set(self.signature.names)
        named = [each.name for each in self.program.inputs if each.part != "pooled"]
        for name in (*named, *(lookup.column for lookup in self.program.lookups)):
            if name not in known:
                raise CorruptData(f"{self.where}: the program reads {name!r}, which the signature does not have")
        for length in (1, 4):
            inputs = sample_inputs(self.signature, TILE_ROWS, {}, max_length=length)
            with restored_threads(self.program.num_threads), torch.no_grad():
                self.program.check(self._values(inputs), self._weights, self.where)
                try:
                    score(self.forward, inputs, TILE_ROWS)
                except BadInput as error:
                    raise CorruptData(f"{self.where}: the program cannot score made-up rows ({error})") from error

    def advance(self, tree: Tree) -> None:
        """Become the model of a later publication. Nobody may use it meanwhile.

        Args:
            tree: The rows and weights that changed.

        Raises:
            CorruptData: They do not fit. The model must not be used any more.
        """
        with as_corrupt(self.where):
            for path, embedding in self.embeddings.items():
                found = tree["embeddings"][path]
                for name, shards in found["tables"].items():
                    for shard in checked_shards(shards, embedding.dim_of(name), f"{self.where}: hash table {name!r}"):
                        embedding.put_rows(name, shard["ids"], shard["stamps"], shard["rows"])
                embedding.clock = found["clock"]
                embedding.sweep()
            self._use(tree["dense"])

    def forward(self, inputs: Inputs) -> Any:
        """The predictions of a tile of rows: a tensor, or a dict of them."""
        try:
            found = self.program.run(self._values(inputs), self._weights)
        except (RuntimeError, IndexError, ValueError, TypeError) as error:
            reason = str(error).partition("\n")[0]
            raise BadInput(f"{self.where}: the model cannot compute these rows: {reason}") from error
        return found[""] if found.keys() == {""} else found

    def _values(self, inputs: Inputs) -> list[torch.Tensor]:
        pooled: dict[int, torch.Tensor] = {}
        for embedding, entries in self._calls:
            made = embedding({feature: inputs[column] for _, feature, column in entries})
            pooled |= {number: made[feature] for number, feature, _ in entries}
        return [_part(inputs, pooled, each.part, each.name) for each in self.program.inputs]

    def apply(self, inputs: Inputs, num_rows: int) -> Any:
        """The predictions of any number of rows: what `Model.predict` calls."""
        with restored_threads(self.program.num_threads), torch.no_grad():
            return score(self.forward, inputs, num_rows) if self.program.is_exact else self.forward(inputs)

    def model(self) -> Model:
        """What `samovar.load` returns."""
        return Model(self.where, self.signature, self.apply, list(self.embeddings.values()))

    def known_ids(self) -> dict[str, np.ndarray[Any, np.dtype[np.uint64]]]:
        """Some ids that its tables have, by column."""
        found = {}
        for lookup in self.program.lookups:
            embedding = self.embeddings[lookup.embedding]
            table = self.program.embeddings[lookup.embedding].tables[lookup.feature]
            shards = embedding.get_extra_state()["tables"][table]["shards"]
            found[lookup.column] = np.concatenate([np.asarray(shard["ids"])[:100] for shard in shards])
        return found

    def with_exactness(self, is_exact: bool) -> "FrozenModel":
        """The same model, scored in tiles or not."""
        other = object.__new__(FrozenModel)
        other.__dict__ = {**self.__dict__, "program": replace(self.program, is_exact=is_exact)}
        return other


def _group(
    program: Program, embeddings: Mapping[str, HashEmbedding]
) -> list[tuple[HashEmbedding, list[tuple[int, str, str]]]]:
    """The lookups as calls: one per embedding, unless it looks up several columns as one feature."""
    calls: list[tuple[str, dict[str, tuple[int, str, str]]]] = []
    for number, lookup in enumerate(program.lookups):
        entry = (number, lookup.feature, lookup.column)
        for path, entries in calls:
            if path == lookup.embedding and lookup.feature not in entries:
                entries[lookup.feature] = entry
                break
        else:
            calls.append((lookup.embedding, {lookup.feature: entry}))
    return [(embeddings[path], list(entries.values())) for path, entries in calls]


def _part(inputs: Inputs, pooled: Mapping[int, torch.Tensor], part: str, name: str) -> torch.Tensor:
    if part == "pooled":
        return pooled[int(name)]
    value: RecordValue = inputs[name]
    if part == "values" and isinstance(value, torch.Tensor):
        return value
    if part in ("ids", "lengths") and isinstance(value, Bag):
        return value.data if part == "ids" else value.data_len
    raise BadInput(f"column {name!r}: the model reads its {part}, got {type(value).__name__}")
