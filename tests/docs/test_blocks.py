"""Every code block of the README and the docs runs as written and prints what the page says."""

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from tests.docs.pages import OUTPUT, RUN, SHOWN, Block, find_blocks, find_pages, name_of
from tests.docs.running import Reader

PAGES = find_pages()
RUN_PAGES = [page for page in PAGES if any(block.language in RUN for block in find_blocks(page))]
MOST_SHOWN_ONLY = 15  # set-up, and how-tos of what a test machine does not have: clouds, clusters, containers


@pytest.fixture
def reader(quick_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Reader]:
    """A reader in an empty folder; changes that blocks make to this process are undone."""
    monkeypatch.chdir(quick_path)
    monkeypatch.setitem(sys.modules, "__main__", sys.modules["__main__"])
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent), os.pathsep)
    path, threads = list(sys.path), torch.get_num_threads()
    yield Reader(quick_path)
    sys.path[:] = path
    torch.set_num_threads(threads)


@pytest.mark.parametrize("page", RUN_PAGES, ids=name_of)
def test_a_page_runs_from_its_first_block_to_its_last(page: Path, reader: Reader) -> None:
    for block in find_blocks(page):
        reader.follow(block)


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_the_blocks_of_a_page_are_of_a_known_kind(page: Path) -> None:
    for block in find_blocks(page):
        assert block.language in (*RUN, *SHOWN), f"{block.place}: found {block.language}; see tests/docs/pages.py"
        assert block.title != OUTPUT or block.language == "text", block.place
        if block.language == "json":
            json.loads(block.text)


def test_few_blocks_are_only_shown() -> None:
    shown = [block.place for page in PAGES for block in find_blocks(page) if block.language == "console"]
    assert len(shown) <= MOST_SHOWN_ONLY, shown


def test_a_page_that_prints_something_else_is_found(reader: Reader) -> None:
    reader.follow(Block("page.md:1", "python", None, "print(1 + 1)"))
    reader.follow(Block("page.md:5", "text", OUTPUT, "…2\n"))
    with pytest.raises(AssertionError, match=r"page.md:9:\n2"):
        reader.follow(Block("page.md:9", "text", OUTPUT, "3\n"))
