"""Element-wise chains: C text of a chain of expressions, and its lowering to one kernel launch."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from webnn_cl.compiler.elementwise_items import launch_items
from webnn_cl.compiler.ir import Node, Value
from webnn_cl.compiler.kernel import Kernel
from webnn_cl.compiler.lower import dims
from webnn_cl.compiler.stages import strips
from webnn_cl.dtypes import dtype_of
from webnn_cl.ops.strided import View

if TYPE_CHECKING:
    from webnn_cl.compiler.lower import Arg, Lowering
    from webnn_cl.compiler.tail import Place

__all__ = ["Chain", "chain_text", "lower_chain"]

LANES = 8
# Chains are put into kernels with variables of their own.
PREFIX = "k_"
# Elements of a work-item, and work-items for a core (so that a busy core doesn't hold up the rest).
MIN_RUN, MAX_RUN = 512, 8192
ITEMS_PER_UNIT = 4


@dataclass
class ChainText:
    """C statements of a chain, its scalar parameters (name, value), and the values it reads.

    `types` has the C type of each variable that the statements declare. `cuts` are the positions in `statements`
    where a stage may end.
    """

    statements: list[str] = field(default_factory=list)
    types: dict[str, str] = field(default_factory=dict)
    cuts: list[int] = field(default_factory=list)
    inputs: list[Value] = field(default_factory=list)
    parameters: list[tuple[str, str, np.generic]] = field(default_factory=list)
    names: dict[Value, str] = field(default_factory=dict)
    code: dict[str, None] = field(default_factory=dict)


class Chain:
    """Element-wise nodes in topological order that become one kernel; only the last one's output is stored."""

    def __init__(self, nodes: Sequence[Node]) -> None:
        self.nodes = list(nodes)

    @property
    def output(self) -> Value:
        return self.nodes[-1].output


def chain_text(nodes: Sequence[Node], width: int, given: dict[Value, str] | None = None) -> ChainText:
    """The statements that compute the last node's output into ``result``.

    `given` names values that exist already (a kernel's accumulator, for an epilogue). Scalar constants known on
    the host become parameters, so that their values don't make another kernel.
    """
    text = ChainText(names=dict(given or {}))
    for index, node in enumerate(nodes):
        variables = {role: _operand(text, value, width) for role, value in node.inputs.items()}
        expression = node.op.expression
        assert expression is not None
        if expression.code:
            text.code[expression.code(node, width)] = None
        first = next(iter(node.inputs.values())).data_type
        for name in expression.params:
            variables[name] = _parameter(text, node.attrs[name], first)
        dtype = dtype_of(node.output.data_type)
        variables["t"] = f"{PREFIX}t{index}_"
        lanes = dtype_of(first).compute + (str(width) if width > 1 else "")
        for statement in expression.render_before(node, variables, width):
            text.statements.append(statement)
            text.cuts.append(len(text.statements))
            text.types.update((name, lanes) for name in re.findall(rf"\b{variables['t']}\w+", statement))
        value = expression.render(node, variables, width)
        last = index == len(nodes) - 1
        if dtype.name == "float16" and not last:
            value = f"ROUND{width}(half, {value})"
        name = "result" if last else f"{PREFIX}v{index}"
        kind = "" if last else dtype.compute + (str(width) if width > 1 else "") + " "
        text.statements.append(f"{kind}{name} = {value};")
        if kind:
            text.types[name] = kind.strip()
        text.names[node.output] = name
    return text


def _operand(text: ChainText, value: Value, width: int) -> str:
    name = text.names.get(value)
    if name is None:
        scalar = value.scalar
        if scalar is not None:
            # Helpers reinterpret their operands (as_uint8), which takes a vector.
            kind = dtype_of(value.data_type).compute + (str(width) if width > 1 else "")
            name = f"(({kind})({_parameter(text, scalar, value.data_type)}))"
        else:
            name = f"{PREFIX}x{len(text.inputs)}"
            text.inputs.append(value)
        text.names[value] = name
    return name


