"""Scripts: the modules they import, what `build` returns, and mistakes in them."""

import importlib
import sys
from pathlib import Path

import pytest
from tests.training.toys import OFFLINE, SCRIPT, make_hours, make_toy, run_well, write_table

from samovar.errors import BadInput, ConfigError, SamovarError, UnknownKey
from samovar.training.script import build, parse_file_options, read_script

LEARNER = """
import torch, samovar
def make():
    model = torch.nn.Linear(1, 1)
    return samovar.Learner(model, torch.optim.SGD(model.parameters(), lr=0.1), lambda output, targets: output.sum())
"""


def write(folder: Path, text: str, **modules: str) -> Path:
    for name, source in modules.items():
        path = folder / name.replace("__", "/").replace("DOT", "__init__")
        path = path.with_suffix(".py")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(source)
    (folder / "script.py").write_text(LEARNER + text)
    return folder / "script.py"


def test_local_modules_are_found_through_each_other_and_packages_whole(tmp_path: Path) -> None:
    script = write(
        tmp_path,
        "import toy_one, json\nfrom toy_pack.inner import x\n",
        toy_one="import toy_two",
        toy_two="import torch",
        toy_pack__DOT="",
        toy_pack__inner="x = 1",
        toy_pack__other="",
        unused="",
    )
    found = read_script(script)
    assert sorted(found.contents) == [
        "toy_one.py", "toy_pack/__init__.py", "toy_pack/inner.py", "toy_pack/other.py", "toy_two.py",
    ]  # fmt: skip


def test_build_gets_params_and_optionally_files(tmp_path: Path) -> None:
    (tmp_path / "words.txt").write_text("tea")
    script = write(
        tmp_path, "def build(params, files):\n    assert files['words'].read_text() == params.word\n    return make()\n"
    )
    read = read_script(script, parse_file_options([f"words={tmp_path}/words.txt"]))
    assert read.contents == {"words": b"tea"}
    built = build(read, {"word": "tea"})
    assert built.ledger.to_dict()["read"]["model.word"]["value"] == "tea"


def test_a_changed_local_module_is_loaded_again(tmp_path: Path) -> None:
    text = "import toy_answer\ndef build(params):\n    params.retired(f'k{toy_answer.NUMBER}')\n    return make()\n"
    for number in (1, 2):
        script = write(tmp_path, text, toy_answer=f"NUMBER = {number}  # {'x' * number}")
        assert build(read_script(script), {f"k{number}": 0}).ledger.retired == {f"model.k{number}"}
        importlib.invalidate_caches()


def test_the_error_for_an_unread_key_suggests_one_that_the_script_reads(tmp_path: Path) -> None:
    script = write(tmp_path, "def build(params):\n    params.get('width', 1)\n    return make()\n")
    with pytest.raises(UnknownKey, match=r"does not read model.widht\. Did you mean 'model.width'\? Remove the key"):
        build(read_script(script), {"widht": 1})


def test_an_unread_key_is_an_error_that_offers_to_retire_it(tmp_path: Path) -> None:
    script = write(tmp_path, "def build(params):\n    params.get('lr', 1)\n    return make()\n")
    with pytest.raises(
        UnknownKey, match=r'the script does not read model.rate\. Remove the key, or call params.retired\("rate"\)'
    ):
        build(read_script(script), {"lr": 1, "rate": 2})


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        ("", BadInput, r"no function build\(params\)"),
        ("def build(params):\n    return 3\n", BadInput, "build must return a samovar.Learner, got int"),
        ("def build(params:\n", ConfigError, r"script.py, line 6: syntax error: "),
        (
            "def build(params):\n    raise SystemExit\n",
            SamovarError,
            r"build called sys\.exit\(\)\. Return normally",
        ),
    ],
)
def test_a_script_that_cannot_be_used_is_reported(
    tmp_path: Path, text: str, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        build(read_script(write(tmp_path, text)), {})


def test_options_and_files_are_checked(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="expected NAME=PATH"):
        parse_file_options(["words"])
    with pytest.raises(ConfigError, match="is not a file"):
        read_script(write(tmp_path, ""), {"words": tmp_path})
    with pytest.raises(ConfigError, match=r"none\.py: no such script"):
        read_script(tmp_path / "none.py")


def test_each_script_finds_its_own_module_of_the_same_name(tmp_path: Path) -> None:
    text = "import toy_twin\ndef build(params):\n    params.retired(toy_twin.NAME)\n    return make()\n"
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        write(tmp_path / name, text, toy_twin=f"NAME = {name!r}")
    for name in ("a", "b", "a"):
        script = read_script(tmp_path / name / "script.py")
        assert build(script, {name: 0}).ledger.retired == {f"model.{name}"}


def test_compiled_modules_beside_kept_ones_are_not_code(quick_path: Path) -> None:
    folder = quick_path
    write_table(folder / "clicks", make_hours([3]))
    (folder / "layers.py").write_text("WIDTH = 8\n")
    script = SCRIPT.replace("import samovar\n", "import samovar\nimport layers\n", 1)
    out = run_well(make_toy(folder, OFFLINE, {}, script))
    cache = out / "all_files" / "__pycache__"
    cache.mkdir(exist_ok=True)
    (cache / f"layers.{sys.implementation.cache_tag}.pyc").write_bytes(b"compiled")
    assert sorted(read_script(out / "script.py").contents) == ["layers.py"]
