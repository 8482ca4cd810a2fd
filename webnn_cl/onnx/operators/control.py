"""If, Loop, Scan: conditions and trip counts that are known are followed, loops are unrolled."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from webnn_cl.onnx.elements import numpy_type
from webnn_cl.onnx.operators.common import reshape, slice_axis, stack
from webnn_cl.onnx.registry import op
from webnn_cl.onnx.values import Known, NeedsValue, Poison, Tensor, Value

if TYPE_CHECKING:
    from collections.abc import Sequence

    from webnn_cl.onnx.call import Call

__all__: list[str] = []

MAX_TRIPS = 1024


def _run(c: Call, name: str, inputs: Sequence[Value]) -> list[Value]:
    """Run a subgraph of this node; its refusals are recorded one by one, so the node itself is only skipped."""
    return c.importer.run_subgraph(c.node.attrs[name], c.scope, inputs, f"{c.node.title}.{name}")


@op("If")
def if_(c: Call) -> list[Value]:
    condition = c.peek(0)
    if condition is not None:
        return _run(c, "then_branch" if bool(condition.reshape(-1)[0]) else "else_branch", [])
    yes, no = _run(c, "then_branch", []), _run(c, "else_branch", [])
    return [_select(c, a, b) for a, b in zip(yes, no, strict=True)]


def _select(c: Call, yes: Value, no: Value) -> Value:
    """Both branches are computed, and the condition picks; their types and shapes have to agree."""
    if isinstance(yes, Poison) or isinstance(no, Poison):
        return Poison()
    tensors = isinstance(yes, (Known, Tensor)) and isinstance(no, (Known, Tensor))
    if not tensors or yes.dtype != no.dtype or yes.shape != no.shape:  # type: ignore[union-attr]
        reason = "the branches differ in type or shape, so the condition must be known when the graph is built"
        raise NeedsValue(reason, c.sources())
    assert isinstance(yes, (Known, Tensor)) and isinstance(no, (Known, Tensor))
    sources = c.sources()
    for value in (yes, no):
        sources |= value.sources if isinstance(value, Tensor) else frozenset()
    operand = c.b.where(reshape(c, c.x(0), ()), c.lift(yes), c.lift(no))
    return Tensor(operand, yes.dtype, sources)


@op("Loop")
def loop(c: Call) -> list[Value]:
    """Unrolled: the trip count and each condition have to be known."""
    trips = int(c.known(0, "the trip count").reshape(-1)[0]) if c.has(0) else None
    going = bool(c.known(1, "the condition").reshape(-1)[0]) if c.has(1) else True
    carried = [c.importer.given(v) for v in c.inputs[2:]]
    body = c.node.attrs["body"]
    scans: list[list[Value]] = [[] for _ in range(len(body.output) - 1 - len(carried))]
    trip = 0
    while going and (trips is None or trip < trips):
        if trip >= MAX_TRIPS:
            c.refuse(f"more than {MAX_TRIPS} iterations")
        results = _run(c, "body", [Known(np.array(trip, np.int64)), Known(np.array(going)), *carried])
        carried, tail = results[1 : 1 + len(carried)], results[1 + len(carried) :]
        for scan, value in zip(scans, tail, strict=True):
            scan.append(value)
        going = _condition(c, results[0])
        trip += 1
    return [*carried, *(_stacked(c, scan, body, i) for i, scan in enumerate(scans, 1 + len(carried)))]


def _condition(c: Call, value: Value) -> bool:
    if isinstance(value, Known):
        return bool(value.array.reshape(-1)[0])
    if isinstance(value, Poison):
        return False
    sources = value.sources if isinstance(value, Tensor) else frozenset()
    raise NeedsValue("the loop's condition is computed on the device", sources)


def _stacked(c: Call, values: list[Value], body: Any, index: int) -> Value:
    """Scan outputs of all iterations along a new first axis."""
    if any(isinstance(v, Poison) for v in values):
        return Poison()
    if not values:
        return _empty_scan(c, body, index)
    if all(isinstance(v, Known) for v in values):
        return Known(np.stack([v.array for v in values if isinstance(v, Known)]))
    tensors = [v for v in values if isinstance(v, (Known, Tensor))]
    if len({v.shape for v in tensors}) > 1 or len(tensors) < len(values):
        c.refuse("a scan output changes its shape")
    sources: frozenset[str] = c.sources().union(*(v.sources for v in tensors if isinstance(v, Tensor)))
    return Tensor(stack(c, [c.lift(v) for v in tensors], 0), tensors[0].dtype, sources)


def _empty_scan(c: Call, body: Any, index: int) -> Value:
    from webnn_cl.onnx.elements import name_of_elem

    kind = body.output[index].type.tensor_type
    dims = [d.dim_value if d.HasField("dim_value") else -1 for d in kind.shape.dim]
    if -1 in dims:
        c.refuse("no iteration runs, and the shape of a scan output is not declared")
    return Known(np.zeros([0, *dims], numpy_type(name_of_elem(kind.elem_type))))


@op("Scan")
def scan(c: Call) -> list[Value]:
    """One iteration per slice of the scanned inputs; operator set 8 also had a batch axis."""
    if c.version < 9:
        return _scan_8(c)
    body, count = c.node.attrs["body"], c.integer("num_scan_inputs")
    states = [c.importer.given(v) for v in c.inputs[: len(c.inputs) - count]]
    scanned = [c.value(i) for i in range(len(states), len(c.inputs))]
    axes = c.integers("scan_input_axes") or [0] * count
    turned = c.integers("scan_input_directions") or [0] * count
    axes = [c.axis(a, len(v.shape)) for a, v in zip(axes, scanned, strict=True)]
    return _scan(c, body, states, scanned, axes, turned)


def _scan(
    c: Call,
    body: Any,
    states: list[Value],
    scanned: Sequence[Known | Tensor],
    axes: Sequence[int],
    turned: Sequence[int],
) -> list[Value]:
    lengths = {v.shape[a] for v, a in zip(scanned, axes, strict=True)}
    if len(lengths) != 1 or max(lengths) > MAX_TRIPS:
        c.refuse(f"scanned lengths {sorted(lengths)}; one length of at most {MAX_TRIPS} is expressed")
    length = lengths.pop()
    outs: list[list[Value]] = [[] for _ in range(len(body.output) - len(states))]
    for t in range(length):
        slices = [_slice(c, v, a, length - 1 - t if d else t) for v, a, d in zip(scanned, axes, turned, strict=True)]
        results = _run(c, "body", [*states, *slices])
        states, tail = results[: len(states)], results[len(states) :]
        for out, value in zip(outs, tail, strict=True):
            out.append(value)
    out_turned = c.integers("scan_output_directions") or [0] * len(outs)
    out_axes = c.integers("scan_output_axes") or [0] * len(outs)
    stacked = []
    for i, out in enumerate(outs):
        value = _stacked(c, out[::-1] if out_turned[i] else out, body, len(states) + i)
        stacked.append(_moved(c, value, out_axes[i]))
    return [*states, *stacked]


def _slice(c: Call, value: Known | Tensor, axis: int, at: int) -> Value:
    if isinstance(value, Known):
        return Known(np.take(value.array, at, axis=axis))
    part = slice_axis(c, value.operand, axis, at, 1)
    shape = (*value.shape[:axis], *value.shape[axis + 1 :])
    return Tensor(reshape(c, part, shape), value.dtype, value.sources)


def _moved(c: Call, value: Value, axis: int) -> Value:
    """The first axis moved to `axis`."""
    if not isinstance(value, (Known, Tensor)):
        return value
    axis = c.axis(axis, len(value.shape))
    if axis == 0:
        return value
    if isinstance(value, Known):
        return Known(np.moveaxis(value.array, 0, axis))
    rest = list(range(1, len(value.shape)))
    order = [*rest[:axis], 0, *rest[axis:]]
    return Tensor(c.b.transpose(value.operand, permutation=order), value.dtype, value.sources)


def _scan_8(c: Call) -> list[Value]:
    """Operator set 8: a batch axis in front of everything; a batch of one is expressed."""
    if c.has(0):
        c.refuse("sequence_lens")
    body, count = c.node.attrs["body"], c.integer("num_scan_inputs")
    given = [c.value(i) for i in range(1, len(c.inputs))]
    if any(v.shape[0] != 1 for v in given):
        c.refuse("a batch of more than one in operator set 8")
    inner = [_slice(c, v, 0, 0) for v in given]
    states = inner[: len(inner) - count]
    scanned = [v for v in inner[len(inner) - count :] if isinstance(v, (Known, Tensor))]
    results = _scan(c, body, states, scanned, [0] * count, c.integers("directions") or [0] * count)
    return [_with_batch(c, r) for r in results]


def _with_batch(c: Call, value: Value) -> Value:
    if isinstance(value, Known):
        return Known(value.array[None])
    if isinstance(value, Tensor):
        return Tensor(reshape(c, value.operand, (1, *value.shape)), value.dtype, value.sources)
    return value
