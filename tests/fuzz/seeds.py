"""What an attack on Samovar 0.1 found, as seeds: each damages a copy of a real directory as the attacker did. Fuzzing
runs every seed first, and then changes some of them further.

Defects that are not in files have a test of their own; `TESTS` names them. Those in cells of tables are in
`table_cases.SEEDS`.
"""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.fuzz.mutate import dump, repair, sign

Damage = Callable[[Path], None]


def _newest(directory: Path) -> Path:
    return max((directory / ".samovar/attributes").glob("@*"))


def _attributes(**values: Any) -> Damage:
    def damage(directory: Path) -> None:
        path = _newest(directory)
        path.write_bytes(sign(dump({**json.loads(path.read_bytes().partition(b"\n")[2]), **values})))

    return damage


def _json(name: str, **values: Any) -> Damage:
    def damage(directory: Path) -> None:
        path = directory / name
        path.write_bytes(dump({**json.loads(path.read_bytes()), **values}))
        repair(directory)

    return damage


def _text(name: str, data: bytes) -> Damage:
    def damage(directory: Path) -> None:
        (directory / name).write_bytes(data)
        repair(directory)

    return damage


def _whole(data: bytes) -> Damage:
    """For a kind that is a file."""

    def damage(path: Path) -> None:
        path.write_bytes(data)

    return damage


def _link_own_folder(name: str) -> Damage:
    def damage(directory: Path) -> None:
        folder = directory / ".samovar" / name
        if folder.is_dir():
            folder.rename(directory / f".samovar/{name}.old")
        folder.symlink_to(directory.parent / "other")

    return damage


def _extra_attribute(name: str, make: Callable[[Path], object]) -> Damage:
    def damage(directory: Path) -> None:
        make(directory / ".samovar/attributes" / name)

    return damage


def _link_to(target: str) -> Callable[[Path], object]:
    return lambda path: path.symlink_to(target)


def _leave_snapshot(directory: Path) -> None:
    """As a replaced trainer left it in a finished directory."""
    folder = directory / "snapshot/000001.e1"
    folder.mkdir(parents=True)
    (folder / "state.json").write_text("{}")


