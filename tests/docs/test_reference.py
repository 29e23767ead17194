"""The reference matches the code, and no page names a key that does not exist."""

import importlib
import importlib.util
import inspect
import json
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from tests.docs.pages import DOCS, ROOT, Block, find_blocks, find_pages, name_of
from tests.docs.public import SINGLE, documented

import samovar
from samovar.brewing.recipe import Recipe
from samovar.config import Schema
from samovar.config.document import parse_config
from samovar.sweep.document import Experiment
from samovar.training.schema import OfflineConfig, OnlineConfig, load_config

SCHEMAS: tuple[type[Schema], ...] = (Recipe, OfflineConfig, OnlineConfig, Experiment)
KEY_PAGES = ("recipe.md", "training.md", "queue.md", "reference/config.md")
_KEY_ROW = re.compile(r"^\| (`[^|]+) \|", re.MULTILINE)
_TABLE = re.compile(r"^\| key[^|]*\|.*\n\|[-|]+\n((?:\|.*\n)+)", re.MULTILINE)


def load_generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("generate_reference", DOCS / "generate_reference.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_generated_pages_are_those_of_this_code() -> None:
    for name, text in load_generator().make_pages().items():
        assert (DOCS / "reference" / name).read_text() == text, f"docs/reference/{name} is old: run `make docs`"


@pytest.mark.parametrize("schema", SCHEMAS)
def test_every_key_has_a_meaning(schema: type[Schema]) -> None:
    tree = schema.model_json_schema()
    for section in [tree, *tree["$defs"].values()]:
        for key, entry in section["properties"].items():
            assert entry.get("description"), f"{section['title']}.{key}: write its text under the field"


# Keys that pages name


def known_keys() -> set[str]:
    """Every key of a config, and every `section.key`."""
    found: set[str] = {"model_yt_dir", "out"}
    for schema in SCHEMAS:
        tree = schema.model_json_schema()
        for section in [tree, *tree["$defs"].values()]:
            for key, entry in section["properties"].items():
                inside = re.findall(r"#/\$defs/(\w+)", json.dumps(entry))
                found |= {key, *(f"{key}.{each}" for name in inside for each in tree["$defs"][name]["properties"])}
    return found


def named_keys(page: Path) -> Iterator[str]:
    """The first cells of tables of keys: `key`, or several of them."""
    for table in _TABLE.finditer(page.read_text()):
        for cell in _KEY_ROW.findall(table[1]):
            yield from re.findall(r"`([\w.]+)`", cell)


@pytest.mark.parametrize("page", [DOCS / name for name in KEY_PAGES], ids=name_of)
def test_no_page_names_a_key_that_there_is_not(page: Path) -> None:
    keys = set(named_keys(page))
    assert len(keys) >= 10
    assert keys <= known_keys()


def test_every_argument_of_the_trainer_is_named() -> None:
    table = re.search(r"^\| argument of `train`.*\n((?:\|.*\n)+)", (DOCS / "one_call.md").read_text(), re.MULTILINE)
    assert table is not None
    named = {name for cell in _KEY_ROW.findall(table[1]) for name in re.findall(r"`(\w+)`", cell)}
    assert named == set(inspect.signature(samovar.PytorchTrainer.train).parameters) - {"self"}


def config_blocks() -> list[Block]:
    blocks = [block for page in find_pages() for block in find_blocks(page) if block.language == "json"]
    return [block for block in blocks if '"train_data"' in block.text or '_factors"' in block.text]


@pytest.mark.parametrize("block", config_blocks(), ids=lambda block: block.place)
def test_every_config_on_a_page_is_a_config(block: Block) -> None:
    tree = parse_config(block.text, block.place)
    if "train_data" in tree:
        load_config(tree, block.place)
    else:
        Recipe.load(tree, block.place)


# Public names


def public_names() -> set[str]:
    """Functions and classes, each where a user finds it first, and modules that are listed whole."""
    return {name for name, _ in documented()} | {"samovar.brewing.text", "samovar.errors", "samovar.functional.layers"}


def test_every_policy_is_public() -> None:
    policies = {each.__name__ for each in all_subclasses(samovar.Policy)}
    assert policies - {"EarlyStopping"} == set(SINGLE["samovar.policies"])


def all_subclasses(kind: type[Any]) -> list[type[Any]]:
    """Public names of its own module."""
    found = [each for sub in kind.__subclasses__() for each in (sub, *all_subclasses(sub))]
    return [each for each in found if each.__module__ == kind.__module__ and not inspect.isabstract(each)]


def listed_names() -> list[str]:
    pages = [(DOCS / "reference" / name).read_text() for name in ("python.md", "callbacks.md")]
    return [name for page in pages for name in re.findall(r"^::: ([\w.]+)$", page, re.MULTILINE)]


def test_every_public_name_is_in_the_reference_once() -> None:
    listed = listed_names()
    assert len(listed) == len(set(listed))
    assert set(listed) == public_names()


def test_every_public_name_has_a_docstring() -> None:
    for name in listed_names():
        place, _, last = name.rpartition(".")
        found = getattr(importlib.import_module(place), last)
        inherited = next((base.__doc__ for base in getattr(found, "__mro__", ())[1:2]), None)
        assert found.__doc__ not in (None, inherited), f"{name}: has no docstring"


def test_the_site_is_built_without_a_warning(tmp_path: Path) -> None:
    from mkdocs.commands.build import build
    from mkdocs.config import load_config as load_site

    config = load_site(str(ROOT / "mkdocs.yml"), site_dir=str(tmp_path / "site"), strict=True)
    build(config)
    assert (tmp_path / "site/reference/python.html").read_text().count("samovar.open_table") > 0
