"""The graph of sources: links that hold, links that do not, and why."""

import json
import shutil
from pathlib import Path

import pytest
from tests.cli.commands import run_here as cli
from tests.cli.commands import samovar
from tests.stages.stages import NUMBERS, TOTAL, make_chain, run, run_well, write_stage

from samovar.provenance.audit import explain
from samovar.provenance.chain import draw, links_of, make_graph
from samovar.results import open_directory
from samovar.runs.find import find_targets


@pytest.fixture
def folder(quick_path: Path) -> Path:
    """numbers → total → report"""
    make_chain(quick_path)
    script = "def main(params, out):\n    (out / 'report').write_text((out.source() / 'total.txt').read_text())\n"
    write_stage(quick_path, "report", script, {"source": "total"})
    run_well(quick_path, "report")
    return quick_path


def reasons(directory: Path) -> dict[str, list[str]]:
    return {Path(link.source.path).name: why for link, why in explain(open_directory(directory))}


def remake(folder: Path, name: str, **options: object) -> None:
    shutil.rmtree(folder / name)
    run_well(folder, name, **options)


def test_a_chain_in_order_has_nothing_to_explain(folder: Path) -> None:
    assert reasons(folder / "report") == {}
    assert [(link.depth, link.state) for link in open_directory(folder / "report").chain()] == [
        (0, "good"),
        (1, "good"),
    ]


def test_a_source_that_was_made_again_in_the_same_way_is_the_same(folder: Path) -> None:
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
    told = json.loads(cli(["why", str(folder / "data"), "--json"]))
    assert (told["stale"], told["raw_files"]) == ([], [expected])


def test_why_names_changed_keys_code_and_sources_up_the_chain(folder: Path) -> None:
    remake(folder, "numbers", conf={"count": 4, "first": 2})
    assert reasons(folder / "report") == {"numbers": ["config count: 3 → 4", "config first: absent → 2"]}
    (folder / "total.py").write_text(TOTAL + "    # a remark\n")
    remake(folder, "total")
    why = reasons(folder / "report")
    assert why.keys() == {"total"}
    assert why["total"][0].startswith("source source: ")
    assert why["total"][1:] == ["code script.py changed"]


def test_why_names_a_source_that_is_gone_unfinished_or_of_another_kind(folder: Path) -> None:
    shutil.rmtree(folder / "numbers")
    assert reasons(folder / "report")["numbers"][0].startswith("nothing is there any more")
    write_stage(folder, "numbers", NUMBERS + "    raise RuntimeError\n", {"count": 3})
    assert run(folder, "numbers").code == 1
    assert reasons(folder / "report")["numbers"] == ["code script.py changed"]
    write_stage(folder, "other", NUMBERS, {"count": 3})
    shutil.rmtree(folder / "numbers")
    run_well(folder, "other", out="numbers")
    assert reasons(folder / "report")["numbers"] == ["it is of another kind: stage:numbers → stage:other"]


def test_a_circle_ends_where_it_closes(folder: Path) -> None:
    shutil.rmtree(folder / "numbers")
    shutil.copytree(folder / "report", folder / "numbers")
    states = [link.state for link in open_directory(folder / "report").chain()]
    assert states[-1] == "circle"


def test_a_config_shows_what_it_would_be_made_from(folder: Path) -> None:
    write_stage(folder, "plan", TOTAL, {"source": ["total", "nothing"], "raw": 1})
    (target,) = find_targets([folder / "plan.json"])
    assert [(link.source.key, link.depth, link.state) for link in links_of(target)] == [
        ("source[0]", 0, "good"),
        ("source", 1, "good"),
        ("source[1]", 0, "missing"),
    ]


def test_the_graph_has_each_result_once_and_is_drawn(folder: Path) -> None:
    remake(folder, "numbers", conf={"count": 4})
    graph = make_graph(find_targets([folder / "total", folder / "report"]))
    names = {Path(path).name: column for path, column in graph.columns().items()}
    assert names == {"numbers": 0, "total": 1, "report": 2}
    assert len(graph.edges) == 2
    draw(graph, folder / "chain.png")
    draw(graph, folder / "chain.svg")
    assert (folder / "chain.png").read_bytes().startswith(b"\x89PNG")
    assert "<svg" in (folder / "chain.svg").read_text()


def test_the_command_line_marks_what_is_stale_and_says_why(folder: Path) -> None:
    remake(folder, "numbers", conf={"count": 4})
    shown = samovar("chain", folder / "report")
    assert f"└── source = {folder}/total (stage:total)  [good]" in shown.stdout, shown.stderr
    assert f"└── source = {folder}/numbers (stage:numbers)  [changed]" in shown.stdout
    environment = json.loads((folder / "report/environment.json").read_text())
    environment["packages"]["torch"] = "1.0"
    (folder / "report/environment.json").write_text(json.dumps(environment))
    why = samovar("why", folder / "report").stdout
    assert f"source = {folder}/numbers: changed\n  config count: 3 → 4\n" in why
    assert "made in another environment:\n  torch: 1.0 → " in why
