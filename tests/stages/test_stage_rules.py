"""The rules of reproducible work with plain files, one test per rule."""

import json
import subprocess
from pathlib import Path

import pytest
from tests.stages.toys import NUMBERS, TOTAL, copy_example, run, run_well, write_stage

from samovar.config import flat_diff, read_config
from samovar.results import open_directory
from samovar.runs.cloning import clone
from samovar.runs.comparison import label_all
from samovar.runs.find import find_targets


@pytest.fixture
def folder(quick_path: Path) -> Path:
    write_stage(quick_path, "numbers", NUMBERS, {"count": 3})
    write_stage(quick_path, "total", TOTAL, {"source": "numbers"})
    return quick_path


def tree(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_defaults_let_an_old_config_give_its_old_result(folder: Path) -> None:
    run_well(folder, "numbers")
    newer = NUMBERS.replace("for n", "* params.get('stretch', 1) for n")
    (folder / "numbers.py").write_text(newer)
    run_well(folder, "numbers", out="again")
    run_well(folder, "numbers", out="stretched", conf={"stretch": 2})
    old, again, stretched = (
        (folder / name / "files/numbers.txt").read_text() for name in ("numbers", "again", "stretched")
    )
    assert old == again == "1\n2\n3"
    assert stretched != old


def test_one_script_has_every_architecture_and_old_ones_may_move_to_another_module(folder: Path) -> None:
    """No model_baseline.py beside model_super.py: a key chooses. The tidied script still makes the same results."""
    old = "def build(count):\n    return 'baseline' * count\n"
    main = "def main(params, out):\n    chosen = {choice}\n    (out / 'net.txt').write_text(chosen)\n"
    write_stage(folder, "model", old + main.format(choice="build(params.count)"), {"count": 2})
    run_well(folder, "model")
    (folder / "attic.py").write_text(old)
    choice = "{'baseline': build, 'super': str}[params.get('arch', 'baseline')](params.count)"
    (folder / "model.py").write_text("from attic import build\n" + main.format(choice=choice))
    run_well(folder, "model", out="again")
    run_well(folder, "model", out="new", conf={"arch": "super"})
    texts = [(folder / name / "files/net.txt").read_text() for name in ("model", "again", "new")]
    assert texts == ["baselinebaseline", "baselinebaseline", "2"]
    assert (folder / "again/all_files/attic.py").read_text() == old


def test_a_result_records_the_git_state_of_its_script(folder: Path) -> None:
    def git(*words: str) -> str:
        identity = ("-c", "user.name=samovar", "-c", "user.email=samovar@example.org")
        return subprocess.run(["git", *identity, *words], cwd=folder, check=True, capture_output=True, text=True).stdout

    git("init", "-q")
    git("add", "numbers.py", "numbers.json")
    git("commit", "-qm", "numbers")
    run_well(folder, "numbers")
    state = open_directory(folder / "numbers").environment["git"]
    assert state["commit"] == git("rev-parse", "HEAD").strip()
    assert " M numbers.py" not in state["changed_files"]
    (folder / "numbers.py").write_text(NUMBERS.replace("params.count", "params.count + 0"))
    run_well(folder, "numbers", out="later")
    assert " M numbers.py" in open_directory(folder / "later").environment["git"]["changed_files"]


def test_the_directory_and_its_config_exist_before_main_runs(folder: Path) -> None:
    script = (
        "from pathlib import Path\n"
        "def main(params, out):\n"
        "    assert (out.path.parent / 'model_config.json').exists()\n"
        "    assert params.count == 3\n"
    )
    (folder / "numbers.py").write_text(script)
    run_well(folder, "numbers")


def test_the_directory_is_named_by_out_by_the_config_or_by_its_key(folder: Path) -> None:
    run_well(folder, "numbers")
    run_well(folder, "numbers", conf={"out": "by_key"})
    run_well(folder, "numbers", conf={"out": "by_key"}, out="by_option")
    for name in ("numbers", "by_key", "by_option"):
        assert open_directory(folder / name).config["count"] == 3


def test_the_config_is_copied_into_the_directory_and_never_overwritten(folder: Path) -> None:
    run_well(folder, "numbers")
    before = tree(folder / "numbers")
    assert json.loads(before["model_config.json"])["count"] == 3
    assert run_well(folder, "numbers") == "numbers: finished already\n"
    assert tree(folder / "numbers") == before


def test_a_changed_config_is_a_new_config_with_a_new_name(folder: Path) -> None:
    run_well(folder, "numbers")
    before = tree(folder / "numbers")
    write_stage(folder, "numbers", NUMBERS, {"count": 4})
    ended = run(folder, "numbers")
    assert ended.code == 2
    assert "belongs to another config" in ended.output
    assert "count,3,4" in ended.output
    assert tree(folder / "numbers") == before


def test_a_key_of_a_script_is_never_taken_for_one_of_samovars(folder: Path) -> None:
    script = "def main(params, out):\n    (out / 'a.txt').write_text(f'{params.model_dir} {params.follow}')\n"
    write_stage(folder, "mine", script, {"model_dir": "m1", "follow": 1})
    run_well(folder, "mine")
    assert open_directory(folder / "mine").config["model_dir"] == "m1"
    ended = run(folder, "mine", conf={"model_dir": "m2", "follow": 99})
    assert ended.code == 2
    assert "follow,1,99" in ended.output
    assert "model_dir,m1,m2" in ended.output
    run_well(folder, "mine", conf={"follow": 99}, out="other")
    targets = find_targets([folder / "mine", folder / "other"])
    assert label_all(targets) == ["follow=1", "follow=99"]
    for name in ("mine", "mine/model_config.json"):
        copied = clone(folder / name, {"follow": 2}).path
        assert read_config(copied)["model_dir"] == "m1"


def test_everything_a_result_depends_on_is_in_its_config_or_environment(folder: Path) -> None:
    run_well(folder, "numbers")
    directory = open_directory(folder / "numbers")
    assert directory.config["num_threads"] >= 1
    assert directory.environment["threads"]["torch"] == directory.config["num_threads"]
    assert {"python", "cpu", "packages", "devices"} <= directory.environment.keys()


def test_overrides_are_merged_into_the_saved_config(folder: Path) -> None:
    run_well(folder, "numbers", conf={"count": 5, "first": 7}, out="five")
    config = open_directory(folder / "five").config
    assert (config["count"], config["first"]) == (5, 7)
    assert (folder / "five/files/numbers.txt").read_text() == "7\n8\n9\n10\n11"


def test_a_diff_shows_only_the_keys_that_differ(folder: Path) -> None:
    run_well(folder, "numbers", out="a")
    run_well(folder, "numbers", out="b", conf={"first": 4})
    configs = {target.path.name: target.config for target in find_targets([folder / "a", folder / "b"])}
    assert list(flat_diff(configs).rows) == ["first"]


def test_no_file_of_a_result_is_ever_overwritten(folder: Path) -> None:
    twice = NUMBERS + "    (out / 'numbers.txt').write_text('again')\n"
    (folder / "numbers.py").write_text(twice)
    ended = run(folder, "numbers")
    assert ended.code == 1
    assert "numbers.txt: already exists. Files of a result are written once" in ended.output
    (folder / "numbers.py").write_text(NUMBERS)  # what the failed attempt left does not matter
    run_well(folder, "numbers")


def test_a_source_cannot_be_changed_by_a_stage_that_reads_it(folder: Path) -> None:
    run_well(folder, "numbers")
    (folder / "total.py").write_text(TOTAL + "    (out.source('data') / 'numbers.txt').write_text('0')\n")
    ended = run(folder, "total")
    assert ended.code == 2
    assert "belongs to an earlier result and is read-only" in ended.output


def test_the_configs_of_the_example_are_flat(folder: Path) -> None:
    for example in ("data", "augmentation", "model"):
        config = read_config(copy_example("stages", folder / example) / f"{example}.json")
        assert not any(isinstance(value, dict | list) for value in config.values())


def test_the_key_source_links_data_to_augmentation_to_model(quick_path: Path) -> None:
    double = (
        "def main(params, out):\n"
        "    (out / 'numbers.txt').write_text((out.source('data') / 'numbers.txt').read_text() + '\\n10')\n"
    )
    write_stage(quick_path, "data", NUMBERS, {"count": 3})
    write_stage(quick_path, "augmentation", double, {"source": "data"})
    write_stage(quick_path, "model", TOTAL, {"source": "augmentation"})
    for name in ("data", "augmentation", "model"):
        run_well(quick_path, name)
    assert (quick_path / "model/files/total.txt").read_text() == "16"
    links = open_directory(quick_path / "model").chain()
    assert [(link.depth, Path(link.source.path).name, link.state) for link in links] == [
        (0, "augmentation", "good"),
        (1, "data", "good"),
    ]


def test_a_source_gives_its_config_with_the_defaults_it_was_made_with(folder: Path) -> None:
    run_well(folder, "numbers")
    script = "def main(params, out):\n    (out / 'read').write_text(f'{out.source().params.first}')\n"
    write_stage(folder, "reader", script, {"source": "numbers"})
    run_well(folder, "reader")
    assert (folder / "reader/files/read").read_text() == "1"


@pytest.mark.parametrize(("checksum", "is_found"), [(True, True), (False, False)])
def test_raw_files_are_identified_by_name_and_size_and_on_request_by_checksum(
    folder: Path, checksum: bool, is_found: bool
) -> None:
    for name in ("a", "b"):
        (folder / f"{name}.raw").write_text(name)
    script = "def main(params, out):\n    (out / 'all').write_text(''.join(f.read_text() for f in out.raw_files()))\n"
    write_stage(folder, "data", script, {"files": "*.raw", "checksum": checksum})
    run_well(folder, "data")
    source = open_directory(folder / "data").lineage.sources[0]
    assert source.content is not None
    assert list(source.content["files"]) == ["a.raw", "b.raw"]
    (folder / "b.raw").write_text("c")
    assert (run(folder, "data").code == 2) is is_found
    (folder / "c.raw").write_text("new")
    assert run(folder, "data").code == 2


def test_a_key_that_the_script_does_not_read_is_an_error(folder: Path) -> None:
    ended = run(folder, "numbers", conf={"frist": 5})
    assert ended.code == 2
    assert "the script does not read frist. Did you mean 'first'?" in ended.output
    assert not (folder / "numbers").exists()
