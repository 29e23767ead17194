"""Paths that write once, read-only paths, and the sources that a script can open."""

from pathlib import Path

import pytest

from samovar.errors import AlreadyExists, BadPath, Conflict, UnknownKey
from samovar.results import ResultDirectory, ResultPlan, Source, begin, open_directory
from samovar.stages.inputs import NamedSource, find_sources
from samovar.stages.out import Out, OutPath, SourcePath, SourceResult
from samovar.store import LocalStore


def test_every_way_to_write_is_exclusive(tmp_path: Path) -> None:
    path = OutPath(tmp_path) / "deep" / "a.txt"
    with path.open("w") as file:
        file.write("first")
    for mode in ("w", "x", "a", "wb", "xb", "w+", "r+"):
        with pytest.raises(AlreadyExists, match=r"a\.txt"):
            path.open(mode)
    for write in (lambda: path.write_text("second"), lambda: path.write_bytes(b"second"), path.touch):
        with pytest.raises(AlreadyExists, match="written once"):
            write()
    other = path.with_name("b.txt")
    other.touch()
    for move in (other.rename, other.replace):
        with pytest.raises(AlreadyExists, match=r"a\.txt: already exists"):
            move(path)
    assert path.read_text() == "first"
    assert [type(each) for each in path.parent.iterdir()] == [OutPath, OutPath]
    assert other.rename(path.with_name("c.txt")).exists()


def test_a_source_is_read_only(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("first")
    path = SourcePath(tmp_path) / "a.txt"
    assert path.read_text() == "first"
    with path.open() as file:
        assert file.read() == "first"
    for change in (
        lambda: path.open("a"),
        lambda: path.open("r+"),
        lambda: path.write_text("x"),
        lambda: path.rename("b"),
        lambda: path.unlink(),
        lambda: path.with_name("new").mkdir(),
    ):
        with pytest.raises(Conflict, match="belongs to an earlier result"):
            change()  # type: ignore[no-untyped-call]  # lambdas of several types


@pytest.mark.parametrize("name", ["/etc/hosts", "../status.json", "a/../../x"])
def test_no_file_can_be_written_outside_the_result(tmp_path: Path, name: str) -> None:
    with begin(ResultDirectory(LocalStore(tmp_path)), ResultPlan("stage:x", {})) as result:
        result.restore()
        with pytest.raises(BadPath, match="must be a relative path inside the result"):
            Out(result, tmp_path, [], None) / name


def test_asking_for_a_source_that_the_config_does_not_name_is_an_error(tmp_path: Path) -> None:
    with begin(ResultDirectory(LocalStore(tmp_path)), ResultPlan("stage:x", {})) as result:
        result.restore()
        out = Out(result, tmp_path, [], None)
        with pytest.raises(UnknownKey, match=r"no source 'data'\. Available: none"):
            out.source("data")
        with pytest.raises(UnknownKey, match="no key 'files'"):
            out.raw_files()


def test_the_tables_of_a_model_are_opened_by_their_config_keys(tmp_path: Path) -> None:
    for name, sources in (("clicks", []), ("model", [Source("train_data.table", str(tmp_path / "clicks"), "id")])):
        with begin(
            ResultDirectory(LocalStore(tmp_path / name)), ResultPlan(name, {"name": name}, sources=sources)
        ) as result:
            result.restore()
            result.finish(None, None)
    model = SourceResult(open_directory(tmp_path / "model"))
    assert model.source("train_data.table").config == {"name": "clicks"}
    assert model.source().path == tmp_path / "clicks"
    assert (model / "status.json").exists()
    with pytest.raises(UnknownKey, match=r"no source 'table'\..* Available: train_data\.table"):
        model.source("table")


def test_sources_are_named_by_key_or_by_the_last_part_of_their_path(tmp_path: Path) -> None:
    def names(source: object) -> list[tuple[str, str, bool]]:
        found: list[NamedSource] = find_sources({"source": source}, tmp_path)
        return [(each.key, each.name, each.is_only) for each in found]

    assert names("data") == [("source", "source", True)]
    assert names(["data", "x/labels"]) == [("source[0]", "data", False), ("source[1]", "labels", False)]
    assert names({"train": "data"}) == [("source.train", "train", False)]
    assert names(None) == []
    with pytest.raises(ValueError, match="two sources are called 'data'"):
        names(["a/data", "b/data"])
    assert find_sources({"table": "no_result_there"}, tmp_path) == []
