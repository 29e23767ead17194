"""A program from a stranger can compute wrong numbers, and nothing more: all else is refused before it runs."""

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from samovar.errors import BadInput, CorruptData, SamovarError
from samovar.scoring import operators
from samovar.scoring.frozen import FrozenModel
from samovar.scoring.program import EmbeddingPlan, Lookup, Node, Program, ProgramInput
from samovar.scoring.signature import Signature
from samovar.tables import ColumnSchema

SIGNATURE = Signature(
    (
        ColumnSchema("price", "real", 1, "double", {"role": "number"}),
        ColumnSchema("ad", "categorical", 1, "uint64", {"role": "id"}),
    )
)
PLAN = EmbeddingPlan({"ad": 2}, {"ad": "ad"}, (), {"ad": 3})
GOOD = Program(
    {"embedding": PLAN},
    (Lookup("embedding", "ad", "ad"),),
    (ProgramInput("values", "price"), ProgramInput("pooled", "0")),
    ("top.weight",),
    (
        Node("aten.linear.default", ({"value": 1}, {"value": 2})),
        Node("aten.squeeze.dim", ({"value": 3}, 1)),
        Node("aten.add.Tensor", ({"value": 4}, {"value": 0})),
    ),
    {"": 5},
    1,
)


def tree() -> dict[str, Any]:
    shards = [
        {"ids": np.zeros(0, np.uint64), "stamps": np.zeros(0, np.uint32), "rows": np.zeros((0, 2), np.float32)}
        for _ in range(8)
    ]
    return {
        "dense": {"top.weight": torch.ones(1, 2)},
        "embeddings": {"embedding": {"clock": 1, "tables": {"ad": shards}}},
    }


def changed(change: Callable[[dict[str, Any]], Any]) -> Program:
    """The program with a change in its file."""
    document = json.loads(GOOD.to_bytes())
    change(document)
    return Program.from_bytes(json.dumps(document).encode(), "program.json")


def load(program: Program) -> FrozenModel:
    return FrozenModel(program, SIGNATURE, tree(), "bundle")


