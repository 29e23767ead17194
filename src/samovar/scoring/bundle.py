"""A bundle: a frozen model in a result directory, as data alone. Reading it runs nobody's code.

program.json     what is computed (program.py)
signature.json   what turns raw rows into inputs (signature.py)
weights/         the numbers (weights.py), as a state tree: state.json and arrays.safetensors
check.json       how the program was checked when it was exported
inventory.json   sizes and checksums of these: every byte is verified when it is read
"""

from collections.abc import Mapping

from samovar.errors import CorruptData, NotAResult
from samovar.results import ResultDirectory
from samovar.results.checked import FileRecord, map_checked, write_checked
from samovar.results.directory import SIGNATURE
from samovar.results.state import read_state, write_state
from samovar.scoring.frozen import FrozenModel
from samovar.scoring.program import Program
from samovar.scoring.signature import Signature
from samovar.scoring.weights import Tree, decoded
from samovar.store import Fence, Store

BUNDLE_KIND = "bundle"
PROGRAM, WEIGHTS, CHECK, ONNX = "program.json", "weights", "check.json", "model.onnx"


def write_parts(
    store: Store, prefix: str, program: Program, signature: Signature, tree: Tree, fence: Fence | None = None
) -> dict[str, FileRecord]:
    """Write a model below a prefix that is empty or ends with '/'. Returns the records of its files, by path."""
    return {
        **write_state(store, f"{prefix}{WEIGHTS}", tree, fence),
        f"{prefix}{SIGNATURE}": write_checked(store, f"{prefix}{SIGNATURE}", signature.to_bytes(), fence),
        f"{prefix}{PROGRAM}": write_checked(store, f"{prefix}{PROGRAM}", program.to_bytes(), fence),
    }


def read_parts(store: Store, prefix: str, records: Mapping[str, FileRecord]) -> tuple[Program, Signature, Tree]:
    """Read what `write_parts` wrote, and verify every byte.

    Raises:
        CorruptData: A file is missing, or differs from its record, or uses what a program may not.
    """
    texts = {}
    for name in (PROGRAM, SIGNATURE):
        path = f"{prefix}{name}"
        if path not in records:
            raise CorruptData(f"{store.name} has no record of {path}. Restore it from a copy")
        texts[name] = bytes(map_checked(store, path, records[path]))
    where = f"{store.name}/{prefix}"
    program = Program.from_bytes(texts[PROGRAM], f"{where}{PROGRAM}")
    signature = Signature.from_bytes(texts[SIGNATURE], f"{where}{SIGNATURE}")
    tree = decoded(read_state(store, f"{prefix}{WEIGHTS}", records), f"{where}{WEIGHTS}")
    return program, signature, tree


def read_bundle(directory: ResultDirectory) -> FrozenModel:
    """The model of a bundle.

    Raises:
        NotAResult: The bundle is not finished.
        CorruptData: It is damaged.
    """
    if not directory.is_finished:
        raise NotAResult(f"{directory.name} is {directory.condition}, not finished. Export it again")
    program, signature, tree = read_parts(directory.store, "", directory.inventory())
    return FrozenModel(program, signature, tree, directory.name)
