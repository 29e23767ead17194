"""Paths that write once, and paths that only read."""

from pathlib import Path

import pytest

from samovar.errors import AlreadyExists, BadPath, Conflict, UnknownKey
from samovar.results import ResultDirectory, ResultPlan, Source, begin, open_directory
from samovar.stages.inputs import Named, find_named
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
        with pytest.raises(AlreadyExists, match=r"a\.txt: is there already"):
            move(path)
    assert path.read_text() == "first"
    assert [type(each) for each in path.parent.iterdir()] == [OutPath, OutPath]
    assert other.rename(path.with_name("c.txt")).exists()


def test_a_source_is_only_read(tmp_path: Path) -> None:
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
def test_no_name_leads_out_of_the_result(tmp_path: Path, name: str) -> None:
    with begin(ResultDirectory(LocalStore(tmp_path)), ResultPlan("stage:x", {})) as result:
        result.restore()
        with pytest.raises(BadPath, match="leads out of the result"):
            Out(result, tmp_path, [], None) / name


def test_a_script_that_asks_for_what_is_not_named_is_told(tmp_path: Path) -> None:
    with begin(ResultDirectory(LocalStore(tmp_path)), ResultPlan("stage:x", {})) as result:
        result.restore()
        out = Out(result, tmp_path, [], None)
        with pytest.raises(UnknownKey, match="asks for the source 'data'; it has none"):
            out.source("data")
        with pytest.raises(UnknownKey, match="no key `files`"):
            out.raw_files()


def test_a_model_knows_its_tables_by_their_keys(tmp_path: Path) -> None:
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
    with pytest.raises(UnknownKey, match="it has train_data"):
        model.source("table")


def test_names_of_sources(tmp_path: Path) -> None:
    def names(source: object) -> list[tuple[str, str, bool]]:
        found: list[Named] = find_named({"source": source}, tmp_path)
        return [(each.key, each.name, each.is_only) for each in found]

    assert names("data") == [("source", "source", True)]
    assert names(["data", "x/labels"]) == [("source[0]", "data", False), ("source[1]", "labels", False)]
    assert names({"train": "data"}) == [("source.train", "train", False)]
    assert names(None) == []
    with pytest.raises(ValueError, match="'data' is the name of two sources"):
        names(["a/data", "b/data"])
    assert find_named({"table": "no_result_there"}, tmp_path) == []