def _parameter(text: ChainText, value: int | float, data_type: str) -> str:
    dtype = dtype_of(data_type)
    name = f"{PREFIX}p{len(text.parameters)}"
    kind = "float32" if dtype.is_float else dtype.name
    text.parameters.append((name, dtype.compute, np.dtype(kind).type(value)))
    return name


# Lowering ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Access:
    """How one input is read: strides over the collapsed output shape (last one is the inner dimension)."""

    value: Value
    strides: tuple[int, ...]
    offset: int = 0

    @property
    def mode(self) -> str:
        return {0: "SPLAT", 1: "VECTOR"}.get(self.strides[-1], "GATHER")


def lower_chain(chain: Chain, lowering: Lowering) -> None:
    """One launch for `chain`.

    On GPUs an element at a time (elementwise_items.py). On CPUs linear where every input lies like the output or is
    one element; else rows of the inner dimension, or, where that is shorter than a vector, lane by lane. Rows too where
    the output is part of a concat.
    """
    cpu = lowering.facts.is_cpu
    text = chain_text(chain.nodes, LANES if cpu else 1)
    reads = [_read(v, chain.output.shape, lowering) for v in text.inputs]
    place = lowering.places.get(chain.output)
    if place is not None:
        shape, accesses = _collapse(chain.output.shape, [*reads, (place.target, _placed(chain.output.shape, place))])
        _launch_rows(chain, text, shape, accesses[:-1], lowering, accesses[-1])
        return
    shape, accesses = _collapse(chain.output.shape, reads)
    if not cpu:
        launch_items(chain, text, shape, accesses, lowering, _in_place(chain, accesses, lowering))
    elif len(shape) <= 1 and not any(access.offset for access in accesses):
        _launch_linear(chain, text, accesses, lowering)
    elif shape[-1] < LANES and len(shape) == 2:
        _launch_periodic(chain, text, shape, accesses, lowering)
    elif shape[-1] < LANES:
        _launch_lanewise(chain, text, shape, accesses, lowering)
    else:
        _launch_rows(chain, text, shape, accesses, lowering)


def _placed(shape: tuple[int, ...], place: Place) -> View:
    """The elements of a concat that are a piece of `shape`."""
    view = place.view.reshaped(shape)
    assert view is not None
    return view


def broadcast_strides(shape: Sequence[int], target: Sequence[int]) -> tuple[int, ...]:
    """Row-major element strides of a packed tensor of `shape`, broadcast to `target` (0 where it repeats)."""
    strides = [0] * len(target)
    step = 1
    for back in range(1, len(shape) + 1):
        if shape[-back] != 1:
            strides[-back] = step
        step *= shape[-back]
    return tuple(strides)


def _read(value: Value, target: tuple[int, ...], lowering: Lowering) -> tuple[Value, View]:
    """What to read for `value`, broadcast to `target`: the tensor that it views, if rows of it stay vectors."""
    viewed = lowering.view_of(value)
    if viewed is not None:
        source, view = viewed[0], viewed[1].expanded(target)
        small = view.collapsed()
        if not small.shape or small.strides[-1] == 0 or (small.strides[-1] == 1 and small.shape[-1] >= LANES):
            return source, view
    return value, View(target, broadcast_strides(value.shape, target))


def _collapse(shape: Sequence[int], inputs: Sequence[tuple[Value, View]]) -> tuple[tuple[int, ...], list[Access]]:
    """Drop dimensions of one, join neighbours that every input walks as one."""
    columns = [view.strides for _, view in inputs]
    dims_: list[int] = []
    steps: list[list[int]] = []
    for axis, extent in enumerate(shape):
        if extent == 1:
            continue
        step = [column[axis] for column in columns]
        if dims_ and all(outer == extent * inner for outer, inner in zip(steps[-1], step, strict=True)):
            dims_[-1] *= extent
            steps[-1] = step
        else:
            dims_.append(extent)
            steps.append(step)
    if not dims_:
        dims_, steps = [1], [[1] * len(columns)]
    accesses = [Access(v, tuple(step[k] for step in steps), view.offset) for k, (v, view) in enumerate(inputs)]
    return tuple(dims_), accesses