def test_a_program_survives_its_file_and_runs() -> None:
    program = Program.from_bytes(GOOD.to_bytes(), "program.json")
    assert program == GOOD
    frozen = load(program)
    assert frozen.model().predict([{"price": 1.5, "ad": 3}]).tolist() == [1.5]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda d: d["nodes"][0].update(op="aten.from_file.default"), "may not use 'aten.from_file.default'"),
        (lambda d: d["nodes"][0].update(op="os.system"), "may not use 'os.system'"),
        (lambda d: d["nodes"][0].update(op="aten.add_.Tensor"), "may not use 'aten.add_.Tensor'"),
        (lambda d: d["nodes"][0].update(op="aten.empty.memory_format"), "may not use"),
        (lambda d: d["nodes"][0].update(args=[{"value": 4}, {"value": 2}]), "uses value 4, which is not computed"),
        (lambda d: d["nodes"][0].update(args=[{"value": 3}, {"value": 2}]), "uses value 3, which is not computed"),
        (lambda d: d["nodes"][0].update(args=[{"value": -1}, {"value": 2}]), "-1 is not the number of a value"),
        (lambda d: d["nodes"][0].update(args=[{"value": True}]), "True is not the number of a value"),
        (lambda d: d["nodes"][0].update(args=[{"code": "x"}]), "an argument cannot be"),
        (lambda d: d["nodes"][0].update(kwargs={"out": None}), "takes the arguments"),
        (lambda d: d["nodes"][0].update(args=[1] * 9), "takes the arguments"),
        (lambda d: d["outputs"].update({"": 6}), "output '' is value 6"),
        (lambda d: d["outputs"].update({"": -1}), "outputs"),
        (lambda d: d["lookups"][0].update(embedding="other"), "lookup in 'other'"),
        (lambda d: d["lookups"][0].update(feature="other"), "lookup of 'other'"),
        (lambda d: d["inputs"][1].update(name="7"), "is the lookup '7'"),
        (lambda d: d["inputs"][1].update(part="file"), "part"),
        (lambda d: d["embeddings"]["embedding"]["features"].update(ad=-2), "features"),
        (lambda d: d["embeddings"]["embedding"]["features"].update(ad=10**9), "features"),
        (lambda d: d.update(num_threads=0), "num_threads"),
        (lambda d: d.update(format=2), "format 2"),
        (lambda d: d.pop("nodes"), "nodes"),
        (lambda d: d["weights"].append("top.weight"), "two weights"),
        (
            lambda d: d["nodes"].insert(0, {"op": "aten.batch_norm.default", "kwargs": {},
                                            "args": [{"value": 1}, None, None, None, None, True, 0.1, 1e-5, False]}),
            "it computes as in training",
        ),
    ],
)  # fmt: skip
def test_what_a_program_may_not_have_is_refused_before_it_runs(
    change: Callable[[dict[str, Any]], Any], message: str
) -> None:
    with pytest.raises(CorruptData, match=message):
        changed(change)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda d: d["nodes"][1].update(op="aten.view.default", args=[{"value": 3}, [-5]]),
            r"node 1, aten.view.default",
        ),
        (lambda d: d["nodes"][1].update(op="aten.zeros.default", args=[[10**9, 10**9]]), "node 1, aten.zeros.default"),
        (lambda d: d["nodes"][1].update(op="aten.zeros.default", args=[[-3]]), "node 1, aten.zeros.default"),
        (lambda d: d["nodes"][1].update(op="aten.zeros.default", args=[[1 << 30]]), "result has 4,294,967,296 bytes"),
        (lambda d: d["nodes"][1].update(op="mul", args=[1 << 39, 1 << 39]), "a size of"),
        (lambda d: d["nodes"][1].update(op="aten.select.int", args=[{"value": 3}, 0, 99]), "node 1, aten.select.int"),
        (lambda d: d["nodes"][2].update(op="aten.sum.default", args=[{"value": 4}]), "one prediction per row"),
        (lambda d: d["inputs"][0].update(name="cost"), "reads 'cost', which the signature does not have"),
        (lambda d: d["inputs"][0].update(part="ids"), "reads its ids"),
        (lambda d: d["weights"].__setitem__(0, "other"), "weights lack 'other'"),
        (lambda d: d["embeddings"]["embedding"]["ttl"].update(ad2=3), "hash tables are not those"),
        (lambda d: d["embeddings"]["embedding"]["features"].update(ad=4), "dimension 4|arrays"),
    ],
)
def test_what_does_not_fit_is_refused_when_it_is_loaded(change: Callable[[dict[str, Any]], Any], message: str) -> None:
    with pytest.raises((CorruptData, BadInput), match=message):
        load(changed(change))


def test_damage_anywhere_is_an_error_of_ours() -> None:
    """Replace each value of the file by others."""

    def places(node: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
        pairs = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
        return [path, *(place for key, value in pairs for place in places(value, (*path, key)))]

    document = json.loads(GOOD.to_bytes())
    outcomes = {"refused": 0, "harmless": 0}
    for place in places(document)[1:]:
        wrong: list[Any] = [None, -1, 10**30, "x", [], {}, {"value": 0}, 1.5]
        for value in wrong:
            document = json.loads(GOOD.to_bytes())
            node = document
            for key in place[:-1]:
                node = node[key]
            node[place[-1]] = value
            try:
                load(Program.from_bytes(json.dumps(document).encode(), "program.json"))
                outcomes["harmless"] += 1
            except SamovarError:
                outcomes["refused"] += 1
    assert outcomes["refused"] > 300


def test_every_operator_of_the_list_exists_and_writes_nowhere() -> None:
    missing = [name for name in operators.ATEN if operators.find(name) is None]
    assert missing == []
    for name in operators.ATEN:
        schema = operators.find(name)._schema  # type: ignore[union-attr]  # torch's operators have one
        written = [
            argument.name for argument in schema.arguments if argument.alias_info and argument.alias_info.is_write
        ]
        assert written in ([], ["running_mean", "running_var"]), name
    assert operators.find("aten.add_.Tensor") is None
    assert operators.find("builtins.eval") is None
