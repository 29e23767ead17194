"""What a result directory is to contain, before it exists. Writes nothing."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from samovar.results.directory import ALL_FILES, SCRIPT, ResultDirectory
from samovar.results.lineage import Lineage, Source, digest


@dataclass(frozen=True)
class ResultPlan:
    """What a directory is to contain.

    Example:
        >>> plan = ResultPlan("model", {"lr": 0.1}, script=Path("model.py").read_bytes())
    """

    kind: str
    """What the result is, such as `table` or `model`."""
    config: Mapping[str, Any]
    """The effective config, after all overrides."""
    script: bytes | None = None
    """The code of the script, if there is one."""
    files: Mapping[str, bytes] = field(default_factory=dict)
    """Other code and data that the script uses; copied to all_files."""
    sources: Sequence[Source] = ()
    """What the result is made from."""
    init_from: ResultDirectory | None = None
    """A model to start from when there is no snapshot yet."""
    code_folder: Path | None = None
    """The folder of the script, for its git state."""

    @property
    def code_files(self) -> dict[str, bytes]:
        """The script and its files, as the directory keeps them."""
        script = {} if self.script is None else {SCRIPT: self.script}
        return {**script, **{f"{ALL_FILES}/{name}": data for name, data in self.files.items()}}

    @property
    def lineage(self) -> Lineage:
        """What the result is made from."""
        code = {name: digest(data) for name, data in self.code_files.items()}
        return Lineage(self.kind, tuple(self.sources), code)
