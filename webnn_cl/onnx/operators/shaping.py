"""Shape, reshaping, slicing, joining, padding and generated tensors."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from webnn_cl.onnx.elements import name_of_elem, name_of_numpy, numpy_type
from webnn_cl.onnx.operators.common import (
    broadcast_shape,
    cast,
    concat,
    expand,
    pad_axes,
    reshape,
    slice_axis,
    transpose,
)
from webnn_cl.onnx.registry import op
from webnn_cl.onnx.values import Known

if TYPE_CHECKING:
    from webnn_cl.onnx.call import Call
    from webnn_cl.operand import MLOperand

__all__ = ["pad_tensor", "slice_tensor"]


@op("Constant")
def constant(c: Call) -> Any:
    attrs = c.node.attrs
    for name, dtype in (("value_float", np.float32), ("value_floats", np.float32), ("value_int", np.int64),
                        ("value_ints", np.int64)):  # fmt: skip
        if name in attrs:
            return np.array(attrs[name], dtype)
    if "value" in attrs or "sparse_value" in attrs:
        return c.importer.model.array(attrs["value"] if "value" in attrs else attrs["sparse_value"])
    if "value_string" in attrs:
        return np.array(c.text("value_string"), object)
    if "value_strings" in attrs:
        return np.array(c.texts("value_strings"), object)
    return c.refuse("no value")


@op("Shape")
def shape_of(c: Call) -> Any:
    shape = c.shape(0)
    return np.array(shape[c.integer("start") : c.node.attrs.get("end")], np.int64)


@op("Size")
def size_of(c: Call) -> Any:
    return np.array(math.prod(c.shape(0)), np.int64)


@op("Reshape")
def reshape_to(c: Call) -> Any:
    wanted = c.known_ints(1, "the new shape") if c.version >= 5 else c.integers("shape") or []
    old = c.shape(0)
    if not c.integer("allowzero"):
        if any(d == 0 and i >= len(old) for i, d in enumerate(wanted)):
            c.refuse(f"shape {wanted} copies a dimension that {list(old)} does not have")
        wanted = [old[i] if d == 0 else d for i, d in enumerate(wanted)]
    return reshape(c, c.x(0), _fill_dimension(c, wanted, math.prod(old)))


def _fill_dimension(c: Call, wanted: list[int], size: int) -> list[int]:
    """`wanted` with its -1 computed."""
    rest = math.prod(d for d in wanted if d != -1)
    if wanted.count(-1) > 1 or any(d < -1 for d in wanted) or (-1 in wanted and (rest == 0 or size % rest)):
        c.refuse(f"{size} elements can't take the shape {wanted}")
    filled = [size // rest if d == -1 else d for d in wanted]
    if math.prod(filled) != size:
        c.refuse(f"{size} elements can't take the shape {wanted}")
    return filled


@op("Flatten")
def flatten(c: Call) -> MLOperand:
    shape, axis = c.shape(0), c.integer("axis", 1)
    if not -len(shape) <= axis <= len(shape):
        c.refuse(f"axis {axis} is out of range for rank {len(shape)}")
    axis = axis + len(shape) if axis < 0 else axis
    return reshape(c, c.x(0), (math.prod(shape[:axis]), math.prod(shape[axis:])))


def _axes(c: Call) -> list[int] | None:
    if c.version >= 13:
        return c.known_ints(1, "axes") if c.has(1) else None
    return c.integers("axes")


@op("Squeeze")
def squeeze(c: Call) -> MLOperand:
    shape, axes = c.shape(0), _axes(c)
    removed = c.axes(axes, len(shape)) if axes is not None else [i for i, d in enumerate(shape) if d == 1]
    if any(shape[a] != 1 for a in removed):
        c.refuse(f"axes {axes} of {list(shape)} are not all of size 1")
    return reshape(c, c.x(0), [d for i, d in enumerate(shape) if i not in removed])


@op("Unsqueeze")
def unsqueeze(c: Call) -> MLOperand:
    shape, axes = c.shape(0), _axes(c) or []
    rank = len(shape) + len(axes)
    added = c.axes(axes, rank)
    dims = iter(shape)
    return reshape(c, c.x(0), [1 if i in added else next(dims) for i in range(rank)])


@op("Transpose")
def transpose_axes(c: Call) -> MLOperand:
    rank = c.rank(0)
    permutation = c.integers("perm")
    if permutation is None:
        permutation = list(reversed(range(rank)))
    return transpose(c, c.x(0), c.axes(permutation, rank))


@op("Expand")
def expand_to(c: Call) -> Any:
    shape = broadcast_shape(c.shape(0), c.known_ints(1, "the new shape"))
    return np.zeros(shape, numpy_type(c.dtype(0))) if 0 in shape else expand(c, c.x(0), shape)


@op("Tile")
def tile(c: Call) -> Any:
    shape = c.shape(0)
    if c.version < 6:
        repeats = [1] * len(shape)
        repeats[c.known_ints(2, "axis")[0]] = c.known_ints(1, "tiles")[0]
    else:
        repeats = c.known_ints(1, "repeats")
    if len(repeats) != len(shape) or any(r < 0 for r in repeats):
        c.refuse(f"repeats {repeats} for rank {len(shape)}")
    if 0 in repeats:
        return np.zeros([d * r for d, r in zip(shape, repeats, strict=True)], numpy_type(c.dtype(0)))
    return c.b.tile(c.x(0), repeats) if set(repeats) != {1} else c.x(0)


@op("Concat")
def concat_all(c: Call) -> Any:
    """Empty parts are left out: WebNN has no empty tensors."""
    parts = [c.value(i) for i in range(len(c.inputs))]
    axis = c.axis(c.integer("axis", 1), len(parts[0].shape))
    full = [p for p in parts if 0 not in p.shape]
    if not full:
        shape = list(parts[0].shape)
        shape[axis] = sum(p.shape[axis] for p in parts)
        return np.zeros(shape, numpy_type(parts[0].dtype))
    return concat(c, [c.lift(p) for p in full], axis)


@op("Split")
def split(c: Call) -> Any:
    shape = c.shape(0)
    axis = c.axis(c.integer("axis", 0), len(shape))
    sizes = _split_sizes(c, shape[axis], len(c.node.outputs))
    if sum(sizes) != shape[axis] or any(s < 0 for s in sizes):
        c.refuse(f"split {sizes} does not add up to {shape[axis]}")
    if 0 in sizes:
        return _split_with_empty(c, axis, sizes)
    return c.b.split(c.x(0), sizes, axis=axis) if len(sizes) > 1 else [c.x(0)]


def _split_sizes(c: Call, size: int, outputs: int) -> list[int]:
    sizes = c.integers("split") if c.version < 13 else c.known_ints(1, "split") if c.has(1) else None
    if sizes is not None:
        return sizes
    count = c.integer("num_outputs", outputs)
    each = -(-size // count)
    if c.version < 18 and size % count:
        c.refuse(f"{size} does not split into {count} equal parts")
    return [max(0, min(each, size - i * each)) for i in range(count)]


def _split_with_empty(c: Call, axis: int, sizes: list[int]) -> list[Any]:
    x, dtype, start, parts = c.x(0), numpy_type(c.dtype(0)), 0, list[Any]()
    for size in sizes:
        shape = (*x.shape[:axis], size, *x.shape[axis + 1 :])
        parts.append(slice_axis(c, x, axis, start, size) if size else np.zeros(shape, dtype))
        start += size
    return parts


@op("Slice")
def slice_axes(c: Call) -> Any:
    rank = c.rank(0)
    if c.version < 10:
        starts, ends, axes, steps = c.integers("starts") or [], c.integers("ends") or [], c.integers("axes"), None
    else:
        starts, ends = c.known_ints(1, "starts"), c.known_ints(2, "ends")
        axes = c.known_ints(3, "axes") if c.has(3) else None
        steps = c.known_ints(4, "steps") if c.has(4) else None
    axes = c.axes(axes, rank) if axes is not None else list(range(len(starts)))
    steps = steps or [1] * len(starts)
    if not len(starts) == len(ends) == len(axes) == len(steps) or 0 in steps:
        c.refuse(f"starts {starts}, ends {ends}, axes {axes}, steps {steps}")
    slices = [slice(None)] * rank
    for axis, start, end, step in zip(axes, starts, ends, steps, strict=True):
        # From far below 0 a backward slice runs to the first element, which Python spells None.
        stop = None if step < 0 and end < -c.shape(0)[axis] else end
        slices[axis] = slice(start, stop, step)
    return slice_tensor(c, slices)


def slice_tensor(c: Call, slices: list[slice]) -> Any:
    """Input 0 sliced as numpy slices it; an empty result is known."""
    ranges = [range(d)[s] for d, s in zip(c.shape(0), slices, strict=True)]
    if any(len(r) == 0 for r in ranges):
        return np.zeros([len(r) for r in ranges], numpy_type(c.dtype(0)))
    ascending = [r if r.step > 0 else r[::-1] for r in ranges]
    x = c.x(0)
    starts, sizes = [r.start for r in ascending], [r[-1] - r.start + 1 for r in ascending]
    strides = [min(r.step, s) for r, s in zip(ascending, sizes, strict=True)]
    if tuple(sizes) != x.shape or set(strides) - {1}:
        x = c.b.slice(x, starts, sizes, strides=strides) if set(strides) - {1} else c.b.slice(x, starts, sizes)
    turned = [i for i, r in enumerate(ranges) if r.step < 0 and len(r) > 1]
    return c.b.reverse(x, axes=turned) if turned else x


@op("Pad")
def pad(c: Call) -> Any:
    rank, mode = c.rank(0), c.text("mode", "constant")
    if c.version < 11:
        pads, value = c.integers("pads") or c.integers("paddings") or [], c.real("value")
    else:
        pads, value = c.known_ints(1, "pads"), 0.0
    if c.version >= 18 and c.has(3):
        axes = c.axes(c.known_ints(3, "axes"), rank)
    else:
        axes = list(range(rank))
    if len(pads) != 2 * len(axes):
        c.refuse(f"{len(pads)} pads for {len(axes)} axes")
    begin, end = [0] * rank, [0] * rank
    for i, axis in enumerate(axes):
        begin[axis], end[axis] = pads[i], pads[i + len(axes)]
    fill = c.value(2) if c.version >= 11 and c.has(2) and mode == "constant" else None
    return pad_tensor(c, begin, end, mode, value if fill is None else fill)


def pad_tensor(c: Call, begin: list[int], end: list[int], mode: str, fill: Any) -> MLOperand:
    """Input 0 padded; negative amounts crop first."""
    x = c.x(0)
    for axis, (first, last) in enumerate(zip(begin, end, strict=True)):
        crop = max(0, -first), max(0, -last)
        if any(crop):
            size = x.shape[axis] - sum(crop)
            if size < 1:
                c.refuse(f"cropping axis {axis} of {list(x.shape)} leaves nothing")
            x = slice_axis(c, x, axis, crop[0], size)
    begin, end = [max(0, p) for p in begin], [max(0, p) for p in end]
    if mode == "constant":
        return _pad_constant(c, x, begin, end, fill)
    if mode == "edge":
        return pad_axes(c, x, begin, end, mode="edge")
    if mode == "reflect":
        return _pad_by_index(c, x, begin, end, "reflect") if _too_far(x, begin, end) else pad_axes(
            c, x, begin, end, mode="reflection")  # fmt: skip
    if mode == "wrap":
        return _pad_by_index(c, x, begin, end, "wrap")
    return c.refuse(f"mode {mode!r}")


def _too_far(x: MLOperand, begin: list[int], end: list[int]) -> bool:
    return any(max(p) >= d for p, d in zip(zip(begin, end, strict=True), x.shape, strict=True) if max(p))


def _pad_constant(c: Call, x: MLOperand, begin: list[int], end: list[int], fill: Any) -> MLOperand:
    if isinstance(fill, Known):
        fill = fill.array.reshape(()).item() if fill.array.size else 0.0
    if isinstance(fill, (int, float)):
        return pad_axes(c, x, begin, end, value=fill)
    inside = np.pad(np.ones(x.shape, np.uint8), list(zip(begin, end, strict=True)))
    padded = pad_axes(c, x, begin, end)
    return c.b.where(c.constant(inside), padded, reshape(c, c.lift(fill), ()))


def _pad_by_index(c: Call, x: MLOperand, begin: list[int], end: list[int], mode: Any) -> MLOperand:
    """Per axis, a gather with the indices that numpy's pad of that mode would pick."""
    for axis, amounts in enumerate(zip(begin, end, strict=True)):
        if any(amounts):
            index = np.pad(np.arange(x.shape[axis], dtype=np.int32), amounts, mode=mode)
            x = c.b.gather(x, c.constant(index), axis=axis)
    return x


