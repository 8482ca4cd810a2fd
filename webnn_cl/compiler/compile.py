"""From a recorded graph to an executable: passes, lowering, kernels."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING

from webnn_cl.compiler.attention import join_attention
from webnn_cl.compiler.elementwise import lower_chain
from webnn_cl.compiler.executable import Executable
from webnn_cl.compiler.expand import expand_operators
from webnn_cl.compiler.fold import fold_constants
from webnn_cl.compiler.fuse import Step, fuse_elementwise
from webnn_cl.compiler.ir import Graph, Node
from webnn_cl.compiler.layout import to_channels_last
from webnn_cl.compiler.lower import Lowering
from webnn_cl.compiler.norm_patterns import recognize_normalizations
from webnn_cl.compiler.patterns import recognize
from webnn_cl.compiler.place import place_pieces, place_turned, read_by_chains
from webnn_cl.compiler.prologue import prologue_of
from webnn_cl.compiler.quantized import to_integer_products
from webnn_cl.compiler.simplify import simplify
from webnn_cl.compiler.sink import sink_views
from webnn_cl.compiler.tail import tail_of
from webnn_cl.ops.strided import affine_view
from webnn_cl.tuning.store import load, workload

if TYPE_CHECKING:
    from webnn_cl.context import MLContext

__all__ = ["compile_graph"]


def compile_graph(graph: Graph, context: MLContext) -> Executable:
    """Compile `graph` for the device of `context`; constants are uploaded and packed on its queue.

    Raises OperationError with operator, shapes and build log when the device refuses.
    """
    graph = recognize(recognize_normalizations(simplify(graph)))
    graph = sink_views(simplify(graph))
    graph = to_integer_products(simplify(to_channels_last(graph)), context)
    graph = sink_views(expand_operators(graph), expanded=True)
    graph = fold_constants(graph, context, partial(compile_and_prepare, last=False))
    return compile_and_prepare(join_attention(graph, context._facts), context)


def compile_and_prepare(
    graph: Graph, context: MLContext, forced: Mapping[str, str] | None = None, last: bool = True
) -> Executable:
    """Lower `graph` as it is, build its kernels, and fill its constants.

    `forced` names kernel variants by workload, in place of the device's tuning table. `last`: see Executable.prepare.
    """
    variants = load(context._facts) if forced is None else forced
    lowering = Lowering(graph, context._facts, lambda node: variants.get(workload(node)))
    steps = fuse_elementwise(graph)
    lowering.places = place_pieces(graph, steps, context._facts.is_cpu)
    lowering.places |= place_turned(graph, steps, context._facts.is_cpu, lowering.places)
    lowering.read_by_chains = read_by_chains(graph, steps)
    for step in steps:
        lower_step(step, lowering)
    executable = Executable(lowering.finish(), context, context._timeline.arena)
    executable.prepare(context, last)
    return executable


def lower_step(step: Step, lowering: Lowering) -> None:
    """Lower a node by its record, with or without an epilogue, or a chain on its own."""
    node, chain = step.node, step.chain
    if node is None:
        assert chain is not None
        lowering.at(chain.nodes[-1])
        lower_chain(chain, lowering)
        return
    place = lowering.places.get(node.output if chain is None else chain.output)
    if place is not None and "view" in node.op.meta:
        return
    before = prologue_of(step.before) if step.before is not None else None
    lowering.at(node, tail_of(node, chain, place), before)
    if chain is not None or not lower_view(node, lowering):
        assert node.op.lower is not None, node.op.name
        node.op.lower(node, lowering)


def lower_view(node: Node, lowering: Lowering) -> bool:
    """Make the output of a slice, transpose, reshape, ... a view, of what its input views already if strides can
    say it; False for other operators. Memory is shared where the view is packed, and copied where it is asked for.
    """
    if not (node.op.view or "view" in node.op.meta):
        return False
    (source,) = node.inputs.values()
    before = lowering.view_of(source)
    view = affine_view(node, before[1]) if before is not None else None
    if before is not None and view is not None:
        source = before[0]
    elif node.op.view:
        lowering.alias(node.output, source)
        return True
    else:
        view = affine_view(node)
    if view is None:
        return False
    if view.is_packed and node.output.desc.size == source.desc.size:
        lowering.alias(node.output, source)
    else:
        lowering.view(node.output, source, view)
    return True
