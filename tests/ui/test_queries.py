"""Forms and free SELECTs over rows in memory. Nothing they say reaches a disk, a setting or our variables."""

from pathlib import Path

import pyarrow as pa
import pytest

from samovar.errors import BadInput, UnknownColumn
from samovar.ui.queries import Form, query_form, query_text

ROWS = pa.table({"hit": ["a", "b", "c", "d'"], "clicked": [1, 0, 1, None], 'p "x"': [0.5, 0.25, 0.75, 0.1]})


def test_a_form_filters_sorts_and_cuts() -> None:
    answer = query_form(ROWS, Form(columns=["hit"], column="clicked", value="1", sort='-p "x"', limit=1))
    assert (answer["columns"], answer["rows"], answer["num_found"], answer["num_rows"]) == (["hit"], [["c"]], 2, 4)


@pytest.mark.parametrize(
    ("form", "hits"),
    [
        (Form(column="hit", value="d'"), ["d'"]),
        (Form(column="hit", value="' OR 1=1 --"), []),
        (Form(column="hit", sign="contains", value="'"), ["d'"]),
        (Form(column='p "x"', sign=">=", value="0.5"), ["a", "c"]),
        (Form(column="clicked", value=""), ["a", "b", "c", "d'"]),
    ],
)
def test_a_value_is_a_value_whatever_it_says(form: Form, hits: list[str]) -> None:
    assert [row[0] for row in query_form(ROWS, form)["rows"]] == hits


@pytest.mark.parametrize(
    ("form", "reason"),
    [
        (Form(column="clicks", value="1"), "no column 'clicks'. Did you mean 'clicked'?"),
        (Form(sort="-hits"), "no column 'hits'. Did you mean 'hit'?"),
        (Form(columns=['hit", (SELECT 1) AS "x']), "no column"),
        (Form(column="hit", sign="= '' OR", value="x"), "no sign"),
        (Form(column="clicked", value="many"), "clicked = many: "),
    ],
)
def test_a_form_that_cannot_be_answered_is_explained(form: Form, reason: str) -> None:
    with pytest.raises((BadInput, UnknownColumn), match=reason.replace("?", r"\?").replace(".", r"\.")):
        query_form(ROWS, form)


def test_a_select_sees_its_tables_only() -> None:
    answer = query_text({"runs": ROWS}, "SELECT count(*) AS n, sum(clicked) FROM runs")
    assert (answer["columns"][0], answer["rows"]) == ("n", [[4, 2]])


def test_a_long_answer_is_cut() -> None:
    answer = query_text({"runs": ROWS}, "SELECT * FROM range(5000)")
    assert (len(answer["rows"]), answer["has_more"]) == (1000, True)


CORPUS = (
    "COPY runs TO '{victim}'",
    "COPY (SELECT 1) TO '{victim}' (FORMAT parquet)",
    "SELECT * FROM read_csv('{victim}')",
    "SELECT * FROM read_text('{victim}')",
    "SELECT * FROM read_blob('/etc/passwd')",
    "SELECT * FROM glob('{folder}/*')",
    "SELECT * FROM '{victim}'",
    "SELECT * FROM sniff_csv('{victim}')",
    "ATTACH '{folder}/new.db'",
    "ATTACH '{victim}' AS x (READ_ONLY)",
    "EXPORT DATABASE '{folder}/export'",
    "IMPORT DATABASE '{folder}'",
    "INSTALL httpfs",
    "LOAD httpfs",
    "SET enable_external_access = true",
    "RESET enable_external_access",
    "PRAGMA enable_external_access = true",
    "SET temp_directory = '{folder}'",
    "CREATE TABLE t AS SELECT 1",
    "DELETE FROM runs",
    "SELECT 1; SELECT 2",
    "SELECT 1; COPY runs TO '{victim}'",
    "SELECT * FROM ROWS",
    "SELECT * FROM victim",
    "CREATE SECRET s (TYPE s3)",
    "CALL force_checkpoint()",
    "CHECKPOINT",
    "EXPLAIN ANALYZE COPY runs TO '{victim}'",
    "PREPARE p AS COPY runs TO '{victim}'",
    "",
    "not sql",
)


@pytest.mark.parametrize("text", CORPUS)
def test_nothing_but_a_select_over_the_tables_is_answered(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    victim = tmp_path / "victim.csv"
    victim.write_text("a\n1\n")
    with pytest.raises(BadInput):
        query_text({"runs": pa.table({"hit": ["a"]})}, text.format(victim=victim, folder=tmp_path))
    assert [each.name for each in tmp_path.iterdir()] == ["victim.csv"]
    assert victim.read_text() == "a\n1\n"


def test_a_query_that_needs_too_much_memory_writes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(BadInput, match="Out of Memory"):
        query_text({}, "SELECT list(range) FROM range(400000000)")
    assert list(tmp_path.iterdir()) == []
