"""Every link in the documents works, and every page of the site is reachable."""

import re
from pathlib import Path

import pytest
from tests.docs.pages import DOCS, ROOT, find_anchors, find_links, find_pages, name_of, slug

PAGES = [*find_pages(), ROOT / "CHANGELOG.md", *ROOT.glob("benchmarks/*.md"), *ROOT.glob("examples/*/*.md")]


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_link_leads_somewhere(page: Path) -> None:
    for link in find_links(page):
        target, _, anchor = link.partition("#")
        found = (page.parent / target).resolve() if target else page
        assert found.exists(), f"{name_of(page)}: no file at {link}"
        assert not anchor or anchor in find_anchors(found), f"{name_of(page)}: no heading for {link}"


def test_pages_of_the_site_link_only_to_each_other() -> None:
    for page in DOCS.rglob("*.md"):
        for link in find_links(page):
            target = (page.parent / link.partition("#")[0]).resolve()
            assert DOCS in target.parents or target == page.parent, f"{name_of(page)}: {link} is not on the site"


def test_every_page_has_a_place_in_the_navigation() -> None:
    listed = set(re.findall(r"^ +- [^#\n]+: ([\w/-]+\.md)$", (ROOT / "mkdocs.yml").read_text(), re.MULTILINE))
    assert listed == {page.relative_to(DOCS).as_posix() for page in DOCS.rglob("*.md")}, "add it to nav in mkdocs.yml"


@pytest.mark.parametrize(
    ("heading", "anchor"), [("A result", "a-result"), ("The `x` of *y*", "the-x-of-y"), ("a_b.c[]", "a_bc")]
)
def test_a_heading_is_named_as_the_site_names_it(heading: str, anchor: str) -> None:
    assert slug(heading) == anchor
