"""Drawn calls of convolutions, pooling, resampling and the normalization of images."""

from __future__ import annotations

from typing import Any

from tests.cases import T
from tests.drawing.plan import SUMMED, Plan, planner
from tests.drawing.source import Source, boolean, divisor
from tests.reference.pooling import output_sizes_of

Shape = tuple[int, ...]
FINITE = ("small", "positive", "unit", "ties")


def _image(shape: Shape, layout: str) -> tuple[int, int, int]:
    """Channels, height, width."""
    return (shape[1], shape[2], shape[3]) if layout == "nchw" else (shape[3], shape[1], shape[2])


def _window(source: Source, height: int, width: int, largest: int = 4) -> dict[str, Any]:
    """Window size, padding, strides and dilations that leave at least one output position."""
    padding = [source.integer(0, 2) for _ in range(4)]
    strides = [source.integer(1, 3) for _ in range(2)]
    window, dilations = [], []
    for size, pads in ((height, padding[0] + padding[1]), (width, padding[2] + padding[3])):
        length = source.integer(1, min(largest, size + pads))
        window.append(length)
        most = (size + pads - 1) // (length - 1) if length > 1 else 3
        dilations.append(source.integer(1, max(1, min(3, most))))
    return {"window": window, "padding": padding, "strides": strides, "dilations": dilations}


@planner("average_pool2d", "l2_pool2d", "max_pool2d")
def pool(source: Source, shape: Shape, data_type: str) -> Plan:
    layout = source.choice(("nchw", "nhwc"))
    _, height, width = _image(shape, layout)
    if boolean(source):
        return Plan(attrs={"layout": layout}, first=FINITE)
    drawn = _window(source, height, width)
    window = drawn.pop("window")
    # Padding stays below the window, so that no window lies in padding alone (average and spec are silent there).
    for side in range(4):
        effective = (window[side // 2] - 1) * drawn["dilations"][side // 2]
        drawn["padding"][side] = min(drawn["padding"][side], effective, 1 if drawn["dilations"][side // 2] > 1 else 9)
    attrs = {"window_dimensions": window, "layout": layout, **drawn}
    floor, ceil = output_sizes_of((height, width), window, drawn["padding"], drawn["strides"], drawn["dilations"])
    if min(floor) < 1 or not _all_windows_meet_the_input((height, width), attrs, ceil):
        return Plan(attrs={"layout": layout}, first=FINITE)
    kind = source.choice(("floor", "ceil", "sizes"))
    extra = {"output_sizes": list(source.choice((floor, ceil)))} if kind == "sizes" else {"output_shape_rounding": kind}
    return Plan(attrs={**attrs, **extra}, first=FINITE)


def _all_windows_meet_the_input(spatial: tuple[int, int], attrs: dict[str, Any], outputs: tuple[int, int]) -> bool:
    for d in range(2):
        for position in range(outputs[d]):
            start = position * attrs["strides"][d] - attrs["padding"][2 * d]
            taps = [start + k * attrs["dilations"][d] for k in range(attrs["window_dimensions"][d])]
            if not any(0 <= tap < spatial[d] for tap in taps):
                return False
    return True


def _filter(source: Source, layout: str, sizes: dict[str, int], data_type: str) -> T:
    return T(tuple(sizes[letter] for letter in layout), data_type, source.choice(("unit", "small")))


@planner("conv2d")
def conv2d(source: Source, shape: Shape, data_type: str) -> Plan:
    layout, filter_layout = source.choice(("nchw", "nhwc")), source.choice(("oihw", "hwio", "ohwi", "ihwo"))
    channels, height, width = _image(shape, layout)
    groups = divisor(source, channels)
    outputs = groups * source.integer(1, 4)
    drawn = _window(source, height, width)
    h, w = drawn.pop("window")
    sizes = {"o": outputs, "i": channels // groups, "h": h, "w": w}
    operands = {"filter": _filter(source, filter_layout, sizes, data_type)}
    if boolean(source):
        operands["bias"] = T((outputs,), data_type, "small")
    attrs = {"groups": groups, "input_layout": layout, "filter_layout": filter_layout, **drawn}
    return Plan(operands, attrs, FINITE)


@planner("conv_transpose2d")
def conv_transpose2d(source: Source, shape: Shape, data_type: str) -> Plan | None:
    layout, filter_layout = source.choice(("nchw", "nhwc")), source.choice(("iohw", "hwoi", "ohwi"))
    channels, height, width = _image(shape, layout)
    groups = divisor(source, channels)
    per_group = source.integer(1, 3)
    h, w = source.integer(1, 4), source.integer(1, 4)
    strides = [source.integer(1, 3) for _ in range(2)]
    dilations = [source.integer(1, 2) for _ in range(2)]
    full = [
        (n - 1) * s + (k - 1) * d + 1 for n, s, k, d in zip((height, width), strides, (h, w), dilations, strict=True)
    ]
    padding = [source.integer(0, min(2, (full[side // 2] - 1) // 2)) for side in range(4)]
    calculated = [full[d] - padding[2 * d] - padding[2 * d + 1] for d in range(2)]
    extra = [source.integer(0, s - 1) for s in strides]
    attrs: dict[str, Any] = {"groups": groups, "strides": strides, "dilations": dilations, "padding": padding}
    if boolean(source):
        attrs["output_sizes"] = [size + more for size, more in zip(calculated, extra, strict=True)]
    else:
        attrs["output_padding"] = extra
    sizes = {"i": channels, "o": per_group, "h": h, "w": w}
    operands = {"filter": _filter(source, filter_layout, sizes, data_type)}
    if boolean(source):
        operands["bias"] = T((per_group * groups,), data_type, "small")
    return Plan(operands, {**attrs, "input_layout": layout, "filter_layout": filter_layout}, FINITE)


@planner("resample2d")
def resample2d(source: Source, shape: Shape, data_type: str) -> Plan:
    first = source.integer(0, 3)
    second = (first + source.integer(1, 3)) % 4
    attrs: dict[str, Any] = {"axes": [first, second], "mode": source.choice(("nearest-neighbor", "linear"))}
    if boolean(source):
        attrs["sizes"] = [source.integer(1, 12), source.integer(1, 12)]
    else:
        attrs["scales"] = [source.choice((1.0, 2.0, 3.0, 1.5)) for _ in range(2)]
    return Plan(attrs=attrs, first=("small", "range:0:100", "wide" if "int" in data_type else "unit"))


@planner("instance_normalization")
def instance_normalization(source: Source, shape: Shape, data_type: str) -> Plan:
    layout = source.choice(("nchw", "nhwc"))
    channels = (_image(shape, layout)[0],)
    operands = {role: T(channels, data_type, "small") for role in ("scale", "bias") if boolean(source)}
    attrs = {"layout": layout, "epsilon": source.choice((1e-5, 0.01, 1.0))}
    return Plan(operands, attrs, ("small", "positive", "unit"))


@planner("batch_normalization")
def batch_normalization(source: Source, shape: Shape, data_type: str) -> Plan:
    axis = source.integer(0, len(shape) - 1)
    channels = (shape[axis],)
    operands = {"mean": T(channels, data_type, "small"), "variance": T(channels, data_type, "positive")}
    operands |= {role: T(channels, data_type, "small") for role in ("scale", "bias") if boolean(source)}
    return Plan(operands, {"axis": axis, "epsilon": source.choice((1e-5, 0.0, 0.1))}, SUMMED)
