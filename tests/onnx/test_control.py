"""Folding, If, Loop, Scan, functions, sequences."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import webnn_cl
from tests.onnx.models import BOOL, FLOAT, INT64, by_onnxruntime, model, numbers
from webnn_cl.onnx import InferenceSession, check

node = helper.make_node


def same(context: webnn_cl.MLContext, made: onnx.ModelProto, feeds: dict[str, Any], rtol: float = 1e-5) -> None:
    """Our outputs are onnxruntime's."""
    for ours, theirs in zip(InferenceSession(made, context).run(None, feeds), by_onnxruntime(made, feeds), strict=True):
        assert ours.dtype == theirs.dtype and ours.shape == theirs.shape
        np.testing.assert_allclose(ours, theirs, rtol=rtol, atol=1e-6)


def body(nodes: list[onnx.NodeProto], inputs: list[Any], outputs: list[Any], name: str = "body") -> onnx.GraphProto:
    return helper.make_graph(nodes, name, inputs, outputs)


def info(name: str, kind: int = FLOAT, shape: Any = None) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, kind, shape)


def test_shape_arithmetic_is_folded(context: webnn_cl.MLContext) -> None:
    """The way exporters flatten: shape, gather, concat, reshape; and a mask of the sequence's own length."""
    nodes = [
        node("Shape", ["x"], ["s"]),
        node("Gather", ["s", "zero"], ["b"]),
        node("Unsqueeze", ["b", "axes"], ["bu"]),
        node("Concat", ["bu", "minus"], ["target"], axis=0),
        node("Reshape", ["x", "target"], ["r"]),
        node("Gather", ["s", "one"], ["n"]),
        node("Range", ["zero", "n", "one"], ["range"]),
        node("Cast", ["range"], ["positions"], to=FLOAT),
        node("Unsqueeze", ["positions", "axes"], ["row"]),
        node("Expand", ["row", "wide"], ["mask"]),
        node("ReduceSum", ["mask"], ["total"]),
        node("Add", ["r", "total"], ["y"]),
    ]
    weights = {"zero": np.array(0), "one": np.array(1), "axes": np.array([0]), "minus": np.array([-1])}
    weights["wide"] = np.array([3, 1])
    made = model(nodes, {"x": (FLOAT, ["b", "n", 4])}, ["y"], weights=weights)
    session = InferenceSession(made, context)
    for shape in ((2, 3, 4), (1, 5, 4)):
        x = numbers(*shape)
        np.testing.assert_allclose(session.run(None, {"x": x})[0], by_onnxruntime(made, {"x": x})[0], rtol=1e-5)
    made.graph.input[0].CopyFrom(info("x", FLOAT, [2, 3, 4]))
    report = check(made, context)
    assert [n.op_type for n in report.nodes if n.how != "folded"] == ["Reshape", "Add"]


def test_a_model_that_is_all_constants(context: webnn_cl.MLContext) -> None:
    made = model([node("Shape", ["x"], ["y"])], {"x": (FLOAT, [2, 5])}, ["y"])
    session = InferenceSession(made, context)
    np.testing.assert_array_equal(session.run(None, {"x": numbers(2, 5)})[0], [2, 5])
    np.testing.assert_array_equal(session.run_async(None, {"x": numbers(2, 5)}).result()[0], [2, 5])
    with pytest.raises(webnn_cl.InvalidStateError):
        _ = session.graph


def branches(different: bool = False) -> dict[str, onnx.GraphProto]:
    shape = ["x", "axes"] if different else ["x"]
    return {
        "then_branch": body([node("Neg", ["x"], ["t"])], [], [info("t")], "then"),
        "else_branch": body([node("ReduceSum" if different else "Abs", shape, ["e"])], [], [info("e")], "else"),
    }


@pytest.mark.parametrize("condition", [True, False])
def test_if_with_a_known_and_an_unknown_condition(context: webnn_cl.MLContext, condition: bool) -> None:
    value, x = np.array(condition), numbers(3)
    known = model([node("If", ["c"], ["y"], **branches())], {"x": x}, ["y"], weights={"c": value})
    same(context, known, {"x": x})
    assert check(known, context).nodes[-1].op_type in ("Neg", "Abs", "If")
    unknown = model([node("If", ["c"], ["y"], **branches())], {"x": x, "c": (BOOL, [])}, ["y"])
    session = InferenceSession(unknown, context)
    np.testing.assert_array_equal(session.run(None, {"x": x, "c": value})[0], -x if condition else np.abs(x))
    assert "where" in {o for n in check(unknown, context).nodes for o in n.operators}


def test_if_with_branches_of_other_shapes_is_compiled_by_value(context: webnn_cl.MLContext) -> None:
    x = numbers(3)
    inputs = {"x": x, "c": (BOOL, [])}
    made = model([node("If", ["c"], ["y"], **branches(True))], inputs, ["y"], weights={"axes": np.array([0])})
    session = InferenceSession(made, context)
    for condition in (True, False, True):
        (y,) = session.run(None, {"x": x, "c": np.array(condition)})
        np.testing.assert_allclose(y, -x if condition else x.sum(keepdims=True), rtol=1e-6)
    computed = [node("ReduceMax", ["x"], ["m"], keepdims=0), node("Greater", ["m", "zero"], ["c"])]
    computed += [node("If", ["c"], ["y"], **branches(True))]
    weights = {"axes": np.array([0]), "zero": np.array(0, np.float32)}
    with pytest.raises(webnn_cl.NotSupportedError, match="must be known when the graph is built"):
        InferenceSession(model(computed, {"x": (FLOAT, [2000])}, ["y"], weights=weights), context)


