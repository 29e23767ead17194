"""What a notebook shows: small tables whose texts cannot break the page, and bars only where they can move."""

from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import torch
from rich.console import Console
from tests.tables.making import make_table

from samovar.notebook import can_draw, html_table
from samovar.results import ResultDirectory, ResultPlan, begin
from samovar.store import LocalStore, MemoryStore
from samovar.tables import Bag, Record


def read(html: str) -> tuple[str, list[list[str]]]:
    """The title and the rows; fails on broken HTML."""
    tree = ElementTree.fromstring(f"<body>{html}</body>")
    rows = [["".join(cell.itertext()) for cell in row] for row in tree.iter("tr")]
    return tree[0].text or "", rows


def test_every_text_is_escaped_and_long_tables_are_cut() -> None:
    rows = [(f"<b>{number}", "a&b") for number in range(5)]
    title, shown = read(html_table("<script>", ("<i>", "value"), rows, max_rows=2))
    assert title == "<script>"
    assert shown == [["<i>", "value"], ["<b>0", "a&b"], ["<b>1", "a&b"], ["… and 3 more"]]


def test_a_table_shows_its_columns(tmp_path: Path) -> None:
    table = make_table(LocalStore(tmp_path), 4).select(["words", "price"])
    title, rows = read(table._repr_html_())
    assert title == f"{tmp_path}, version 1: 4 minibatches, 610 examples"
    assert [row[:3] for row in rows] == [
        ["column", "kind", "rank"],
        ["words", "categorical", "1"],
        ["price", "real", "1"],
    ]


def test_a_record_and_a_bag_show_their_first_values_with_unsigned_ids() -> None:
    bag = Bag(torch.tensor([-1, 5, 6]), torch.tensor([[1, 0], [0, 0], [1, 1]], dtype=torch.int32))
    assert read(bag._repr_html_()) == (repr(bag), [["example", "ids"], ["0", str(2**64 - 1)], ["1", ""], ["2", "5, 6"]])
    record = Record({"<user>": bag, "y": torch.arange(100.0)}, number=3, hour=None, num_examples=3)
    title, rows = read(record._repr_html_())
    assert title == "minibatch 3: 3 examples"
    assert rows[1:] == [
        ["<user>", repr(bag), f"{2**64 - 1}, 5, 6"],
        ["y", "float32 [100]", "0, 1, 2, 3, 4, 5, 6, 7, …"],
    ]


def test_a_result_directory_shows_its_state_and_config() -> None:
    directory = ResultDirectory(MemoryStore())
    assert "not created yet" in directory._repr_html_()
    plan = ResultPlan("model", {"lr": 0.1, "model": {"name": "<b>"}})
    with begin(directory, plan, heartbeat_seconds=None) as result:
        result.restore()
        result.finish({"weights": 1}, 0)
    _, rows = read(directory._repr_html_())
    assert rows[1:] == [["kind", "model"], ["state", "finished"], ["lr", "0.1"], ["model.name", "<b>"]]


@pytest.mark.parametrize(
    ("options", "expected"),
    [({"force_terminal": True}, True), ({"force_terminal": False}, False), ({"force_jupyter": True}, True)],
)
def test_a_bar_needs_a_terminal_or_widgets(options: dict[str, Any], expected: bool) -> None:
    assert can_draw(Console(**options)) == expected
