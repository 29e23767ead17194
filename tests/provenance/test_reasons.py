"""`why` names what changed in the sources of a result."""

import json
import re
import shutil
from pathlib import Path

import pytest
from tests.cli.commands import run_here as cli
from tests.cli.commands import samovar
from tests.stages.toys import NUMBERS, TOTAL, add_report, make_chain, remake, run, run_well, write_stage

from samovar.provenance.reasons import explain
from samovar.results import open_directory


@pytest.fixture
def folder(quick_path: Path) -> Path:
    """numbers → total → report"""
    make_chain(quick_path)
    add_report(quick_path)
    return quick_path


def reasons(directory: Path) -> dict[str, list[str]]:
    return {Path(link.source.path).name: why for link, why in explain(open_directory(directory))}


def test_a_good_chain_has_nothing_to_explain(folder: Path) -> None:
    assert reasons(folder / "report") == {}
    assert [(link.depth, link.state) for link in open_directory(folder / "report").chain()] == [
        (0, "good"),
        (1, "good"),
    ]


def test_a_source_made_again_in_the_same_way_is_the_same(folder: Path) -> None:
    remake(folder, "numbers")
    assert reasons(folder / "report") == {}


def test_why_names_raw_files_that_changed_up_the_chain(folder: Path) -> None:
    (folder / "raw.txt").write_text("1")
    script = "def main(params, out):\n    (out / 'numbers.txt').write_text(out.raw_files()[0].read_text())\n"
    write_stage(folder, "data", script, {"files": "raw.txt"})
    write_stage(folder, "sum", TOTAL, {"source": "data"})
    run_well(folder, "data")
    run_well(folder, "sum")
    assert cli(["why", str(folder / "sum")]).startswith(f"{folder}/sum: no source has changed\n")
    (folder / "raw.txt").write_text("22")
    expected = f"{folder}/data: files = {folder}/raw.txt: raw.txt changed"
    assert cli(["why", str(folder / "sum")]).splitlines()[0] == expected
    answer = json.loads(cli(["why", str(folder / "data"), "--json"]))
    assert (answer["stale"], answer["raw_files"]) == ([], [expected])


def test_why_names_changed_keys_code_and_sources_up_the_chain(folder: Path) -> None:
    remake(folder, "numbers", conf={"count": 4, "first": 2})
    assert reasons(folder / "report") == {"numbers": ["config count: 3 → 4", "config first: absent → 2"]}
    (folder / "total.py").write_text(TOTAL + "    # a remark\n")
    remake(folder, "total")
    why = reasons(folder / "report")
    assert why.keys() == {"total"}
    assert why["total"][0].startswith("source source: ")
    [code] = why["total"][1:]
    assert re.fullmatch(r"code: [0-9a-f]{8} → [0-9a-f]{8} \(script.py changed\)", code)


def test_why_names_a_source_that_is_missing_or_failed_or_of_another_kind(folder: Path) -> None:
    shutil.rmtree(folder / "numbers")
    assert reasons(folder / "report")["numbers"][0].startswith("it no longer exists")
    write_stage(folder, "numbers", NUMBERS + "    raise RuntimeError\n", {"count": 3})
    assert run(folder, "numbers").code == 1
    [code] = reasons(folder / "report")["numbers"]
    assert code.endswith("(script.py changed)")
    write_stage(folder, "other", NUMBERS, {"count": 3})
    shutil.rmtree(folder / "numbers")
    run_well(folder, "other", out="numbers")
    assert reasons(folder / "report")["numbers"] == ["its kind changed: stage:numbers → stage:other"]


def test_the_command_names_changes_and_another_environment(folder: Path) -> None:
    remake(folder, "numbers", conf={"count": 4})
    environment = json.loads((folder / "report/environment.json").read_text())
    environment["packages"]["torch"] = "1.0"
    (folder / "report/environment.json").write_text(json.dumps(environment))
    why = samovar("why", folder / "report").stdout
    assert f"source = {folder}/numbers: changed\n  config count: 3 → 4\n" in why
    assert "made in another environment:\n  torch: 1.0 → " in why
