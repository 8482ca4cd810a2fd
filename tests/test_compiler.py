"""Compiler passes: what they join, and that results stay those of the reference."""

from __future__ import annotations

import random
import re
from pathlib import Path

import numpy as np
import pytest

import kernels_cl
from tests.numpy_builder import check_graph
from webnn_cl.compiler.ir import TensorDesc, Value
from webnn_cl.compiler.kernel import Kernel, program_source
from webnn_cl.compiler.lower import Buffer, Launch
from webnn_cl.compiler.plan_memory import plan_memory

RNG = np.random.default_rng(11)


def floats(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


# Elementwise chains -------------------------------------------------------------------------------------------


def test_a_chain_is_one_kernel(context):
    def build(b):
        x, y = b.input("x", (5, 33)), b.input("y", (33,))
        return {"z": b.sigmoid(b.mul(b.add(b.relu(x), y), b.constant(2.0, data_type="float32")))}

    graph = check_graph(context, build, {"x": floats(5, 33), "y": floats(33)})
    assert graph._executable.kernel_count == 1


def test_a_value_that_two_chains_need_is_computed_once(context):
    def build(b):
        x = b.exp(b.input("x", (40,)))
        return {"a": b.neg(x), "b": b.reduce_sum(x), "x": x}

    graph = check_graph(context, build, {"x": floats(40)})
    assert graph._executable.kernel_count == 3


def test_broadcast_of_an_intermediate_is_not_recomputed(context):
    def build(b):
        small = b.exp(b.input("s", (1, 17)))
        return {"y": b.mul(b.input("x", (30, 17)), small)}

    check_graph(context, build, {"s": floats(1, 17), "x": floats(30, 17)})


def test_other_parameters_and_shapes_make_no_other_kernel(context):
    from webnn_cl.opencl.program import STATS

    def run(alpha, shape):
        b = context.create_graph_builder()
        graph = b.build({"y": b.linear(b.input("x", shape), alpha=alpha, beta=-alpha)})
        x = floats(*shape)
        np.testing.assert_allclose(context.compute(graph, {"x": x})["y"], alpha * x - alpha, rtol=1e-5, atol=1e-6)

    run(1.5, (3, 4))
    built = STATS.kernels_built
    run(2.5, (7, 9, 2))
    run(-1.0, ())
    assert STATS.kernels_built == built


def test_in_place_chains_over_one_tensor(context):
    """Memory is taken over only where no other element is read."""

    def build(b):
        x = b.relu(b.matmul(b.input("x", (16, 16)), b.input("w", (16, 16))))
        turned = b.transpose(x)
        y = b.add(x, turned)
        return {"y": b.matmul(b.add(y, b.reverse(y)), x)}

    check_graph(context, build, {"x": floats(16, 16), "w": floats(16, 16)})


# Epilogues ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(1,), (19,), (13, 1), (13, 19), ()])
def test_matmul_takes_the_chain_behind_it(context, shape):
    def build(b):
        product = b.matmul(b.input("x", (13, 24)), b.constant(WEIGHTS))
        return {"y": b.relu(b.add(product, b.input("c", shape)))}

    graph = check_graph(context, build, {"x": floats(13, 24), "c": floats(*shape)})
    assert graph._executable.kernel_count <= 2


WEIGHTS = floats(24, 19)


@pytest.mark.parametrize("layout", ["nchw", "nhwc"])
def test_convolution_takes_bias_activation_and_residual(context, layout):
    shape = (1, 6, 10, 11) if layout == "nchw" else (1, 10, 11, 6)
    filter, bias = floats(6, 6, 3, 3), floats(6)

    def build(b):
        x = b.input("x", shape)
        y = b.conv2d(x, b.constant(filter), bias=b.constant(bias), padding=[1, 1, 1, 1], input_layout=layout)
        return {"y": b.hard_swish(b.add(y, x))}

    check_graph(context, build, {"x": floats(*shape)})


def test_the_later_producer_takes_the_chain(context):
    def build(b):
        x, w = b.input("x", (9, 8)), b.constant(floats_of_8)
        return {"y": b.tanh(b.add(b.matmul(x, w), b.matmul(b.relu(x), w)))}

    check_graph(context, build, {"x": floats(9, 8)})


floats_of_8 = floats(8, 8)


# Views ----------------------------------------------------------------------------------------------------------


def test_views_are_read_where_they_lie(context):
    def build(b):
        x = b.input("x", (6, 32))
        left, right = b.slice(x, [0, 0], [6, 16]), b.slice(x, [0, 16], [6, 16])
        return {"y": b.mul(left, b.sigmoid(right))}

    graph = check_graph(context, build, {"x": floats(6, 32)})
    assert graph._executable.kernel_count == 1


def test_transposes_that_cancel_cost_nothing(context):
    def build(b):
        x = b.relu(b.input("x", (2, 3, 4, 5)))
        there = b.transpose(x, permutation=[0, 2, 3, 1])
        return {"y": b.neg(b.transpose(there, permutation=[0, 3, 1, 2]))}

    graph = check_graph(context, build, {"x": floats(2, 3, 4, 5)})
    assert graph._executable.kernel_count == 1


def test_views_as_outputs_and_for_several_readers(context):
    def build(b):
        x = b.input("x", (4, 6))
        t = b.transpose(x)
        r = b.reshape(t, (3, 8))
        return {"t": t, "r": r, "s": b.slice(r, [1, 2], [2, 5]), "e": b.expand(b.slice(x, [0, 0], [1, 6]), (5, 6)),
                "m": b.matmul(t, x), "v": b.reverse(x)}  # fmt: skip

    check_graph(context, build, {"x": floats(4, 6)})


def test_outputs_that_share_memory_in_the_graph_do_not_outside(context):
    def build(b):
        x = b.input("x", (4, 6))
        y = b.relu(x)
        return {"a": y, "b": b.reshape(y, (24,)), "c": b.reshape(x, (6, 4)), "d": b.identity(x), "e": y}

    check_graph(context, build, {"x": floats(4, 6)})


# Simplification and patterns ------------------------------------------------------------------------------------


def test_equal_nodes_are_computed_once(context):
    def build(b):
        x = b.input("x", (50,))
        one, two = b.reduce_sum(b.exp(x)), b.reduce_sum(b.exp(x))
        return {"y": b.mul(one, two)}

    graph = check_graph(context, build, {"x": floats(50)})
    single = check_graph(context, lambda b: {"y": b.reduce_sum(b.exp(b.input("x", (50,))))}, {"x": floats(50)})
    assert graph._executable.kernel_count <= single._executable.kernel_count + 1 < 4


@pytest.mark.parametrize("kind", ["conv2d", "conv_transpose2d"])
@pytest.mark.parametrize("options", [{}, {"bias": True, "scale": True, "shift": True}])
def test_batch_normalization_joins_its_convolution(context, kind, options):
    mean, variance, scale, shift, bias = (floats(5) for _ in range(5))
    filter = floats(5, 3, 3, 3) if kind == "conv2d" else floats(3, 5, 3, 3)

    def build(b):
        extra = {"bias": b.constant(bias)} if options else {}
        y = getattr(b, kind)(b.input("x", (2, 3, 8, 9)), b.constant(filter), **extra)
        more = {"scale": b.constant(scale), "bias": b.constant(shift)} if options else {}
        return {"y": b.batch_normalization(y, b.constant(mean), b.constant(np.abs(variance) + 0.5), **more)}

    graph = check_graph(context, build, {"x": floats(2, 3, 8, 9)})
    bare = check_graph(
        context, lambda b: {"y": getattr(b, kind)(b.input("x", (2, 3, 8, 9)), b.constant(filter))},
        {"x": floats(2, 3, 8, 9)},
    )  # fmt: skip
    assert graph._executable.kernel_count == bare._executable.kernel_count


def test_spelled_out_layer_normalization_is_one_kernel(context):
    gamma, beta = floats(48), floats(48)

    def build(b):
        x = b.input("x", (7, 48))
        d = b.sub(x, b.reduce_mean(x, axes=[1], keep_dimensions=True))
        v = b.reduce_mean(b.pow(d, b.constant(2.0, data_type="float32")), axes=[1], keep_dimensions=True)
        n = b.div(d, b.sqrt(b.add(v, b.constant(1e-5, data_type="float32"))))
        return {"y": b.add(b.mul(n, b.constant(gamma)), b.constant(beta))}

    graph = check_graph(context, build, {"x": floats(7, 48)})
    assert graph._executable.kernel_count == 1


def test_spelled_out_softmax_is_one_kernel(context):
    def build(b):
        x = b.input("x", (7, 48))
        e = b.exp(b.sub(x, b.reduce_max(x, axes=[1], keep_dimensions=True)))
        return {"y": b.div(e, b.reduce_sum(e, axes=[1], keep_dimensions=True))}

    graph = check_graph(context, build, {"x": 30 * floats(7, 48)})
    assert graph._executable.kernel_count == 1


def test_patterns_leave_what_is_needed_elsewhere(context):
    def build(b):
        x = b.input("x", (7, 48))
        e = b.exp(b.sub(x, b.reduce_max(x, axes=[1], keep_dimensions=True)))
        s = b.mul(x, x)
        return {"y": b.div(e, b.reduce_sum(e, axes=[1], keep_dimensions=True)), "e": e, "s": s, "r": b.reduce_sum(s)}

    check_graph(context, build, {"x": floats(7, 48)})


def test_constants_fold_on_the_device(context):
    w = floats(20, 20)

    def build(b):
        c = b.constant(w)
        folded = b.relu(b.matmul(c, b.transpose(c)))
        return {"y": b.add(b.input("x", (20, 20)), folded), "c": folded}

    graph = check_graph(context, build, {"x": floats(20, 20)})
    assert graph._executable.kernel_count == 1


def test_graphs_over_the_same_constant_tensors_share_what_is_folded_and_packed(context):
    from webnn_cl.opencl.memory import live_bytes

    weights = context.create_constant_tensor(floats(8, 8, 3, 3))
    scale, mean = floats(8), floats(8)

    def build(size):
        b = context.create_graph_builder()
        y = b.conv2d(b.input("x", (1, 8, size, size)), b.constant(weights))
        stats = b.constant(mean), b.constant(np.abs(scale) + 1)
        graph = b.build({"y": b.batch_normalization(y, *stats)})
        return graph, {c.args[1].constant for c in graph._executable.commands if c.args[1].kind == "constant"}

    first, constants = build(20)
    before = live_bytes()
    second, again = build(20)
    assert constants and constants == again
    assert live_bytes() - before < 4096
    assert first is not second


# Layout ---------------------------------------------------------------------------------------------------------


def test_a_channels_first_network_has_transposes_only_at_its_borders(context):
    w1, w2, w3, b1 = floats(8, 3, 3, 3), floats(8, 1, 3, 3), floats(16, 8, 1, 1), floats(8)

    def build(b):
        x = b.input("x", (2, 3, 16, 18))
        y = b.relu(b.conv2d(x, b.constant(w1), bias=b.constant(b1), padding=[1, 1, 1, 1], strides=[2, 2]))
        d = b.conv2d(y, b.constant(w2), padding=[1, 1, 1, 1], groups=8)
        gate = b.hard_sigmoid(b.average_pool2d(d))
        y = b.add(b.mul(d, gate), y)
        y = b.conv2d(b.max_pool2d(y, window_dimensions=[2, 2], strides=[2, 2]), b.constant(w3))
        y = b.concat([y, b.relu(y)], 1)
        y = b.resample2d(y, sizes=[9, 11], mode="linear")
        y = b.pad(y, [0, 0, 1, 2], [0, 1, 0, 1], mode="constant", value=0.5)
        a, c = b.split(y, [13, 20], axis=1)
        y = b.softmax(b.slice(c, [0, 1, 2, 1], [2, 9, 7, 8], strides=[1, 2, 1, 3]), 1)
        flat = b.reshape(b.reduce_mean(a, axes=[2, 3], keep_dimensions=True), (2, 13))
        rows = b.transpose(b.reshape(a, (2, 13, 140)), permutation=[0, 2, 1])
        sums, mixed = b.reduce_sum(a, axes=[2, 3]), b.reduce_sum(a, axes=[1])
        return {"y": y, "flat": flat, "rows": rows, "sums": sums, "mixed": mixed}

    graph = check_graph(context, build, {"x": floats(2, 3, 16, 18)})
    copies = [c for c in graph._executable.commands if isinstance(c, Launch) and c.kernel.template == "strided.cl"]
    assert len(copies) <= 4


def test_operands_of_lower_rank_follow_into_channels_last(context):
    w, scale = floats(4, 4, 3, 3), floats(4, 1, 1)

    def build(b):
        x = b.conv2d(b.input("x", (1, 4, 9, 9)), b.constant(w))
        y = b.add(b.mul(x, b.constant(scale)), b.input("r", (7, 7)))
        return {"y": b.conv2d(b.prelu(y, b.input("p", (4, 1, 1))), b.constant(w))}

    check_graph(context, build, {"x": floats(1, 4, 9, 9), "r": floats(7, 7), "p": floats(4, 1, 1)})


# Memory ---------------------------------------------------------------------------------------------------------


def make_commands(count: int, seed: int) -> list[Launch]:
    generator = random.Random(seed)
    kernel = Kernel("strided.cl", "strided_rows", {"E": "uint"})
    live: list[Buffer] = []
    commands = []
    for _ in range(count):
        out = Buffer("temporary", generator.choice([1, 100, 4096, 4096, 70000]))
        reads = generator.sample(live, min(len(live), generator.randint(0, 3)))
        pairs = tuple((r, out) for r in reads[:1] if generator.random() < 0.5)
        commands.append(Launch(kernel, (*reads, out), (1,), (1,), None, pairs))
        live = [b for b in live if generator.random() < 0.8] + [out]
    return commands


@pytest.mark.parametrize("seed", range(20))
def test_memory_plan_never_overlaps_live_buffers(seed):
    commands = make_commands(60, seed)
    plan = plan_memory(commands, 128, 1 << 40)
    uses: dict[Buffer, list[int]] = {}
    for index, command in enumerate(commands):
        for buffer in command.buffers():
            uses.setdefault(buffer, []).append(index)
    allowed = {(a, b) for c in commands for a, b in c.in_place}
    items = list(uses)
    for a in items:
        assert plan.slots[a].offset % 128 == 0 and plan.slots[a].nbytes >= a.nbytes
        for b in items:
            if a is b or plan.slots[a].page != plan.slots[b].page:
                continue
            together = uses[a][0] <= uses[b][-1] and uses[b][0] <= uses[a][-1]
            sa, sb = plan.slots[a], plan.slots[b]
            if together and sa.offset < sb.offset + sb.nbytes and sb.offset < sa.offset + sa.nbytes:
                first, second = (a, b) if uses[a][0] < uses[b][0] else (b, a)
                # Only in place: the operand dies in the launch that makes the result.
                assert (first, second) in allowed and uses[first][-1] == uses[second][0]
    assert plan.peak_live_bytes <= sum(plan.pages)


def test_memory_plan_spills_to_pages():
    kernel = Kernel("strided.cl", "strided_rows", {"E": "uint"})
    buffers = [Buffer("temporary", 1000) for _ in range(5)]
    plan = plan_memory([Launch(kernel, tuple(buffers), (1,), (1,), None)], 64, 2100)
    assert len(plan.pages) == 3 and max(plan.pages) <= 2100


def test_a_long_chain_needs_little_memory(context):
    b = context.create_graph_builder()
    x = b.input("x", (64, 64))
    for _ in range(20):
        x = b.matmul(b.softmax(x, 1), x)
    graph = b.build({"y": b.identity(x)})
    assert graph._executable.arena_bytes <= 1.15 * graph._executable.peak_live_bytes + 1024


# Kernels --------------------------------------------------------------------------------------------------------


def test_programs_do_not_depend_on_order():
    a = Kernel("strided.cl", "strided_rows", {"E": "uint"}, headers=("move.h",))
    b = Kernel("strided.cl", "strided_rows", {"E": "uchar"}, headers=("move.h",))
    assert a != b and a.name != b.name
    assert program_source([a, b]) == program_source([b, a, b])
    assert Kernel("strided.cl", "strided_rows", {"E": "uint"}, headers=("move.h",)) == a


def test_values_are_compared_by_identity():
    desc = TensorDesc("float32", (2, 3))
    assert desc == TensorDesc("float32", (2, 3)) and (desc.size, desc.nbytes, desc.rank) == (6, 24, 2)
    assert Value(desc) != Value(desc)


def test_no_template_takes_a_macro_from_a_header():
    """Macros end with a template; one that a header defines too would be gone for those that come after."""
    from importlib.resources import files

    import kernels_cl
    from webnn_cl.compiler.kernel import _DEFINE

    names = [f.name for f in files(kernels_cl).iterdir()]
    headers = {n: kernels_cl.read(n) for n in names if n.endswith(".h")}
    shared = {m: n for n, text in headers.items() for m in _DEFINE.findall(text) if f"#undef {m}\n" not in text}
    clashes = {
        (name, macro, shared[macro])
        for name in names
        if name.endswith(".cl")
        for macro in _DEFINE.findall(kernels_cl.read(name))
        if macro in shared
    }
    assert not clashes


def test_every_kernel_of_every_template_can_be_asked_for_alone() -> None:
    for path in sorted(Path(kernels_cl.__file__).parent.glob("*.cl")):
        names = re.findall(r"^kernel\b[^(;{}]*?\b(\w+)\s*\(", path.read_text(), re.MULTILINE)
        for name in names:
            text = Kernel(path.name, name).source()
            assert re.findall(r"^kernel\b[^(;{}]*?\b(\w+)\s*\(", text, re.MULTILINE) == [name]
            opened, closed = (re.findall(rf"^\s*#\s*{word}", text, re.MULTILINE) for word in ("if", "endif"))
            assert len(opened) == len(closed)