def _flip(pattern: str) -> Damage:
    def damage(directory: Path) -> None:
        path = sorted(path for path in directory.glob(pattern) if path.is_file())[0]
        data = bytearray(path.read_bytes())
        data[len(data) // 2] ^= 1
        path.write_bytes(bytes(data))

    return damage


def _remove(pattern: str) -> Damage:
    return lambda directory: sorted(directory.glob(pattern))[0].unlink()


def _share_sources(directory: Path) -> None:
    """Each made twice from the next: 2**26 ways."""
    sources = [{"key": f"source[{n}]", "path": str(directory), "id": "x", "version": 10**9} for n in range(26)]
    _json("lineage.json", sources=sources)(directory)


_DEEP = b'{"a":' * 5000 + b"1" + b"}" * 5000

SEEDS: dict[str, tuple[str, Damage]] = {
    **{f"3: {name} is a link": ("unfinished", _link_own_folder(name)) for name in ("open", "tmp", "locks")},
    "6: @7 without zeros": ("model", _extra_attribute("@7", lambda path: path.write_bytes(sign(b"{}")))),
    "6: @²": ("model", _extra_attribute("@²", lambda path: path.write_bytes(sign(b"{}")))),
    "6: a dangling link": ("model", _extra_attribute("@9999999999", _link_to("nowhere"))),
    "6: a pipe": ("table", _extra_attribute("@9999999999", os.mkfifo)),
    "6: an endless file": ("table", _extra_attribute("@9999999999", _link_to("/dev/zero"))),
    "10: a snapshot in a finished directory": ("model", _leave_snapshot),
    "11: a flipped bit in a log": ("unfinished", _flip("logs/metrics/*")),
    "11: a lost segment": ("unfinished", _remove("logs/metrics/*")),
    "11: a flipped bit in predictions": ("predictions", _flip("evaluation/*/*.parquet")),
    "12: a version of 10^9": ("table", _attributes(versions=[1] * 2, version=10**9)),
    "12: an epoch of 2^63": ("table", _attributes(versions=[2**63])),
    "12: a large clock": ("unfinished", _attributes(snapshots=[{"number": 10**9, "epoch": 10**9}])),
    "12: shared sources": ("total", _share_sources),
    "12: 10^400 examples": (
        "model",
        _text("logs/metrics.jsonl", b'{"kind": "evaluation", "name": "a", "num_examples": 1' + b"0" * 400 + b"}\n"),
    ),
    "13: deep JSON": ("model", _text("model_config.json", _DEEP)),
    "13: an hour beyond the calendar": ("model", _json("status.json", heartbeat="99999-12-31T23:59:59+00:00")),
    "13: a lineage that is a list": ("model", _text("lineage.json", b"[]")),
    "13: an empty status": ("unfinished", _text("status.json", b"")),
    "13: bytes that are no text": ("model", _text("lineage.json", b"\xff\xfe\x00")),
    "13: raw files that no config names": ("table", _json("lineage.json", kind="stage:x")),
    "13: options that are a number": ("config.json", _whole(b'{"source": "x.csv", "columns": {"a": {"text": 0.5}}}')),
    "13: an integer that no float holds": ("config.json", _whole(b'{"lr": 1' + b"0" * 400 + b"}")),
    "13: a source with a name that no disk takes": ("config.json", _whole(b'{"source": "' + b"x" * 300 + b'"}')),
    "19: untracked names": ("model", _json("environment.json", git={"untracked": ["secret.txt"] * 1000})),
    "21: other code": ("model", _text("script.py", b"def build(params):\n    raise SystemExit\n")),
}
"""By the number of the defect: the directory of the corpus that is damaged, and how."""

TESTS = {
    1: "fuzz/table_cases.py:SEEDS",
    2: "brewing/test_stopped_brewers.py:test_a_brewer_stopped_before_any_operation_changes_nothing_of_its_successor",
    3: "store/test_local.py:test_the_stores_own_folder_follows_no_link_and_removes_nothing_outside",
    4: "fuzz/table_cases.py:SEEDS",
    5: "training/test_train_offline.py:test_a_compiled_model_survives_kills",
    6: "store/test_local.py:test_a_pipe_in_the_place_of_a_file_is_refused_and_not_waited_for",
    7: "embeddings/test_chosen_ids.py:test_chosen_ids_are_inserted_about_as_fast_as_any",
    8: "queue/test_jobs.py:test_a_task_is_what_a_user_would_type",
    9: "store/test_local.py:test_setting_the_time_of_day_replaces_no_living_holder_on_the_same_machine",
    10: "results/test_open_result.py:test_what_a_replaced_process_left_is_removed_by_the_next_one",
    11: "results/test_open_result.py:test_damaged_predictions_are_found_when_the_run_resumes",
    12: "fuzz/test_hostile.py:share_sources",
    13: "config/test_records.py:test_any_bytes_are_a_record_or_damage",
    14: "queue/test_addresses.py:test_a_password_in_an_address_is_never_shown",
    15: "store/test_mapped_file.py:test_a_table_that_is_cut_while_it_is_read_is_named",
    16: "tables/test_cell.py:test_distinct_ids_that_are_not_distinct_are_refused",
    17: "embeddings/test_copies.py:test_a_deep_copy_of_a_state_holds_the_tables_at_one_moment_of_the_training",
    18: "results/test_open_result.py:test_the_manifest_of_a_long_run_stays_small_and_any_kept_snapshot_can_be_used",
    19: "queue/test_worker.py:test_the_file_of_a_queue_is_for_its_owner_only",
    20: "queue/test_worker.py:test_a_job_whose_directory_another_process_has_just_left_is_not_failed",
    21: "sweep/test_code.py:test_code_that_changed_is_refused_if_a_part_is_missing",
    22: "scoring/test_predictions.py:test_keys_come_out_in_their_types_and_targets_as_rows",
    23: "cli/test_mistakes.py:test_a_mistake_on_the_command_line_is_answered_by_one_sentence",
}
"""By the number of the defect: the file and the test that tries it, if not only here."""
