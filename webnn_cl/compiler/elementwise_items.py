"""Element-wise chains on GPUs: neighbouring work-items do neighbouring elements."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from webnn_cl.compiler.kernel import Kernel
from webnn_cl.compiler.lower import dims
from webnn_cl.dtypes import dtype_of
from webnn_cl.ops.items import items_of, position_type
from webnn_cl.ops.strided import packed_strides

if TYPE_CHECKING:
    from webnn_cl.compiler.elementwise import Access, Chain, ChainText
    from webnn_cl.compiler.lower import Arg, Lowering

__all__ = ["launch_items"]


def launch_items(
    chain: Chain,
    text: ChainText,
    shape: tuple[int, ...],
    accesses: Sequence[Access],
    lowering: Lowering,
    in_place: Sequence[tuple[Arg, Arg]],
) -> None:
    """One launch for `chain`, whose `text` is for one lane: `accesses` walk its inputs over the collapsed `shape`."""
    arguments: list[str] = []
    args: list[Arg] = []
    loads: list[str] = []
    offsets: list[str] = []
    locate: list[str] = []
    packed = packed_strides(shape)
    for k, access in enumerate(accesses):
        storage = dtype_of(access.value.data_type).storage
        arguments.append(f"const __global {storage} *s{k}, ")
        args.append(access.value)
        at = "i"
        if not any(access.strides) and not access.offset:
            at = "0"
        elif access.strides != packed or access.offset:
            arguments.append(f"const IDX f{k}, const dims_t t{k}, ")
            args += [np.int64(access.offset), dims(access.strides)]
            offsets.append(f"IDX o{k} = f{k};")
            locate.append(f"o{k} += at * t{k}.d[d];")
            at = f"o{k}"
        loads.append(f"const CTYPE({storage}) k_x{k} = LOAD({storage}, s{k}, {at});")
    arguments += [f"const {kind} {name}, " for name, kind, _ in text.parameters]
    size = chain.output.desc.size
    items = items_of(size, lowering.facts)
    defines = {
        "ARGUMENTS": "".join(arguments),
        "OUT": dtype_of(chain.output.data_type).storage,
        "POS": position_type(size),
        "OFFSETS": " ".join(offsets),
        "LOCATE": " ".join(locate),
        "LOADS": " ".join(loads),
        "CHAIN1": " ".join(text.statements),
    }
    kernel = Kernel("elementwise_items.cl", "elementwise_items", defines, "\n".join(text.code), ("elementwise.h",))
    args += [*(value for _, _, value in text.parameters), chain.output, np.int64(size), np.int32(items.each)]
    args += [np.int32(len(shape) if offsets else 0), dims(shape)]
    lowering.launch(kernel, args, items.grid, items.local, in_place)
