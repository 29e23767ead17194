"""State trees: every value is restored exactly, below a prefix of a store or in one file."""

import errno
import json
import math
import os
import resource
from collections import Counter, OrderedDict, defaultdict
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from samovar.config.records import as_corrupt
from samovar.errors import BadInput, BadPath, CorruptData, NotAResult, StoreError
from samovar.results.arrays import ArraysFile
from samovar.results.state import decode_tree, load_tree, read_state, save_tree, write_state
from samovar.store import MemoryStore
from samovar.testing.disks import CountingDisk, FailingDisk


def round_trip(tree: object) -> Any:
    store = MemoryStore()
    return read_state(store, "s", write_state(store, "s", tree))


def same(left: Any, right: Any) -> bool:
    """Equal in type and to the last bit; NaN equals itself."""
    if isinstance(left, np.ndarray | np.generic):
        return (
            type(left) is type(right)
            and left.dtype == right.dtype
            and left.shape == right.shape
            and left.tobytes() == right.tobytes()
        )
    if isinstance(left, torch.Tensor):
        return (
            isinstance(right, torch.Tensor)
            and left.dtype == right.dtype
            and left.shape == right.shape
            and _bits(left) == _bits(right)
        )
    if type(left) is not type(right):
        return False
    if isinstance(left, dict):
        pairs = zip(left.items(), right.items(), strict=True)
        return len(left) == len(right) and all(same(a, b) and same(x, y) for (a, x), (b, y) in pairs)
    if isinstance(left, list | tuple):
        return len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, float):
        return (math.isnan(left) and math.isnan(right)) or (
            left == right and math.copysign(1, left) == math.copysign(1, right)
        )
    return bool(left == right)


def _bits(tensor: torch.Tensor) -> bytes:
    return tensor.detach().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes() if tensor.numel() else b""


TENSOR_TYPES = [
    "float32", "float64", "float16", "bfloat16", "int64", "int32", "int8", "uint8", "bool", "complex64", "uint16",
    "float8_e4m3fn",
]  # fmt: skip
scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text()
    | st.binary()
    | st.complex_numbers(allow_nan=False)
)
dtypes = hnp.scalar_dtypes() | hnp.unicode_string_dtypes() | hnp.byte_string_dtypes()
arrays = hnp.arrays(dtypes, hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4))
keys = st.text() | st.integers() | st.booleans() | st.none() | st.tuples(st.integers(), st.text())
trees = st.recursive(
    scalars | arrays | st.frozensets(st.integers() | st.text()) | st.sets(st.integers()),
    lambda inner: st.lists(inner) | st.lists(inner).map(tuple) | st.dictionaries(keys, inner, max_size=4),
    max_leaves=12,
)


@given(trees)
def test_every_tree_is_restored_exactly(tree: object) -> None:
    assert same(round_trip(tree), tree)


@given(trees)
def test_the_same_tree_gives_the_same_bytes(tree: object) -> None:
    stores = MemoryStore(), MemoryStore()
    assert write_state(stores[0], "s", tree) == write_state(stores[1], "s", tree)


@pytest.mark.parametrize("dtype", TENSOR_TYPES)
@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 0, 3), (4, 5)])
def test_tensors_are_restored_exactly(dtype: str, shape: tuple[int, ...]) -> None:
    tensor = torch.randn(shape).to(getattr(torch, dtype))
    back = round_trip({"a": tensor, "pad": np.zeros(3, np.int8)})["a"]
    assert same(back, tensor)


def test_views_conjugates_and_parameters_are_restored_as_plain_tensors() -> None:
    base = torch.arange(12.0).reshape(3, 4)
    parameter = torch.nn.Parameter(base.clone())
    for tensor in (base.T, base[::2, 1:], torch.randn(3, dtype=torch.complex64).conj(), parameter):
        back = round_trip([tensor])[0]
        assert same(back, tensor.detach().resolve_conj().contiguous())


def test_restored_arrays_can_be_written_to() -> None:
    back = round_trip({"a": np.zeros(3), "b": torch.zeros(3)})
    back["a"] += 1
    back["b"] += 1
    assert back["a"].tolist() == back["b"].tolist() == [1, 1, 1]


