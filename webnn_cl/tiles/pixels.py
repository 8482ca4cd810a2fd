"""Lowering of convolutions whose lanes are pixels: channels first, and small groups (conv_pixels.cl)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from webnn_cl.compiler.lower import dims
from webnn_cl.dtypes import dtype_of
from webnn_cl.tiles.plan import PANEL, TUNING, ceil_div, workers
from webnn_cl.tiles.product import tile_kernel
from webnn_cl.tiles.rows import FEW_CHANNELS, Axis

if TYPE_CHECKING:
    from webnn_cl.compiler.ir import Value
    from webnn_cl.compiler.lower import Arg, Buffer, Lowering
    from webnn_cl.opencl.facts import DeviceFacts
    from webnn_cl.ops.conv_direct import Convolution

__all__ = ["can_pixels", "lower_pixels", "pixels_pay"]

# Of conv_pixels.cl: floats of the copied input and of the results, terms summed in a register, pixels of a tile.
ROOM, MOST_TERMS, WIDE, BLOCK = 16384, 512, 24, 4
# Channels last: the fewest channels that are worth a run of memory.
LAST_RUN = 64
# Up to so many outputs a group, or without groups, lanes of pixels are faster than lanes of channels.
MOST_OUTPUTS, FEW_OUTPUTS = 32, 8
# Share of the lanes that must hold results (an estimate).
FEWEST_LANES = 0.5
# Remainders by the stride are bits of a mask.
MOST_STRIDE = 32


@dataclass(frozen=True)
class Line:
    """One spatial dimension of a convolution: the outputs of phase p are p, p + phases, ..., `grid` at most; the i-th
    of them reads, for each of `taps[p]`, input ``base + i * stride + distance``; a tap is (distance, filter's tap)."""

    size: int
    grid: int
    stride: int
    base: int
    taps: tuple[tuple[tuple[int, int], ...], ...]

    @classmethod
    def of(cls, conv: Convolution, d: int) -> Line:
        """Dimension `d` (0 rows, 1 columns)."""
        axes = Axis.of(conv, d)
        base = min((a.origin + t * a.dilation for a in axes for t in range(a.taps)), default=0)
        taps = tuple(
            tuple((a.origin + t * a.dilation - base, a.tap_first + t * a.tap_step) for t in range(a.taps)) for a in axes
        )
        size = (conv.input.height, conv.input.width)[d]
        return cls(size, axes[0].grid, axes[0].stride, base, taps)

    @property
    def used(self) -> set[int]:
        """Remainders by the stride that a tap has."""
        return {distance % self.stride for phase in self.taps for distance, _ in phase}

    @property
    def copied(self) -> int:
        """Remainders that are copied: up to the last that is used."""
        return max(self.used, default=0) + 1

    @property
    def mask(self) -> int:
        """A bit for each remainder that is used."""
        return sum(1 << r for r in self.used)

    @property
    def reach(self) -> int:
        """Places of the copy beyond the grid that taps read."""
        return max((distance // self.stride for phase in self.taps for distance, _ in phase), default=0)

    @property
    def shared(self) -> int:
        """Zeros at the end of a copied line that are those at the beginning of the next one."""
        places = self.grid + self.reach

        def zeros(remainder: int) -> int:
            first = self.base + remainder
            before = max(0, ceil_div(-first, self.stride))
            return min(before, places - max(0, ceil_div(self.size - first, self.stride)))

        return max(0, min(self.reach, *(zeros(r) for r in self.used), places))


@dataclass(frozen=True)
class Parts:
    """What a work-item computes: rows of each phase, whole groups or some outputs of one, with so many inputs copied
    together."""

    rows: int
    groups: int
    outputs: int
    inputs: int


class Cut:
    """How `conv` is cut into work-items."""

    def __init__(self, conv: Convolution) -> None:
        self.conv = conv
        self.rows, self.columns = Line.of(conv, 0), Line.of(conv, 1)
        self.phases = len(self.rows.taps) * len(self.columns.taps)

    @cached_property
    def most_taps(self) -> int:
        """Taps of the phase that has most."""
        return max(map(len, self.rows.taps)) * max(map(len, self.columns.taps))

    @cached_property
    def pitch(self) -> int:
        """Floats of a copied row."""
        return self.columns.grid + self.columns.reach - self.columns.shared

    @property
    def lanes_used(self) -> float:
        """Share of the lanes of an image's tiles that hold results."""
        rows, columns = self.rows.grid, self.columns.grid
        return rows * columns / (ceil_div(rows * self.pitch, WIDE) * WIDE)

    def remainder(self, rows: int) -> int:
        """Floats of the copy for one remainder of rows and columns by the stride."""
        return (rows + self.rows.reach) * self.pitch + self.columns.shared

    def plane(self, rows: int) -> int:
        """Floats of the copy for one channel."""
        return self.remainder(rows) * self.rows.copied * self.columns.copied

    def results(self, rows: int) -> int:
        """Floats of results for one channel."""
        return ceil_div(rows * self.pitch, WIDE) * WIDE * self.phases

    def parts(self, facts: DeviceFacts) -> Parts | None:
        """The best way to cut, by an estimate of cycles; None where not even one row fits."""
        found = [p for rows in self._heights() for p in self._with_rows(rows)]
        return min(found, key=lambda p: self._cycles(p, facts), default=None)

    def _heights(self) -> list[int]:
        grid = self.rows.grid
        return sorted({ceil_div(grid, n) for n in range(1, grid + 1)})

    def _with_rows(self, rows: int) -> list[Parts]:
        conv = self.conv
        inputs, outputs = conv.inputs_a_group, conv.outputs_a_group
        # The last tile reads as far beyond the copy as taps reach.
        copied, kept = (ROOM - self.columns.reach) // self.plane(rows), ROOM // self.results(rows)
        terms = MOST_TERMS // max(self.most_taps, 1)
        if min(copied, kept, terms) < 1:
            return []
        if inputs > min(copied, terms) or outputs > kept:
            together = min(copied, terms, inputs)
            if together >= 8:
                together = together // 8 * 8
            each = outputs if outputs <= kept else kept // BLOCK * BLOCK
            return [Parts(rows, 1, each, together)] if each else []
        most = min(copied // inputs, kept // outputs, conv.groups)
        options = {1, most} | {g for g in (2, 4, 8, 16, 32) if g <= most}
        parts = [Parts(rows, g, outputs, g * inputs) for g in options]
        return parts + [Parts(rows, 1, o, inputs) for o in (16, 32, 64) if o < outputs]

    def _cycles(self, parts: Parts, facts: DeviceFacts) -> float:
        """Cycles until all work-items are done, which the cores take in turns and do not end at once."""
        conv = self.conv
        depth = conv.inputs_a_group * sum(len(r) * len(c) for r in self.rows.taps for c in self.columns.taps)
        blocks = ceil_div(parts.outputs, BLOCK) * parts.groups
        tiles = ceil_div(parts.rows * self.pitch, WIDE) * blocks
        products = tiles * (depth * 7 + 20 * self.phases)
        # Channels last, a pixel's channels are one run of memory; short runs take as long as longer ones.
        run = LAST_RUN if conv.input.layout == "nhwc" else 0
        copied = self.plane(parts.rows) * max(parts.groups * conv.inputs_a_group, run)
        results = parts.rows * self.columns.grid * self.phases * max(parts.outputs * parts.groups, run)
        beyond = max(0, self.plane(parts.rows) * parts.inputs + results - TUNING.first_cache // 4)
        turns = ceil_div(self.items(parts), workers(facts)) + 0.25
        return turns * (products + 0.7 * (copied + results) + 0.1 * beyond + 300)

    def items(self, parts: Parts) -> int:
        """Work-items in all."""
        return math.prod(self.grid(parts))

    def grid(self, parts: Parts) -> tuple[int, int, int]:
        """Work-items: blocks of rows, of channels, images."""
        splits = ceil_div(self.conv.outputs_a_group, parts.outputs)
        return (
            ceil_div(self.rows.grid, parts.rows),
            ceil_div(self.conv.groups, parts.groups) * splits,
            self.conv.input.batch,
        )

    def table(self, rows: int) -> np.ndarray:
        """For each phase the number of its first tap, and the end; each tap's place in the copy; and in the filter."""
        conv, counts = self.conv, [0]
        places, sources = [], []
        *_, height, width = conv.filter.strides
        sh, sw, remainder = self.rows.stride, self.columns.stride, self.remainder(rows)
        for down in self.rows.taps:
            for across in self.columns.taps:
                for h, u in down:
                    for v, t in across:
                        places.append(
                            (h % sh * self.columns.copied + v % sw) * remainder + h // sh * self.pitch + v // sw
                        )
                        sources.append(u * height + t * width)
                counts.append(len(places))
        return np.array([*counts, *places, *sources], np.int64)


def can_pixels(conv: Convolution, facts: DeviceFacts) -> bool:
    """Whether conv_pixels.cl computes `conv`: its rows fit the copy."""
    cut = Cut(conv)
    return max(cut.rows.stride, cut.columns.stride) <= MOST_STRIDE and cut.parts(facts) is not None


def pixels_pay(conv: Convolution, facts: DeviceFacts) -> bool:
    """Whether lanes of pixels are faster than lanes of channels: for small groups, for few outputs unless rows can be
    copied together, and where a transposed convolution would be turned twice."""
    outputs, planar = conv.outputs_a_group, conv.output.layout == "nchw"
    if conv.groups > 1:
        pays = outputs <= MOST_OUTPUTS
    elif conv.transposed:
        pays = planar or outputs < PANEL
    else:
        pays = outputs <= FEW_OUTPUTS and conv.input.channels >= FEW_CHANNELS
    return pays and can_pixels(conv, facts) and Cut(conv).lanes_used >= FEWEST_LANES


def lower_pixels(conv: Convolution, lw: Lowering) -> None:
    """One launch."""
    cut, tail, inputs = Cut(conv), lw.tail(conv.node), conv.node.inputs
    parts = cut.parts(lw.facts)
    assert parts is not None
    table = lw.host_constant(cut.table(parts.rows))
    bias: list[Arg] = [inputs["bias"]] if "bias" in inputs else []
    args: list[Arg] = [inputs["input"], _packed(conv, lw, cut, parts, table), table, *bias, tail.output]
    args += [dims((image.height, image.width, image.channels)) for image in (conv.input, conv.output)]
    rows, columns = cut.rows, cut.columns
    args += [
        dims((rows.grid, columns.grid, len(rows.taps), len(columns.taps))),
        dims(
            (rows.stride, columns.stride, rows.base, columns.base, rows.copied, columns.copied, rows.mask, columns.mask)
        ),
        dims((cut.pitch, rows.reach + 1, cut.remainder(parts.rows), cut.plane(parts.rows))),
        dims((conv.inputs_a_group, conv.outputs_a_group, parts.groups, parts.outputs, parts.inputs, parts.rows)),
    ]
    defines = {
        "T": dtype_of(conv.node.output.data_type).storage,
        "HAS_BIAS": int("bias" in inputs),
        "LAST": int(conv.input.layout == "nhwc"),
        "ROOM": ROOM,
    }
    kernel = tile_kernel("conv_pixels.cl", "conv_pixels", defines, tail)
    lw.launch(kernel, [*args, *tail.args], cut.grid(parts))


def _packed(conv: Convolution, lw: Lowering, cut: Cut, parts: Parts, table: Value) -> Buffer:
    """The filter in blocks of 4 output channels."""
    group, output, input_, height, width = conv.filter.strides
    blocks = ceil_div(conv.outputs_a_group, BLOCK)
    together = min(parts.inputs, conv.inputs_a_group)
    counts = (cut.phases, conv.groups, conv.outputs_a_group, conv.inputs_a_group, together)
    numbers = (*counts, group, output, input_)

    def emit(lw: Lowering, source: Value, target: Buffer) -> None:
        kernel = tile_kernel("pack.cl", "pack_pixels", {"S": dtype_of(source.data_type).storage})
        args: list[Arg] = [source, target, table, *(np.int64(v) for v in numbers)]
        lw.launch(kernel, args, (conv.inputs_a_group, blocks, conv.groups))

    taps = sum(len(r) * len(c) for r in cut.rows.taps for c in cut.columns.taps)
    sources = tuple(u * height + t * width for d in cut.rows.taps for a in cut.columns.taps for _, u in d for _, t in a)
    size = taps * conv.inputs_a_group * conv.groups * blocks * BLOCK
    return lw.packed(conv.node.inputs["filter"], ("conv_pixels", *numbers, sources), 4 * size, emit)
