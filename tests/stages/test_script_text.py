"""What the text of a script shows without running it."""

from pathlib import Path

import pytest

from samovar.config import Ledger
from samovar.errors import UnknownKey
from samovar.stages.script_text import ScriptText, read_text
from samovar.training.script import read_script

SCRIPT = """
import toy_part
WIDTH = 5
DEPTH: int = 2

def main(params, out):
    params.lr, params["momentum"], params.get("width", WIDTH), params.get("depth", default=DEPTH)
    params.get("rate", 1e-3), params.get("name"), params.get("size", 2 * WIDTH), params.get("both", 1)
    params.net.get("both", 2)  # a comment does not mention commented
"""


@pytest.fixture
def text(tmp_path: Path) -> ScriptText:
    (tmp_path / "toy_part.py").write_text("def use(params):\n    return params.get('inner', [1, 2])\n")
    (tmp_path / "script.py").write_text(SCRIPT)
    return read_text(read_script(tmp_path / "script.py"))


def old_ledger(**defaults: object) -> Ledger:
    ledger = Ledger()
    for key, default in defaults.items():
        ledger.record(key.replace("__", "."), default, False, default)
    return ledger


def test_a_key_is_mentioned_by_attribute_item_get_or_in_a_local_module(text: ScriptText) -> None:
    text.check_keys(["lr", "momentum", "width", "net.both", "inner", "net.layers[0].depth"], "config")
    with pytest.raises(UnknownKey, match="config: the script does not read commented"):
        text.check_keys(["commented"], "config")
    with pytest.raises(UnknownKey, match=r"does not read momentun\. Did you mean 'momentum'"):
        text.check_keys(["momentun"], "config")


@pytest.mark.parametrize(
    ("old", "changes"),
    [
        ({"width": 5, "depth": 2, "rate": 0.001, "name": None, "inner": [1, 2]}, []),
        ({"width": 4}, [("width", 4, 5)]),
        ({"depth": 3}, [("depth", 3, 2)]),
        ({"rate": 0.01, "name": "a"}, [("name", "a", None), ("rate", 0.01, 0.001)]),
        ({"inner": [1]}, [("inner", [1], [1, 2])]),
        ({"size": 7}, []),  # computed: only the run can tell
        ({"both": 1, "net__both": 2}, []),
        ({"both": 3}, [("both", 3, [1, 2])]),
        ({"forgotten": 1}, []),
    ],
)
def test_a_default_that_the_script_no_longer_has_is_a_change(
    text: ScriptText, old: dict[str, object], changes: list[tuple[str, object, object]]
) -> None:
    assert [tuple(change) for change in text.changed_defaults(old_ledger(**old))] == changes