@op("DepthToSpace")
def depth_to_space(c: Call) -> MLOperand:
    n, channels, height, width = _four(c)
    block, mode = c.integer("blocksize"), c.text("mode", "DCR")
    if block < 1 or channels % (block * block) or mode not in ("DCR", "CRD"):
        c.refuse(f"blocksize {block}, mode {mode!r} for {channels} channels")
    depth = channels // (block * block)
    if mode == "DCR":
        split_shape, order = (n, block, block, depth, height, width), (0, 3, 4, 1, 5, 2)
    else:
        split_shape, order = (n, depth, block, block, height, width), (0, 1, 4, 2, 5, 3)
    moved = transpose(c, reshape(c, c.x(0), split_shape), order)
    return reshape(c, moved, (n, depth, height * block, width * block))


@op("SpaceToDepth")
def space_to_depth(c: Call) -> MLOperand:
    n, channels, height, width = _four(c)
    block, mode = c.integer("blocksize"), c.text("mode", "DCR")
    if block < 1 or height % block or width % block or mode not in ("DCR", "CRD"):
        c.refuse(f"blocksize {block}, mode {mode!r} for {height} x {width}")
    rows, columns = height // block, width // block
    order = (0, 3, 5, 1, 2, 4) if mode == "DCR" else (0, 1, 3, 5, 2, 4)
    moved = transpose(c, reshape(c, c.x(0), (n, channels, rows, block, columns, block)), order)
    return reshape(c, moved, (n, channels * block * block, rows, columns))