def _in_place(chain: Chain, accesses: Sequence[Access], lowering: Lowering) -> list[tuple[Arg, Arg]]:
    """Operands whose memory the output may take over: read element by element, and by nothing else otherwise."""
    output = chain.output
    elsewhere = {lowering.buffer(a.value) for a in accesses if not _walks_alike(a, output)}
    return [
        (a.value, output)
        for a in accesses
        if a.value.desc.nbytes == output.desc.nbytes and lowering.buffer(a.value) not in elsewhere
    ]


def _walks_alike(access: Access, output: Value) -> bool:
    """Whether element i of the output needs element i of the input and no other."""
    if access.offset or access.value.desc.size != output.desc.size:
        return False
    return 0 not in access.strides and list(access.strides) == sorted(access.strides, reverse=True)


@dataclass
class _Loads:
    """C text that declares and fills the variables of a chain's inputs, and the kernel arguments for it.

    By macro: LOAD_ONCE comes before the loop over vectors; LOAD_FULL and LOAD_TAIL load eight elements, or the first
    ``count``, from i on; LANE_ARRAYS and LOAD_LANE gather them one by one. OFFSETS declares an offset per input, which
    LOCATE, STEP and RETURN keep while a kernel walks over dimension d: to coordinate at[d], by one, back to 0.
    """

    arguments: list[str] = field(default_factory=list)
    args: list[Arg] = field(default_factory=list)
    text: dict[str, list[str]] = field(default_factory=dict)

    def add(self, **parts: str) -> None:
        """Append to the named macros."""
        for name, line in parts.items():
            self.text.setdefault(name, []).append(line)

    def defines(self, *names: str) -> dict[str, str]:
        """The named macros."""
        return {name: " ".join(self.text.get(name, [])) for name in names}


