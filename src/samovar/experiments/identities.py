"""What makes the result of each of many targets: its flat config, without the keys that cannot change it."""

from collections.abc import Sequence

from samovar.config.identity import identity
from samovar.config.values import Tree
from samovar.experiments.readings import answers, read_kinds
from samovar.experiments.targets import Target


def read_identities(targets: Sequence[Target]) -> list[Tree]:
    """A config file without a result is taken for one of our own commands: nobody knows what it is for."""
    folders = [target.path for target in targets if target.directory is not None]
    kinds = dict(zip(folders, (each["kind"] for each in answers(read_kinds(folders))), strict=True))
    return [identity(target.config, kind=kinds.get(target.path, "")) for target in targets]