def _four(c: Call) -> tuple[int, int, int, int]:
    shape = c.shape(0)
    if len(shape) != 4:
        c.refuse(f"input of shape {list(shape)}; rank 4 is needed")
    return shape[0], shape[1], shape[2], shape[3]


@op("Trilu")
def trilu(c: Call) -> MLOperand:
    diagonal = c.known_ints(1, "k")[0] if c.has(1) else 0
    limit = 2**31 - 1
    return c.b.triangular(c.x(0), upper=bool(c.integer("upper", 1)), diagonal=min(max(diagonal, -limit), limit))


@op("EyeLike")
def eye_like(c: Call) -> Any:
    shape = c.shape(0)
    if len(shape) != 2:
        c.refuse(f"input of shape {list(shape)}; a matrix is needed")
    dtype = name_of_elem(c.integer("dtype")) if "dtype" in c.node.attrs else c.dtype(0)
    return np.eye(*shape, k=c.integer("k"), dtype=np.float64).astype(numpy_type(dtype))


@op("ConstantOfShape")
def constant_of_shape(c: Call) -> Any:
    """Only what is too large for the host comes here."""
    shape = c.known_ints(0, "the shape")
    value = c.node.attrs.get("value")
    fill = np.zeros(1, np.float32) if value is None else c.importer.model.array(value)
    return c.tensor(c.b.expand(c.constant(fill.reshape(())), shape), name_of_numpy(fill.dtype))


