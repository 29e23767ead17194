"""`chain` draws results and their sources, as a tree and as a picture."""

import shutil
from pathlib import Path

import pytest
from tests.cli.commands import samovar
from tests.stages.toys import TOTAL, add_report, make_chain, remake, write_stage

from samovar.provenance.chain import draw, links_of, make_graph
from samovar.results import open_directory
from samovar.runs.find import find_targets


@pytest.fixture
def folder(quick_path: Path) -> Path:
    """numbers → total → report"""
    make_chain(quick_path)
    add_report(quick_path)
    return quick_path


def test_a_circle_ends_where_it_closes(folder: Path) -> None:
    shutil.rmtree(folder / "numbers")
    shutil.copytree(folder / "report", folder / "numbers")
    states = [link.state for link in open_directory(folder / "report").chain()]
    assert states[-1] == "circle"


def test_a_config_has_the_links_it_would_get_if_run_now(folder: Path) -> None:
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


def test_the_command_marks_stale_links(folder: Path) -> None:
    remake(folder, "numbers", conf={"count": 4})
    shown = samovar("chain", folder / "report")
    assert f"└── source = {folder}/total (stage:total)  [good]" in shown.stdout, shown.stderr
    assert f"└── source = {folder}/numbers (stage:numbers)  [changed]" in shown.stdout