def _launch_linear(chain: Chain, text: ChainText, accesses: Sequence[Access], lowering: Lowering) -> None:
    loads = _Loads()
    for k, access in enumerate(accesses):
        storage = dtype_of(access.value.data_type).storage
        variable = f"const VTYPE({storage}) {PREFIX}x{k} ="
        loads.arguments.append(f"const __global {storage} *s{k}, ")
        loads.args.append(access.value)
        if access.mode == "SPLAT":
            loads.add(LOAD_ONCE=f"{variable} (VTYPE({storage}))(LOAD({storage}, s{k}, 0));")
        else:
            loads.add(LOAD_FULL=f"{variable} LOAD8({storage}, s{k}, i);")
            loads.add(LOAD_TAIL=f"{variable} LOADN({storage}, s{k}, i, count);")
    size = chain.output.desc.size
    block = _block(size, lowering)
    defines = loads.defines("LOAD_ONCE", "LOAD_FULL", "LOAD_TAIL")
    if text.cuts:
        defines["STRIPS"] = strips(text.statements, text.cuts, text.types, loads.text.get("LOAD_FULL", []))
    sizes = [np.int64(size), np.int64(block)]
    _launch("linear", chain, text, accesses, loads, defines, sizes, (-(-size // block),), lowering)


def _launch_rows(
    chain: Chain,
    text: ChainText,
    shape: tuple[int, ...],
    accesses: Sequence[Access],
    lowering: Lowering,
    target: Access | None = None,
) -> None:
    """`target` says where rows of the result lie, if not one behind the other."""
    loads = _Loads()
    for k, access in enumerate(accesses):
        storage = dtype_of(access.value.data_type).storage
        variable = f"const VTYPE({storage}) {PREFIX}x{k} ="
        _walk(loads, k, access, access.strides[:-1])
        if access.mode == "SPLAT":
            loads.add(LOAD_ONCE=f"{variable} (VTYPE({storage}))(LOAD({storage}, s{k}, o{k}));")
        elif access.mode == "VECTOR":
            loads.add(LOAD_FULL=f"{variable} LOAD8({storage}, s{k}, o{k} + i);")
            loads.add(LOAD_TAIL=f"{variable} LOADN({storage}, s{k}, o{k} + i, count);")
        else:
            loads.arguments.append(f"const IDX g{k}, ")
            loads.args.append(np.int64(access.strides[-1]))
            loads.add(LOAD_FULL=f"{variable} GATHER8({storage}, s{k}, o{k} + i * g{k}, g{k}, 8);")
            loads.add(LOAD_TAIL=f"{variable} GATHER8({storage}, s{k}, o{k} + i * g{k}, g{k}, count);")
    inner, outer = shape[-1], shape[:-1]
    rows = math.prod(outer)
    columns, height = _tile(inner, rows, lowering)
    if target is not None:
        loads.arguments.append("const IDX fz, const dims_t tz, ")
        loads.args += [np.int64(target.offset), dims(target.strides[:-1])]
        _walk_along(loads, "z")
    defines = loads.defines("LOAD_ONCE", "LOAD_FULL", "LOAD_TAIL", "OFFSETS", "LOCATE", "STEP", "RETURN")
    if target is not None:
        defines["ROW"] = "oz"
    sizes = [np.int64(v) for v in (inner, rows, columns, height)] + [np.int32(len(outer)), dims(outer)]
    grid = (-(-inner // columns), -(-rows // height))
    _launch("rows", chain, text, accesses, loads, defines, sizes, grid, lowering, target)


def _launch_lanewise(
    chain: Chain, text: ChainText, shape: tuple[int, ...], accesses: Sequence[Access], lowering: Lowering
) -> None:
    loads = _Loads()
    packed = View.packed(shape).strides
    for k, access in enumerate(accesses):
        storage = dtype_of(access.value.data_type).storage
        variable = f"const VTYPE({storage}) {PREFIX}x{k} ="
        if access.strides == packed and not access.offset:
            loads.arguments.append(f"const __global {storage} *s{k}, ")
            loads.args.append(access.value)
            loads.add(LOAD_FULL=f"{variable} LOAD8({storage}, s{k}, i);")
            loads.add(LOAD_TAIL=f"{variable} LOADN({storage}, s{k}, i, count);")
            continue
        _walk(loads, k, access, access.strides)
        loads.add(LANE_ARRAYS=f"CTYPE({storage}) l{k}[8] = {{0, 0, 0, 0, 0, 0, 0, 0}};")
        loads.add(LOAD_LANE=f"l{k}[j] = LOAD({storage}, s{k}, o{k});")
        gathered = f"{variable} (VTYPE({storage}))({', '.join(f'l{k}[{j}]' for j in range(LANES))});"
        loads.add(LOAD_FULL=gathered, LOAD_TAIL=gathered)
    size = chain.output.desc.size
    block = _block(size, lowering)
    defines = loads.defines("LANE_ARRAYS", "LOAD_LANE", "LOAD_FULL", "LOAD_TAIL", "OFFSETS", "LOCATE", "STEP", "RETURN")
    sizes = [np.int64(size), np.int64(block), np.int32(len(shape)), dims(shape)]
    _launch("lanewise", chain, text, accesses, loads, defines, sizes, (-(-size // block),), lowering)


def _launch_periodic(
    chain: Chain, text: ChainText, shape: tuple[int, ...], accesses: Sequence[Access], lowering: Lowering
) -> None:
    loads = _Loads()
    packed = View.packed(shape).strides
    for k, access in enumerate(accesses):
        storage = dtype_of(access.value.data_type).storage
        variable = f"const VTYPE({storage}) {PREFIX}x{k} ="
        loads.arguments.append(f"const __global {storage} *s{k}, ")
        loads.args.append(access.value)
        if access.strides == packed and not access.offset:
            loads.add(LOAD_FULL=f"{variable} LOAD8({storage}, s{k}, i);")
            loads.add(LOAD_TAIL=f"{variable} LOADN({storage}, s{k}, i, count);")
            continue
        loads.arguments.append(f"const IDX f{k}, const IDX r{k}, const IDX c{k}, ")
        loads.args += [np.int64(v) for v in (access.offset, *access.strides)]
        loads.add(OFFSETS=f"IDX o{k} = f{k} + row * r{k}; IDX w{k}[56];", LOCATE=f"w{k}[j] = above * r{k} + c * c{k};")
        loads.add(STEP=f"o{k} += 8 * r{k};", LANE_ARRAYS=f"CTYPE({storage}) l{k}[8] = {{0, 0, 0, 0, 0, 0, 0, 0}};")
        loads.add(LOAD_LANE=f"l{k}[j] = LOAD({storage}, s{k}, o{k} + w{k}[v + j]);")
        full = ", ".join(f"LOAD({storage}, s{k}, o{k} + w{k}[v + {j}])" for j in range(LANES))
        tail = ", ".join(f"l{k}[{j}]" for j in range(LANES))
        loads.add(LOAD_FULL=f"{variable} (VTYPE({storage}))({full});")
        loads.add(LOAD_TAIL=f"{variable} (VTYPE({storage}))({tail});")
    size, period = chain.output.desc.size, LANES * shape[-1]
    block = -(-_block(size, lowering) // period) * period
    defines = loads.defines("LANE_ARRAYS", "LOAD_LANE", "LOAD_FULL", "LOAD_TAIL", "OFFSETS", "LOCATE", "STEP")
    sizes = [np.int64(size), np.int64(block), np.int64(shape[-1])]
    _launch("periodic", chain, text, accesses, loads, defines, sizes, (-(-size // block),), lowering)


def _walk(loads: _Loads, k: int, access: Access, strides: Sequence[int]) -> None:
    """Arguments of an input that is walked over dimensions, and the text that keeps its offset."""
    storage = dtype_of(access.value.data_type).storage
    loads.arguments.append(f"const __global {storage} *s{k}, const IDX f{k}, const dims_t t{k}, ")
    loads.args += [access.value, np.int64(access.offset), dims(strides)]
    _walk_along(loads, str(k))


def _walk_along(loads: _Loads, k: str) -> None:
    """The text that keeps offset ``o<k>``, from ``f<k>`` on by strides ``t<k>``."""
    loads.add(OFFSETS=f"IDX o{k} = f{k};", LOCATE=f"o{k} += at[d] * t{k}.d[d];")
    loads.add(STEP=f"o{k} += t{k}.d[d];", RETURN=f"o{k} -= shape.d[d] * t{k}.d[d];")


def _launch(
    kind: str,
    chain: Chain,
    text: ChainText,
    accesses: Sequence[Access],
    loads: _Loads,
    defines: dict[str, str],
    sizes: Sequence[Arg],
    grid: tuple[int, ...],
    lowering: Lowering,
    target: Access | None = None,
) -> None:
    arguments = "".join([*loads.arguments, *(f"const {type_} {name}, " for name, type_, _ in text.parameters)])
    names = [argument.replace("*", "").split()[-1] for argument in arguments.split(",") if argument.strip()]
    defines |= {
        kind.upper(): "1",
        "ARGUMENTS": arguments,
        "PASS": "".join(f"{name}, " for name in names),
        "OUT": dtype_of(chain.output.data_type).storage,
        "CHAIN8": " ".join(text.statements),
    }
    kernel = Kernel("elementwise.cl", f"elementwise_{kind}", defines, "\n".join(text.code), ("elementwise.h",))
    output = chain.output if target is None else target.value
    args = [*loads.args, *(value for _, _, value in text.parameters), output, *sizes]
    in_place = _in_place(chain, accesses, lowering) if target is None else ()
    lowering.launch(kernel, args, grid, in_place=in_place)


def _block(size: int, lowering: Lowering) -> int:
    """Elements of a work-item: a run of vectors, but work for every core."""
    return _run(size, 1, lowering)


def _run(size: int, times: int, lowering: Lowering) -> int:
    """A multiple of eight, so that `times` tensors of `size` elements make some work-items for each core."""
    items = ITEMS_PER_UNIT * max(lowering.facts.compute_units, 1)
    share = min(max(size * times // items, MIN_RUN), MAX_RUN, size)
    return -(-share // LANES) * LANES


def _tile(inner: int, rows: int, lowering: Lowering) -> tuple[int, int]:
    """Columns and rows of a work-item of the rows kernel."""
    columns = _run(inner, rows, lowering)
    return columns, max(1, _run(inner * rows, 1, lowering) // min(columns, inner))
