"""OpenCL C text of a CustomOp: generated signature, index, bounds check and access macros around the user's body."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from webnn_cl.compiler.ir import TensorDesc
from webnn_cl.dtypes import dtype_of

__all__ = ["KEYWORDS", "body_source", "half_indexing", "shape_macros", "wrap_source"]

KEYWORDS = frozenset(
    "auto break case char const continue default do double else enum extern float for goto if half inline int long "
    "register restrict return short signed sizeof static struct switch typedef uchar uint ulong union unsigned ushort "
    "void volatile while kernel global local private constant i".split()
)


def body_source(
    name: str,
    entry: str,
    body: str,
    inputs: Mapping[str, TensorDesc],
    outputs: Mapping[str, TensorDesc],
    params: Mapping[str, str],
) -> str:
    """A whole kernel `entry` around `body` of operator `name`.

    One work-item per element ``i`` of the first output, which has ``_count``.
    """
    return "\n".join(
        [
            f"kernel void {entry}({_signature(inputs, outputs, params)}, const long _count) {{",
            "  const long i = (long)get_global_id(0);",
            "  if (i >= _count) return;",
            f'#line 1 "{name} body"',
            body.rstrip("\n"),
            "}",
            "",
        ]
    )


def _signature(
    inputs: Mapping[str, TensorDesc], outputs: Mapping[str, TensorDesc], params: Mapping[str, str]
) -> str:
    parts = [f"const __global {dtype_of(d.data_type).storage} *{n}" for n, d in inputs.items()]
    parts += [f"__global {dtype_of(d.data_type).storage} *{n}" for n, d in outputs.items()]
    parts += [f"const {dtype_of(t).compute} {n}" for n, t in params.items()]
    return ", ".join(parts)


def wrap_source(header: str, text: str, name: str, tensors: Mapping[str, TensorDesc], own: bool, has_fp16: bool) -> str:
    """`text` (generated, or the user's whole source when `own`) with LOAD/STORE, shape macros and `header`."""
    parts = ["#pragma OPENCL EXTENSION cl_khr_fp16 : enable"] if has_fp16 else []
    parts += [_access_macros(tensors), *shape_macros(tensors, header + text)]
    if header:
        parts += [f'#line 1 "{name} header"', header.rstrip("\n")]
    parts += [f'#line 1 "{name} source"'] if own else []
    return "\n".join([*parts, text])


def _access_macros(tensors: Mapping[str, TensorDesc]) -> str:
    """LOAD(name, i) and STORE(name, i, value) for every tensor by its name, whatever its type."""
    lines = ["#undef LOAD", "#undef STORE"]
    lines += ["#define LOAD(name, i) CAT2(load_of_, name)(i)", "#define STORE(name, i, v) CAT2(store_of_, name)(i, v)"]
    for name, desc in tensors.items():
        storage = dtype_of(desc.data_type).storage
        lines.append(f"#define load_of_{name}(i) load_{storage}({name}, (i))")
        lines.append(f"#define store_of_{name}(i, v) store_{storage}({name}, (i), (v))")
    return "\n".join(lines)


def shape_macros(tensors: Mapping[str, TensorDesc], text: str) -> list[str]:
    """``x_SIZE``, ``x_RANK`` and ``x_DIM0`` ...: only those that `text` names, so that other shapes share a kernel."""
    lines = []
    for name, desc in tensors.items():
        values = {f"{name}_SIZE": desc.size, f"{name}_RANK": desc.rank}
        values |= {f"{name}_DIM{axis}": extent for axis, extent in enumerate(desc.shape)}
        lines += [f"#define {k} {v}L" for k, v in values.items() if re.search(rf"\b{k}\b", text)]
    return lines


def half_indexing(text: str, names: Sequence[str]) -> str | None:
    """The first of the float16 tensors `names` that `text` indexes directly, which needs the fp16 extension."""
    code = re.sub(r"//[^\n]*|/\*.*?\*/", " ", text, flags=re.DOTALL)
    return next((n for n in names if re.search(rf"\b{re.escape(n)}\s*\[|\*\s*{re.escape(n)}\b(?!\s*[,)])", code)), None)
