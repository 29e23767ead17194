"""`audit` finds and names everything that changed since the finish."""

import json
import shutil
from pathlib import Path

import pytest
from tests.cli.commands import samovar
from tests.stages.toys import make_chain, run, run_well

from samovar.brewing.brew import load_recipe, make_table
from samovar.provenance.auditing import audit
from samovar.provenance.graph import find_sources


@pytest.fixture
def folder(quick_path: Path) -> Path:
    make_chain(quick_path)
    return quick_path


def differences(path: Path) -> list[str]:
    return audit(path).differences


def flip_a_byte(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def test_an_untouched_result_has_no_differences(folder: Path) -> None:
    done = audit(folder / "total")
    assert (done.differences, done.num_files) == ([], 6)
    (folder / "total/external_stuff").mkdir()
    (folder / "total/external_stuff/notes.txt").write_text("mine")
    assert differences(folder / "total") == []


@pytest.mark.parametrize(
    "name",
    [
        "files/total.txt",
        "model_config.json",
        "script.py",
        "environment.json",
        "lineage.json",
        "params.json",
        "inventory.json",
    ],
)
def test_a_changed_byte_is_found_in_any_file(folder: Path, name: str) -> None:
    flip_a_byte(folder / "total" / name)
    found = differences(folder / "total")
    assert any(line.startswith(f"{name}: damaged or changed; ") for line in found), found


def test_missing_and_extra_files_are_named(folder: Path) -> None:
    (folder / "total/files/total.txt").unlink()
    (folder / "total/files/other.txt").write_text("x")
    missing, extra = differences(folder / "total")
    assert missing.startswith("files/total.txt: missing")
    assert extra.startswith("files/other.txt: was added after the finish")


def test_a_source_that_was_made_again_is_named_with_what_changed(folder: Path) -> None:
    shutil.rmtree(folder / "numbers")
    run_well(folder, "numbers", conf={"count": 9})
    assert differences(folder / "total") == [f"source = {folder}/numbers is changed: config count: 3 → 9"]


def test_a_changed_byte_of_a_source_is_found_along_the_chain(folder: Path) -> None:
    flip_a_byte(folder / "numbers/files/numbers.txt")
    found = {path.name: audit(path).differences for path in find_sources([folder / "total", folder / "numbers"])}
    assert found["total"] == []
    assert [line.partition(":")[0] for line in found["numbers"]] == ["files/numbers.txt"]


def test_an_unfinished_result_cannot_be_audited(folder: Path) -> None:
    (folder / "numbers.py").write_text("def main(params, out):\n    params.count, 1 / 0\n")
    assert run(folder, "numbers", out="half").code == 1
    assert differences(folder / "half") == ["not finished (failed), so there is nothing to compare with"]


def test_a_table_is_audited_with_its_raw_files(quick_path: Path) -> None:
    (quick_path / "log.csv").write_text("time,ad\n" + "\n".join(f"{1_700_000_000 + n},{n % 3}" for n in range(50)))
    tree = {"source": "log.csv", "time_field": "time", "categorical_factors": ["ad"]}
    make_table(load_recipe(tree, "recipe", quick_path), quick_path / "table")
    make_table(load_recipe(tree, "recipe", quick_path), quick_path / "live", append=True)
    assert differences(quick_path / "table") == differences(quick_path / "live") == []
    flip_a_byte(next((quick_path / "live/segments").rglob("*.parquet")))
    assert "segments/000001.e1/" in differences(quick_path / "live")[0]
    (quick_path / "log.csv").write_text("time,ad\n1700000000,1\n")
    assert differences(quick_path / "table") == [f"source = {quick_path}/log.csv: changed"]
    (quick_path / "log.csv").unlink()
    (missing,) = differences(quick_path / "table")
    assert missing.startswith(f"source = {quick_path}/log.csv: ")
    assert "no such file" in missing


def test_the_command_exits_with_1_and_names_the_file(folder: Path) -> None:
    (folder / "total/files/total.txt").write_text("7")
    done = samovar("audit", str(folder / "*"))
    assert done.returncode == 1
    lines = done.stdout.splitlines()
    assert lines[0].startswith(f"{folder}/numbers: unchanged, 6 files, ")
    assert lines[1] == f"{folder}/total: 1 difference"
    assert lines[2].startswith("  files/total.txt: damaged or changed; its checksum is")
    record = json.loads((folder / "total/inventory.json").read_text())["files/total.txt"]
    assert record["checksum"] in lines[2]


def test_what_a_replaced_process_left_is_a_note_and_no_difference(folder: Path) -> None:
    for path in ("snapshot/000001.e1/state.json", "snapshot/000001.e1/arrays.safetensors"):
        (folder / "total" / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / "total" / path).write_text("late")
    done = audit(folder / "total")
    assert done.differences == []
    assert done.notes == [
        "snapshot/000001.e1: left by a process that was killed or replaced, and not part of the result"
    ]
    assert "note: snapshot/000001.e1: left by" in samovar("audit", str(folder / "total")).stdout
    (folder / "total/snapshot/000001.e9").mkdir()
    (folder / "total/snapshot/000001.e9/state.json").write_text("no process had this lease epoch")
    assert len(differences(folder / "total")) == 1