@op("Range", "HannWindow", "HammingWindow", "BlackmanWindow", "MelWeightMatrix")
def generated(c: Call) -> Any:
    """Evaluated on the host as soon as the inputs are known; here they are not."""
    for index in range(len(c.inputs)):
        c.known(index, "what decides the size of the result")
    return c.refuse("its result has more elements than are computed on the host")


@op("OneHot")
def one_hot(c: Call) -> Any:
    depth = c.known_ints(1, "depth")[0]
    indices, values, rank = c.x(0), c.x(2), c.rank(0) + 1
    axis = c.axis(c.integer("axis", -1), rank)
    if depth < 1:
        c.refuse(f"depth {depth}")
    if indices.data_type not in ("int32", "int64"):
        indices = c.b.cast(indices, "int64")
    shape = list(indices.shape)
    shape.insert(axis, 1)
    wide = reshape(c, indices, shape)
    wide = c.b.where(c.b.lesser(wide, c.scalar(0, wide)), c.b.add(wide, c.scalar(depth, wide)), wide)
    places = np.arange(depth).reshape([depth if i == axis else 1 for i in range(rank)])
    hit = c.b.equal(wide, c.constant(places, indices.data_type))
    off, on = (reshape(c, slice_axis(c, values, 0, i, 1), ()) for i in (0, 1))
    return c.tensor(c.b.where(hit, on, off), c.dtype(2))


@op("CenterCropPad")
def center_crop_pad(c: Call) -> MLOperand:
    rank = c.rank(0)
    wanted = c.known_ints(1, "the new shape")
    axes = c.axes(c.integers("axes") or list(range(rank)), rank)
    if len(axes) != len(wanted):
        c.refuse(f"{len(wanted)} sizes for {len(axes)} axes")
    begin, end = [0] * rank, [0] * rank
    for axis, size in zip(axes, wanted, strict=True):
        extra = size - c.shape(0)[axis]
        # Python's floor division puts the odd element at the end when padding; cropping keeps the earlier part.
        begin[axis] = extra // 2 if extra >= 0 else -(-extra // 2)
        end[axis] = extra - begin[axis]
    return pad_tensor(c, begin, end, "constant", 0.0)


@op("ReverseSequence")
def reverse_sequence(c: Call) -> MLOperand:
    """A gather along the time axis with indices that depend on the batch."""
    x, shape = c.x(0), c.shape(0)
    batch, time = c.integer("batch_axis", 1), c.integer("time_axis", 0)
    if {batch, time} != {0, 1}:
        c.refuse(f"batch_axis {batch} and time_axis {time}")
    lengths = cast(c, c.x(1), "int32")
    row = [1, 1]
    row[batch] = shape[batch]
    steps = [1, 1]
    steps[time] = shape[time]
    t = c.constant(np.arange(shape[time], dtype=np.int32).reshape(steps))
    n = reshape(c, lengths, row)
    source = c.b.where(c.b.lesser(t, n), c.b.sub(c.b.sub(n, c.scalar(1, n)), t), t)
    source = reshape(c, source, (*source.shape, *[1] * (len(shape) - 2)))
    return c.b.gather_elements(x, expand(c, source, shape), axis=time)
