"""Markdown pages as code blocks and links. Runs nothing. How blocks are marked:

"python"                        is run; blocks of a page share one folder and one module
"sh"                            each line is run
"json title=…", any language    is written to the file of that name
"text title=Output"             is what the block before it prints; … matches anything
"console"                       is only shown: it does not end, or needs what a test lacks
"json", "csv", "text"           without a title: only shown
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
OUTPUT = "Output"
RUN = ("python", "sh")
SHOWN = ("json", "csv", "text", "console")

_FENCE = re.compile(
    r'^```(?P<language>\w+)(?: title="(?P<title>[^"]+)")?(?P<rest>[^\n]*)\n(?P<text>.*?)^```$', re.DOTALL | re.MULTILINE
)
_LINK = re.compile(r"\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)


@dataclass(frozen=True)
class Block:
    place: str
    """Page and line, for messages."""
    language: str
    title: str | None
    text: str


def find_pages() -> list[Path]:
    """Everything that users read."""
    return [ROOT / "README.md", ROOT / "ARCHITECTURE.md", ROOT / "CONTRIBUTING.md", *sorted(DOCS.rglob("*.md"))]


def name_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def find_blocks(page: Path) -> Iterator[Block]:
    text = page.read_text()
    for found in _FENCE.finditer(text):
        line = text.count("\n", 0, found.start()) + 1
        yield Block(f"{name_of(page)}:{line}", found["language"], found["title"], found["text"])


def without_blocks(page: Path) -> str:
    return _FENCE.sub("", page.read_text())


def find_links(page: Path) -> list[str]:
    """Links within the project."""
    return [link for link in _LINK.findall(without_blocks(page)) if "://" not in link]


def find_anchors(page: Path) -> set[str]:
    """The headings, as links name them."""
    return {slug(heading) for heading in _HEADING.findall(without_blocks(page))}


def slug(heading: str) -> str:
    plain = re.sub(r"[`*\\]", "", heading).strip().lower()
    return re.sub(r"[\s]+", "-", re.sub(r"[^\w\s-]", "", plain))