def loop_body() -> onnx.GraphProto:
    nodes = [
        node("Identity", ["going"], ["go"]),
        node("Cast", ["i"], ["f"], to=FLOAT),
        node("Add", ["state", "f"], ["sum"]),
        node("Mul", ["sum", "x"], ["next"]),
        node("ReduceMean", ["next"], ["scan"], keepdims=0),
    ]
    inputs = [info("i", INT64, []), info("going", BOOL, []), info("state", FLOAT, [3])]
    return body(nodes, inputs, [info("go", BOOL, []), info("next", FLOAT, [3]), info("scan", FLOAT, [])])


def test_loops_with_known_trip_counts_are_unrolled(context: webnn_cl.MLContext) -> None:
    x, start = numbers(3), numbers(3, seed=1)
    going, outputs = np.array(True), ["y", "scans"]
    loop = node("Loop", ["n", "c", "s"], outputs, body=loop_body())
    made = model([loop], {"x": x, "s": start}, outputs, weights={"n": np.array(4), "c": going})
    same(context, made, {"x": x, "s": start})
    fed = model([loop], {"x": x, "s": start, "n": (INT64, [])}, outputs, weights={"c": going})
    session = InferenceSession(fed, context)
    for trips in (2, 4):
        feeds = {"x": x, "s": start, "n": np.array(trips)}
        for ours, theirs in zip(session.run(None, feeds), by_onnxruntime(fed, feeds), strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=1e-5)


def test_endless_loops_are_refused(context: webnn_cl.MLContext) -> None:
    loop = node("Loop", ["n", "c", "s"], ["y", "z"], body=loop_body())
    weights = {"n": np.array(10**9), "c": np.array(True)}
    made = model([loop], {"x": (FLOAT, [3]), "s": (FLOAT, [3])}, ["y"], weights=weights)
    with pytest.raises(webnn_cl.NotSupportedError, match="more than 1024 iterations"):
        InferenceSession(made, context)


def test_scan_over_other_axes_and_backwards(context: webnn_cl.MLContext) -> None:
    nodes = [node("Add", ["s", "e"], ["n"]), node("Mul", ["n", "e"], ["o"])]
    inner = body(nodes, [info("s", FLOAT, [2]), info("e", FLOAT, [2])], [info("n", FLOAT, [2]), info("o", FLOAT, [2])])
    x, start = numbers(2, 5), numbers(2, seed=1)
    attrs: dict[str, Any] = {"num_scan_inputs": 1, "body": inner, "scan_input_axes": [1], "scan_input_directions": [1]}
    attrs |= {"scan_output_axes": [1], "scan_output_directions": [1]}
    made = model([node("Scan", ["s0", "x"], ["f", "y"], **attrs)], {"s0": start, "x": x}, ["f", "y"])
    same(context, made, {"s0": start, "x": x})


def test_functions_with_attributes_are_inlined(context: webnn_cl.MLContext) -> None:
    leaky = node("LeakyRelu", ["a"], ["t"])
    leaky.attribute.add(name="alpha", ref_attr_name="slope", type=onnx.AttributeProto.FLOAT)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("local", 1)]
    inner = helper.make_function("local", "Inner", ["a"], ["b"], [leaky, node("Neg", ["t"], ["b"])], opsets, ["slope"])
    outer_node = node("Inner", ["p"], ["q"], domain="local", slope=0.3)
    outer = helper.make_function("local", "Outer", ["p"], ["r"], [outer_node, node("Exp", ["q"], ["r"])], opsets)
    x = numbers(4)
    call = node("Outer", ["x"], ["y"], domain="local")
    made = model([call], {"x": x}, ["y"], functions=[inner, outer], domains=["local"])
    (y,) = InferenceSession(made, context).run(None, {"x": x})
    np.testing.assert_allclose(y, np.exp(-np.where(x > 0, x, np.float32(0.3) * x)), rtol=1e-5)
    assert [n.op_type for n in check(made, context).nodes] == ["Outer", "Inner", "LeakyRelu", "Neg", "Exp"]


def test_sequences_never_reach_the_device(context: webnn_cl.MLContext) -> None:
    nodes = [
        node("SplitToSequence", ["x"], ["parts"], axis=0),
        node("SequenceAt", ["parts", "last"], ["z"]),
        node("SequenceInsert", ["parts", "z", "first"], ["more"]),
        node("SequenceErase", ["more", "second"], ["fewer"]),
        node("ConcatFromSequence", ["fewer"], ["y"], axis=0),
        node("SequenceLength", ["fewer"], ["n"]),
    ]
    weights = {"last": np.array(-1), "first": np.array(0), "second": np.array(1)}
    x = numbers(4, 2)
    session = InferenceSession(model(nodes, {"x": x}, ["y", "n"], weights=weights), context)
    y, n = session.run(None, {"x": x})
    np.testing.assert_array_equal(y, x[[3, 1, 2, 3]])
    assert n == 4


def test_fed_sequences(context: webnn_cl.MLContext) -> None:
    kind = helper.make_sequence_type_proto(helper.make_tensor_type_proto(TensorProto.FLOAT, None))
    made = model([node("ConcatFromSequence", ["s"], ["y"], axis=0)], {}, ["y"])
    made.graph.input.append(helper.make_value_info("s", kind))
    session = InferenceSession(made, context)
    assert session.get_inputs()[0].type == "seq(tensor(float))"
    for lengths in ((2, 3), (1, 1, 4)):
        items = [numbers(n, 2, seed=n) for n in lengths]
        np.testing.assert_array_equal(session.run(None, {"s": items})[0], np.concatenate(items))
    with pytest.raises(webnn_cl.MLTypeError, match="sequence of float32"):
        session.run(None, {"s": numbers(2)})