def test_state_dicts_of_an_optimizer_and_a_model_are_restored() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.BatchNorm1d(2))
    optimizer = torch.optim.Adam(model.parameters())
    model(torch.randn(4, 3)).sum().backward()
    optimizer.step()
    back = round_trip({"model": model.state_dict(), "optimizer": optimizer.state_dict()})
    assert same(back["optimizer"], optimizer.state_dict())
    model.load_state_dict(back["model"])
    optimizer.load_state_dict(back["optimizer"])


def test_ordered_dicts_are_restored_as_dicts_in_their_order() -> None:
    assert list(round_trip(OrderedDict([("b", 1), ("a", 2)]))) == ["b", "a"]


class Point(NamedTuple):
    x: int


def test_a_value_that_cannot_be_restored_exactly_is_refused() -> None:
    counted = round_trip({"seen": Counter("tea"), "shape": torch.Size([2, 3])})
    assert (type(counted["seen"]), counted["seen"]["x"], counted["shape"]) == (Counter, 0, (2, 3))
    values: list[object] = [defaultdict(int), Point(1)]
    for value in values:
        with pytest.raises(BadInput, match=f"cannot store a .*{type(value).__qualname__} at a of the state"):
            round_trip({"a": value})


def test_any_safetensors_reader_opens_the_arrays() -> None:
    from safetensors.numpy import load

    store = MemoryStore()
    tree = {
        "model": {"w": np.arange(6, dtype=np.float32).reshape(2, 3)},
        "ids": np.array([2**64 - 1], np.uint64),
        "x": np.ones(3, np.int8),
    }
    write_state(store, "s", tree)
    found = load(store.read("s/arrays.safetensors"))
    assert found["model/w"].tolist() == [[0, 1, 2], [3, 4, 5]]
    assert found["ids"].tolist() == [2**64 - 1]


@pytest.mark.parametrize(
    ("tree", "message"),
    [
        ({"a": [1, object()]}, "cannot store a builtins.object at a/1 of the state"),
        ({"a": np.array([None])}, "array of dtype object"),
        (torch.eye(3).to_sparse(), "layout torch.sparse_coo"),
        ({"f": len}, "cannot store a builtins.builtin_function_or_method at f of the state"),
    ],
)
def test_a_value_that_cannot_be_stored_is_refused_by_name(tree: object, message: str) -> None:
    with pytest.raises(BadInput, match=message.replace("(", r"\(")):
        round_trip(tree)


def test_a_state_that_contains_itself_is_refused() -> None:
    tree: dict[str, Any] = {}
    tree["self"] = [tree]
    with pytest.raises(BadInput, match="the state contains itself at self/0"):
        round_trip(tree)


def test_an_unknown_tag_is_damage() -> None:
    with pytest.raises(CorruptData, match=r"unknown tag, '\$pickle'"):
        decode_tree({"$pickle": ""}, lambda node: None)


def test_a_newer_format_is_refused() -> None:
    store = MemoryStore()
    files = write_state(store, "s", {})
    document = json.loads(store.read("s/state.json"))
    from samovar.results.checked import write_checked

    files["s/state.json"] = write_checked(store, "s/state.json", json.dumps({**document, "format": 2}).encode())
    with pytest.raises(CorruptData, match="has format 2, but this version of Samovar reads 1"):
        read_state(store, "s", files)


def test_golden_bytes_of_format_1() -> None:
    store = MemoryStore()
    tree = {"w": np.array([1.5, -2.0], np.float32), 3: (None, float("nan"), b"\x00"), "n": np.int16(7)}
    write_state(store, "s", tree)
    assert store.read("s/state.json") == (
        b'{"format": 1, "tree": {"$dict": [["w", {"$array": "w", "kind": "numpy", "dtype": "float32", "shape": [2]}], '
        b'[3, {"$tuple": [null, {"$float": "nan"}, {"$bytes": "AA=="}]}], ["n", {"$scalar": ["<i2", "0700"]}]]}}'
    )
    header = b'{"w":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}  '
    assert store.read("s/arrays.safetensors") == b"\x38" + bytes(7) + header + b"\x00\x00\xc0\x3f\x00\x00\x00\xc0"


TREE = {"weights": np.arange(1000, dtype=np.float32), "epoch": 3, "best": None}


