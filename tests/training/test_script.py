import importlib
from pathlib import Path

import pytest

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


def test_build_gets_params_and_if_it_wants_them_files(tmp_path: Path) -> None:
    (tmp_path / "words.txt").write_text("tea")
    script = write(
        tmp_path, "def build(params, files):\n    assert files['words'].read_text() == params.word\n    return make()\n"
    )
    read = read_script(script, parse_file_options([f"words={tmp_path}/words.txt"]))
    assert read.contents == {"words": b"tea"}
    built = build(read, {"word": "tea"})
    assert built.ledger.to_dict()["read"]["model.word"]["value"] == "tea"


def test_a_changed_local_module_is_loaded_anew(tmp_path: Path) -> None:
    text = "import toy_answer\ndef build(params):\n    params.retired(f'k{toy_answer.NUMBER}')\n    return make()\n"
    for number in (1, 2):
        script = write(tmp_path, text, toy_answer=f"NUMBER = {number}  # {'x' * number}")
        assert build(read_script(script), {f"k{number}": 0}).ledger.retired == {f"model.k{number}"}
        importlib.invalidate_caches()


def test_a_key_that_nobody_reads_may_be_one_that_is_asked_for(tmp_path: Path) -> None:
    script = write(tmp_path, "def build(params):\n    params.get('width', 1)\n    return make()\n")
    with pytest.raises(UnknownKey, match=r"did you mean 'model.width'\? Otherwise remove it"):
        build(read_script(script), {"widht": 1})


def test_a_key_that_nobody_reads_is_an_error_with_its_cure(tmp_path: Path) -> None:
    script = write(tmp_path, "def build(params):\n    params.get('lr', 1)\n    return make()\n")
    with pytest.raises(UnknownKey, match=r'model.rate: the script read no such key.*params.retired\("rate"\)'):
        build(read_script(script), {"lr": 1, "rate": 2})


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        ("", BadInput, "has no function build"),
        ("def build(params):\n    return 3\n", BadInput, "build gave int; expected a samovar.Learner"),
        ("def build(params:\n", ConfigError, r"script.py, line 6: .*expected Python that can be read"),
        (
            "def build(params):\n    raise SystemExit\n",
            SamovarError,
            r"build called sys\.exit\(\); expected it to go through",
        ),
    ],
)
def test_a_script_that_cannot_be_used_is_told(tmp_path: Path, text: str, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        build(read_script(write(tmp_path, text)), {})


def test_options_and_files_are_checked(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="expected NAME=PATH"):
        parse_file_options(["words"])
    with pytest.raises(ConfigError, match="is no file"):
        read_script(write(tmp_path, ""), {"words": tmp_path})
    with pytest.raises(ConfigError, match="no such file; expected a Python script"):
        read_script(tmp_path / "none.py")


def test_each_script_finds_its_own_module_of_a_name(tmp_path: Path) -> None:
    text = "import toy_twin\ndef build(params):\n    params.retired(toy_twin.NAME)\n    return make()\n"
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        write(tmp_path / name, text, toy_twin=f"NAME = {name!r}")
    for name in ("a", "b", "a"):
        script = read_script(tmp_path / name / "script.py")
        assert build(script, {name: 0}).ledger.retired == {f"model.{name}"}
