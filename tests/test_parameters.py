"""Parameters of all 95 operators: names and order, None as a missing option, sequences taken, wrong kinds refused."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import webnn_cl
from tests import harness, limit_cases, reference, spec
from tests.cases import Case

NAN, INF = float("nan"), float("inf")
OPERANDS = {role for operands in spec.OPERANDS.values() for role in operands}

# Parameter names by kind, over all operators, and values of the wrong kind for each.
KINDS: dict[str, tuple[str, list[Any]]] = {
    "int": (
        "axis groups steps hidden_size diagonal",
        [True, 1.0, "1", [1], (), 2**32, -(2**31) - 1, np.float32(1), np.bool_(True), object()],
    ),
    "splits": ("splits", [True, 1.0, "1", -1, 0, 2**32, [True], [1.0], ["1"], [-1], [], object()]),
    "list": (
        "padding strides dilations output_padding output_sizes window_dimensions axes new_shape starts sizes "
        "repetitions permutation beginning_padding ending_padding",
        [3, True, "ab", b"ab", [True], [1.0], ["1"], [-1], [2**32], [None], [[1]], {1: 1}, object()],
    ),
    "scales": ("scales", [2.0, "ab", [1.0], [1.0, True], [1.0, "2"], [1.0, NAN], [1.0, INF], [1.0, 0.0], [1.0, -1.0]]),
    "activations": ("activations", ["tanh", [], ["tanh"], ["tanh", "elu"], ["Tanh"] * 2, [1, 2], object()]),
    "float": ("alpha beta epsilon", [True, "1", [1.0], NAN, INF, -INF, 1j, np.bool_(False), object()]),
    "number": ("min_value max_value value", [True, "1", [1.0], 1j, object()]),
    "bool": (
        "keep_dimensions exclusive reversed a_transpose b_transpose reset_after return_sequence upper",
        [1, 0, 1.0, "true", [True], object()],
    ),
    "enum": (
        "mode layout input_layout filter_layout direction output_shape_rounding output_data_type data_type",
        ["", "NCHW", "bogus", 1, True, ["nchw"], object()],
    ),
}
WRONG = {name: values for names, values in KINDS.values() for name in names.split()}


def _case(op: str) -> Case:
    """A small valid call, of rank 2 where that is allowed (batchNormalization's default axis needs it)."""
    limits = next(iter(spec.OPERANDS[op].values()))
    rank = min(2, limits.ranks[1])
    tensors = ((case, next(iter(case.inputs.values()))) for case in limit_cases.accepted(op))
    return next(case for case, t in tensors if len((t[0] if isinstance(t, list) else t).shape) >= rank)


def _call(context: Any, op: str, changes: dict[str, Any], leave_out: str = "") -> Any:
    """The smallest valid call of an operator with some arguments replaced."""
    case = _case(op)
    builder = context.create_graph_builder()
    operands: dict[str, Any] = {}
    for role, given in case.inputs.items():
        tensors = list(given) if isinstance(given, (list, tuple)) else [given]
        made = [builder.input(f"{role} {i}", t.shape, t.data_type) for i, t in enumerate(tensors)]
        operands[role] = made if isinstance(given, (list, tuple)) else made[0]
    attrs = {name: value for name, value in {**case.attrs, **changes}.items() if name != leave_out}
    results = harness.call(builder, op, operands, attrs)
    return [(result.data_type, result.shape) for result in results]


def _parameters() -> Iterator[tuple[str, str]]:
    """(operator, parameter) for all that are not operands."""
    for op, model in sorted(reference.MODELS.items()):
        for name in (*model.positional, *model.optional):
            if name not in OPERANDS:
                yield op, name


@pytest.mark.parametrize("op", sorted(spec.OPERANDS))
def test_signature(op: str) -> None:
    parameters = list(inspect.signature(getattr(webnn_cl.MLGraphBuilder, op)).parameters.values())[1:]
    positional = [p.name for p in parameters if p.kind is not inspect.Parameter.KEYWORD_ONLY]
    keywords = {p.name for p in parameters if p.kind is inspect.Parameter.KEYWORD_ONLY}
    model = reference.MODELS[op]
    assert positional == list(model.positional)
    assert keywords == {*model.optional, "label"}
    assert all(p.default is inspect.Parameter.empty for p in parameters if p.name in positional)
    assert all(p.default is not inspect.Parameter.empty for p in parameters if p.name in keywords)
    assert getattr(webnn_cl.MLGraphBuilder, op).__doc__


@pytest.mark.parametrize(("op", "name"), _parameters())
def test_wrong_kinds_are_refused(op: str, name: str, context: Any) -> None:
    assert name in WRONG, "a parameter that no kind lists"
    accepted = []
    for value in WRONG[name]:
        if name == "diagonal" and value == 2**32:
            value = 2**31
        try:
            _call(context, op, {name: value, "label": "a label"})
        except webnn_cl.MLTypeError as error:
            assert "[a label]" in str(error) and name in str(error) and op in str(error), str(error)
        else:
            accepted.append(value)
    assert not accepted


@pytest.mark.parametrize(("op", "name"), [(op, n) for op, n in _parameters() if n in reference.MODELS[op].optional])
def test_none_is_a_missing_option(op: str, name: str, context: Any) -> None:
    def outcome(changes: dict[str, Any], leave_out: str = "") -> Any:
        try:
            return _call(context, op, changes, leave_out)
        except webnn_cl.MLTypeError as error:  # the default need not fit the other arguments of this call
            return str(error)

    assert outcome({name: None}) == outcome({}, leave_out=name)


@pytest.mark.parametrize("op", sorted(spec.OPERANDS))
def test_operands_must_be_operands(op: str, context: Any) -> None:
    for role, limits in spec.OPERANDS[op].items():
        for value in (1.0, "x", np.zeros(2, np.float32), object(), [], *(() if limits.optional else (None,))):
            with pytest.raises(webnn_cl.MLTypeError) as error:
                _call_with_operand(context, op, role, value)
            assert "[a label]" in str(error.value) and role in str(error.value)


def _call_with_operand(context: Any, op: str, role: str, value: Any) -> None:
    case = _case(op)
    builder = context.create_graph_builder()
    operands: dict[str, Any] = {}
    for name, given in case.inputs.items():
        first = given[0] if isinstance(given, list) else given
        made = builder.input(name, first.shape, first.data_type)
        operands[name] = [made] if isinstance(given, list) else made
    operands[role] = value
    harness.call(builder, op, operands, {**case.attrs, "label": "a label"})


@pytest.mark.parametrize("label", [None, 1, b"x", ["x"]])
def test_labels_are_text(label: Any, context: Any) -> None:
    for op in ("add", "conv2d", "split", "lstm"):
        with pytest.raises(webnn_cl.MLTypeError):
            _call(context, op, {"label": label})


def test_any_sequence_of_ints_will_do(context: Any) -> None:
    builder = context.create_graph_builder()
    x = builder.input("x", np.array([2, 3]))
    for shape in ((3, 2), [3, 2], np.array([3, 2]), np.array([3, 2], np.uint8), (np.int64(3), np.int8(2)), range(2, 4)):
        reshaped = builder.reshape(x, shape)
        assert reshaped.shape in ((3, 2), (2, 3))
        assert all(type(size) is int for size in reshaped.shape)
    assert builder.softmax(x, np.int32(1)).shape == (2, 3)
    assert builder.split(x, np.uint8(2))[0].shape == (1, 3)
    assert builder.elu(x, alpha=np.float32(0.5)).shape == (2, 3)
    assert builder.elu(x, alpha=2).shape == (2, 3)
    assert builder.reduce_sum(x, keep_dimensions=np.bool_(True)).shape == (1, 1)
    assert builder.cast(x, np.float16).data_type == builder.cast(x, np.dtype("float16")).data_type == "float16"