def test_a_tree_in_one_file_is_restored(tmp_path: Path) -> None:
    save_tree(tmp_path / "net.pt", TREE)
    found = load_tree(tmp_path / "net.pt")
    np.testing.assert_array_equal(found.pop("weights"), TREE["weights"])
    assert found == {"epoch": 3, "best": None}
    assert os.listdir(tmp_path) == ["net.pt"]


def test_a_failing_disk_leaves_the_old_file_and_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "net.pt"
    save_tree(path, TREE)
    counting = CountingDisk()
    save_tree(tmp_path / "other.pt", TREE, counting)
    for number in range(1, counting.points // 2 + 1):
        with pytest.raises(StoreError, match=r"could not save .*net\.pt: the disk is full.*Free some space"):
            save_tree(path, {**TREE, "epoch": 4}, FailingDisk(number, errno.ENOSPC))
        assert load_tree(path)["epoch"] in (3, 4)
    save_tree(path, {**TREE, "epoch": 5})
    assert load_tree(path)["epoch"] == 5


def test_one_file_of_another_format_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("samovar.results.state.FILE_FORMAT", 2)
    save_tree(tmp_path / "net.pt", TREE)
    monkeypatch.undo()
    with pytest.raises(
        NotAResult, match=r"net\.pt has format 2, but this version of Samovar reads 1\. Use the version"
    ):
        load_tree(tmp_path / "net.pt")


def test_a_file_that_samovar_did_not_save_is_refused(tmp_path: Path) -> None:
    (tmp_path / "net.pt").write_bytes(b"PK\x03\x04 a pickle in a zip")
    with pytest.raises(NotAResult, match="was not saved by Samovar, or is damaged"):
        load_tree(tmp_path / "net.pt")
    with pytest.raises(NotAResult, match=r"none\.pt: no such file"):
        load_tree(tmp_path / "none.pt")


def test_one_file_must_be_regular_and_of_the_size_that_its_header_says(tmp_path: Path) -> None:
    save_tree(tmp_path / "net.pt", TREE)
    os.truncate(tmp_path / "net.pt", 4 << 40)  # a hole
    os.mkfifo(tmp_path / "pipe.pt")
    (tmp_path / "header.pt").write_bytes((3 << 40).to_bytes(8, "little"))
    os.truncate(tmp_path / "header.pt", 4 << 40)
    for name, message in {
        "net.pt": r"its arrays end at byte 4,\d+ of 4,398,046,511,104",
        "header.pt": "no safetensors header in its 4,398,046,511,104 bytes",
        "pipe.pt": "cannot be read: not a regular file",
        ".": "cannot be read: not a regular file",
    }.items():
        with pytest.raises(NotAResult, match=message):
            load_tree(tmp_path / name)
    with pytest.raises(BadPath, match="is not a path: embedded null byte"):
        load_tree(tmp_path / "net\0.pt")


def test_a_file_that_does_not_fit_in_memory_is_refused(tmp_path: Path) -> None:
    header = json.dumps({"w": {"data_offsets": [0, 4 << 40]}}).encode()
    (tmp_path / "net.pt").write_bytes(len(header).to_bytes(8, "little") + header)
    os.truncate(tmp_path / "net.pt", 8 + len(header) + (4 << 40))
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (1 << 40, hard))  # some machines promise any memory
    try:
        with pytest.raises(StoreError, match=r"does not fit in memory: it has 4,398,\d+,\d+,\d+ bytes"):
            load_tree(tmp_path / "net.pt")
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


@pytest.mark.parametrize("dtype", ["i4,(", "(1,i4", "O", "i4,i4", "<U99999999999999999999"])
def test_only_types_that_were_written_are_read(dtype: str) -> None:
    for node in (
        {"$scalar": [dtype, "00000000"]},
        {"$array": "w", "kind": "numpy", "dtype": dtype, "shape": [1]},
        {"$array": "w", "kind": "torch", "dtype": dtype, "shape": [1]},
    ):
        arrays = ArraysFile(memoryview(b'\x1f\0\0\0\0\0\0\0{"w":{"data_offsets":[0,4]}}   \0\0\0\0'))
        with pytest.raises(CorruptData), as_corrupt("state.json"):
            decode_tree(node, arrays.load)
