"""`chain` draws results and their sources, as a tree and as a picture."""

import json
import shutil
from pathlib import Path

import pytest
from tests.cli.commands import samovar
from tests.stages.toys import TOTAL, add_report, make_chain, remake, write_stage

from samovar.provenance.graph import chain, draw_chains, make_graph
from samovar.results import open_directory


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
    assert [(link.source.key, link.depth, link.state) for link in chain(folder / "plan.json").links] == [
        ("source[0]", 0, "good"),
        ("source", 1, "good"),
        ("source[1]", 0, "missing"),
    ]


def test_the_graph_has_each_result_once_and_is_drawn(folder: Path) -> None:
    remake(folder, "numbers", conf={"count": 4})
    chains = [chain(folder / "total"), chain(folder / "report")]
    graph = make_graph(chains)
    names = {Path(path).name: column for path, column in graph.columns().items()}
    assert names == {"numbers": 0, "total": 1, "report": 2}
    assert len(graph.edges) == 2
    draw_chains(chains, folder / "chain.png")
    draw_chains(chains, folder / "chain.svg")
    assert (folder / "chain.png").read_bytes().startswith(b"\x89PNG")
    assert "<svg" in (folder / "chain.svg").read_text()


def test_the_command_marks_stale_links(folder: Path) -> None:
    remake(folder, "numbers", conf={"count": 4})
    shown = samovar("chain", folder / "report")
    assert f"└── source = {folder}/total (stage:total)  [good]" in shown.stdout, shown.stderr
    assert f"└── source = {folder}/numbers (stage:numbers)  [changed]" in shown.stdout


def test_a_shared_source_is_followed_once(folder: Path) -> None:
    """26 results, each made twice from the next: 2**26 ways to the last."""
    record = json.loads((folder / "total/lineage.json").read_text())
    for number in range(26):
        shutil.copytree(folder / "total", folder / f"total_{number}")
        path = str(folder / f"total_{number + 1}")
        sources = [{"key": key, "path": path, "id": "x"} for key in ("source[0]", "source[1]")]
        (folder / f"total_{number}/lineage.json").write_text(json.dumps({**record, "sources": sources}))
    links = open_directory(folder / "total_0").chain()
    assert len(links) == 52
    assert {link.cut for link in links} == {None, "shown above"}
    assert [link.state for link in links if link.depth == 25] == ["missing", "missing"]


def test_a_source_with_damaged_records_does_not_hide_the_chain(folder: Path) -> None:
    (folder / "numbers/lineage.json").write_text("[]")
    assert [link.state for link in open_directory(folder / "report").chain()] == ["good", "unreadable"]
    assert "its files are damaged" in samovar("why", folder / "report").stdout
