"""What can be expressed of a model: how each node is, and everything that can't, at once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from webnn_cl.errors import NotSupportedError
from webnn_cl.onnx.feeds import feed_values, promotable
from webnn_cl.onnx.importer import Importer, NodeRecord
from webnn_cl.onnx.interface import Spec, fix_shapes, input_specs
from webnn_cl.onnx.loader import Model, ModelSource, load_model
from webnn_cl.onnx.weights import SketchedWeights

if TYPE_CHECKING:
    from webnn_cl.context import MLContext

__all__ = ["Report", "check", "not_supported"]


@dataclass(frozen=True)
class Report:
    """The import report of a model.

    `nodes` tells for each node how it is expressed: ``direct`` (one WebNN operator), ``composed`` (several), ``folded``
    (on the host), ``inlined`` (by the function that defines it), ``by value`` (compiled again for each value of a small
    input), ``refused`` or ``skipped`` (it depends on a refused one). `assumed` are the sizes that free dimensions were
    given for the check, `notices` what changes precision.
    """

    nodes: tuple[NodeRecord, ...]
    notices: tuple[str, ...] = ()
    assumed: Mapping[str, int] | None = None

    @property
    def unsupported(self) -> tuple[NodeRecord, ...]:
        """The nodes that can't be expressed, with the reason."""
        return tuple(n for n in self.nodes if n.how == "refused")

    @property
    def ok(self) -> bool:
        """Whether the model can be run."""
        return not self.unsupported

    def __str__(self) -> str:
        lines = [_line(n) for n in self.nodes]
        if self.assumed:
            sizes = ", ".join(f"{name}={size}" for name, size in self.assumed.items())
            lines.append(f"assumed sizes of free dimensions: {sizes}")
        lines += [f"notice: {text}" for text in self.notices]
        counts = Counter(n.how for n in self.nodes)
        summary = ", ".join(f"{count} {how}" for how, count in sorted(counts.items())) or "no nodes"
        verdict = "can be expressed" if self.ok else f"can't be expressed: {len(self.unsupported)} unsupported nodes"
        return "\n".join([*lines, f"{len(self.nodes)} nodes ({summary}): {verdict}"])


def _line(node: NodeRecord) -> str:
    what = f"{node.domain}.{node.op_type}" if node.domain else node.op_type
    if node.reason:
        return f"{node.how:9} {what:24} {node.name}: {node.reason}"
    used = Counter(node.operators)
    made = ", ".join(f"{count} {name}" if count > 1 else name for name, count in used.items())
    return f"{node.how:9} {what:24} {node.name}" + (f": {made}" if made else "")


def not_supported(refusals: Sequence[NodeRecord]) -> NotSupportedError:
    """The error that lists every node that can't be expressed."""
    lines = [f"  {r.name} ({r.op_type}): {r.reason}" for r in refusals]
    what = "1 node" if len(lines) == 1 else f"{len(lines)} nodes"
    return NotSupportedError("\n".join([f"the model can't be expressed with WebNN operators, for {what}:", *lines]))


def check(
    model: ModelSource,
    context: MLContext | None = None,
    *,
    free_dimensions: Mapping[str, int] | None = None,
    input_shapes: Mapping[str, Sequence[int]] | None = None,
) -> Report:
    """Tell how each node of `model` would be expressed, without building or uploading anything.

    `model` is a path, bytes or an onnx.ModelProto; `context` (by default one on the default device) decides the largest
    tensor. Free dimensions that are not given are assumed to be 1 in front and 64 elsewhere. Raises NotSupportedError
    when the file is no ONNX model, MLTypeError for names that the model lacks.
    """
    loaded = load_model(model)
    specs = fix_shapes(input_specs(loaded), free_dimensions or {}, input_shapes or {})
    if context is not None:
        return _check(loaded, specs, context)
    import webnn_cl

    with webnn_cl.ML().create_context() as own:
        return _check(loaded, specs, own)


def _check(model: Model, specs: Mapping[str, Spec], context: MLContext) -> Report:
    assumed: dict[str, int] = {}
    shapes = {name: _assume(spec, assumed) for name, spec in specs.items()}
    values: dict[str, Any] = {}
    with context.create_graph_builder() as builder:
        importer = Importer(model, builder, SketchedWeights())
        importer.run(feed_values(builder, specs, shapes, values))
    small = {name for name, shape in shapes.items() if promotable(shape)}
    nodes = tuple(_by_value(r, small) for r in importer.records)
    return Report(nodes, tuple(importer.notices), assumed)


def _assume(spec: Spec, assumed: dict[str, int]) -> tuple[int, ...]:
    dims: list[int] = []
    for axis, dim in enumerate(spec.dims or ()):
        if isinstance(dim, int):
            dims.append(dim)
        else:
            dims.append(assumed.setdefault(dim or f"{spec.name}[{axis}]", 1 if axis == 0 else 64))
    return tuple(dims)


def _by_value(record: NodeRecord, small: set[str]) -> NodeRecord:
    """A node that only lacks the value of small inputs is compiled for each value of them."""
    if record.how != "refused" or not record.needs or not record.needs <= small:
        return record
    reason = f"compiled for each value of {', '.join(sorted(record.needs))}"
    return NodeRecord(record.name, record.op_type, record.domain, "by value", record.operators, reason)
