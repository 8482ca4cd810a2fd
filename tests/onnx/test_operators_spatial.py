"""Convolution, pooling and resizing in one to three dimensions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import webnn_cl
from tests.onnx.models import Case, check, numbers, whole


def test_conv_attributes(context: webnn_cl.MLContext) -> None:
    x, w = numbers(2, 4, 9, 7), numbers(6, 4, 3, 3, seed=1)
    line, wl = numbers(1, 2, 11), numbers(3, 2, 4, seed=2)
    cases = [
        Case("Conv", [x, w, numbers(6)], {"pads": [1, 2, 0, 1], "strides": [2, 1]}, known=[1, 2]),
        Case("Conv", [x, w], {"auto_pad": "SAME_UPPER", "strides": [2, 2]}, known=[1]),
        Case("Conv", [x, w], {"auto_pad": "SAME_LOWER", "strides": [3, 2], "dilations": [1, 1]}, known=[1]),
        Case("Conv", [x, w], {"auto_pad": "VALID", "dilations": [2, 2]}, known=[1]),
        Case("Conv", [x, numbers(6, 2, 3, 3, seed=3)], {"group": 2}),
        Case("Conv", [x, numbers(8, 1, 2, 2, seed=4)], {"group": 4}, known=[1]),
        Case("Conv", [line, wl, numbers(3)], {"pads": [2, 1], "strides": [2], "dilations": [2]}, known=[1, 2]),
        Case("Conv", [line, wl], {"auto_pad": "SAME_UPPER"}),
    ]
    check(context, cases, rtol=1e-3, atol=1e-4)


def test_conv_3d(context: webnn_cl.MLContext) -> None:
    x, w = numbers(1, 2, 5, 6, 4), numbers(3, 2, 2, 3, 2, seed=1)
    attrs = {"pads": [1, 0, 1, 0, 1, 1], "strides": [2, 1, 1], "dilations": [1, 2, 1]}
    cases = [Case("Conv", [x, w, numbers(3)], attrs, known=[1, 2]), Case("Conv", [x, w])]
    check(context, cases, rtol=1e-3, atol=1e-4)


def test_conv_transpose(context: webnn_cl.MLContext) -> None:
    x, w = numbers(1, 4, 5, 3), numbers(4, 2, 3, 3, seed=1)
    cases = [
        Case("ConvTranspose", [x, w, numbers(2)], {"strides": [2, 3], "pads": [1, 0, 1, 2]}, known=[1, 2]),
        Case("ConvTranspose", [x, w], {"strides": [2, 2], "output_padding": [1, 1]}),
        Case("ConvTranspose", [x, w], {"strides": [2, 2], "auto_pad": "SAME_UPPER"}),
        Case("ConvTranspose", [x, w], {"strides": [3, 2], "output_shape": [15, 7]}),
        Case("ConvTranspose", [x, numbers(4, 3, 2, 2)], {"group": 2, "dilations": [2, 1]}),
        Case("ConvTranspose", [numbers(2, 3, 6), numbers(3, 2, 4)], {"strides": [3], "pads": [1, 2]}),
        Case("ConvTranspose", [numbers(1, 2, 3, 2, 3), numbers(2, 2, 2, 3, 2), numbers(2)],
             {"strides": [2, 1, 2], "pads": [1, 0, 0, 0, 1, 1], "output_padding": [1, 0, 0]}),
    ]  # fmt: skip
    check(context, cases, 11, rtol=1e-3, atol=1e-4)


def test_pooling(context: webnn_cl.MLContext) -> None:
    x = numbers(2, 3, 10, 9)
    base: dict[str, Any] = {"kernel_shape": [3, 2], "strides": [2, 3], "pads": [1, 0, 1, 1]}
    cases = [
        Case("MaxPool", [x], base),
        Case("MaxPool", [x], {**base, "ceil_mode": 1}),
        Case("MaxPool", [x], {"kernel_shape": [3, 3], "dilations": [2, 2]}),
        Case("MaxPool", [x], {**base, "storage_order": 0}, outputs=2),
        Case("MaxPool", [x], {"kernel_shape": [2, 2], "strides": [2, 2], "storage_order": 1}, outputs=2),
        Case("MaxPool", [whole(1, 2, 6, 6, low=-100, high=100, dtype="int8")], {"kernel_shape": [2, 2]}),
        Case("MaxPool", [numbers(2, 3, 8)], {"kernel_shape": [3], "strides": [2], "pads": [1, 1]}),
        Case("MaxPool", [numbers(1, 2, 6, 7, 5)], {"kernel_shape": [2, 3, 2], "strides": [2, 2, 1]}),
        Case("AveragePool", [x], base),
        Case("AveragePool", [x], {**base, "count_include_pad": 1}),
        Case("AveragePool", [x], {"kernel_shape": [3, 3], "strides": [2, 2], "auto_pad": "SAME_UPPER"}),
        Case("AveragePool", [numbers(1, 2, 4, 5, 6)], {"kernel_shape": [2, 2, 2], "strides": [2, 1, 2]}),
        Case("AveragePool", [numbers(1, 2, 7)], {"kernel_shape": [3], "ceil_mode": 1, "strides": [2]}),
        Case("LpPool", [x], {"kernel_shape": [2, 2], "strides": [2, 2], "p": 2}),
        Case("LpPool", [x], {"kernel_shape": [2, 2], "p": 3}),
        Case("LpPool", [x], {"kernel_shape": [2, 2], "p": 1, "pads": [1, 1, 0, 0]}),
    ]
    check(context, cases, rtol=1e-3)


def test_global_pooling(context: webnn_cl.MLContext) -> None:
    ops = ("GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool")
    cases = [Case(op, [x]) for op in ops for x in (numbers(2, 3, 4, 5), numbers(2, 3, 6), numbers(1, 2, 3, 4, 2))]
    check(context, [*cases, Case("GlobalLpPool", [numbers(2, 3, 4, 5)], {"p": 1})])


def test_max_unpool(context: webnn_cl.MLContext) -> None:
    x = np.array([[[[5, 6], [7, 8]]]], np.float32)
    index = np.array([[[[5, 7], [13, 15]]]], np.int64)
    check(context, [Case("MaxUnpool", [x, index], {"kernel_shape": [2, 2], "strides": [2, 2]})], 11)


RESIZED = [
    ("nearest", mode, rounding, sizes)
    for mode in ("half_pixel", "align_corners", "asymmetric", "pytorch_half_pixel")
    for rounding in ("round_prefer_floor", "floor", "ceil", "round_prefer_ceil")
    for sizes in ([1, 2, 9, 4], [1, 2, 5, 10])
] + [
    (kind, mode, "floor", sizes)
    for kind in ("linear", "cubic")
    for mode in ("half_pixel", "align_corners", "asymmetric", "pytorch_half_pixel")
    for sizes in ([1, 2, 9, 4], [1, 2, 12, 14], [1, 2, 3, 7])
]


def test_resize_sizes(context: webnn_cl.MLContext) -> None:
    x = numbers(1, 2, 6, 7)
    cases = [
        Case("Resize", [x, None, None, np.array(sizes, np.int64)],
             {"mode": kind, "coordinate_transformation_mode": mode, "nearest_mode": rounding}, known=[3])
        for kind, mode, rounding, sizes in RESIZED
    ]  # fmt: skip
    check(context, cases, 13, rtol=1e-3, atol=1e-4)


def test_resize_scales_and_roi(context: webnn_cl.MLContext) -> None:
    x, wide = numbers(1, 2, 4, 6), numbers(1, 1, 3, 4, 5)
    roi = np.array([0, 0, 0.2, 0.1, 1, 1, 0.8, 1.2], np.float32)
    scales = np.array([1, 1, 1.6, 0.7], np.float32)
    crop = {"mode": "linear", "coordinate_transformation_mode": "tf_crop_and_resize", "extrapolation_value": 7.0}
    cases = [
        Case("Resize", [x, None, scales], {"mode": "linear"}, known=[2]),
        Case("Resize", [x, None, scales], {"mode": "nearest"}, known=[2]),
        Case("Resize", [x, None, scales], {"mode": "cubic", "exclude_outside": 1}, known=[2]),
        Case("Resize", [x, roi, None, np.array([1, 2, 3, 5], np.int64)], crop, known=[1, 3]),
        Case("Resize", [wide, None, np.array([1, 1, 2, 2, 1], np.float32)], {"mode": "nearest"}, known=[2]),
    ]
    check(context, cases, 13, rtol=1e-3, atol=1e-4)


def test_upsample_of_operator_sets_7_and_9(context: webnn_cl.MLContext) -> None:
    x = numbers(1, 2, 3, 4)
    modes = ("nearest", "linear")
    check(context, [Case("Upsample", [x], {"mode": m, "scales": [1.0, 1.0, 2.0, 3.0]}) for m in modes], 7)
    scales = np.array([1, 1, 2, 2], np.float32)
    check(context, [Case("Upsample", [x, scales], {"mode": m}, known=[1]) for m in modes], 9)


@pytest.mark.parametrize("mode", ["bilinear", "nearest", "bicubic"])
def test_grid_sample(context: webnn_cl.MLContext, mode: str) -> None:
    x, grid = numbers(2, 3, 5, 6), numbers(2, 4, 3, 2, seed=1, low=-1.4, high=1.4)
    cases = [
        Case("GridSample", [x, grid], {"mode": mode, "padding_mode": p, "align_corners": a})
        for p in ("zeros", "border", "reflection") for a in (0, 1)
    ]  # fmt: skip
    check(context, cases, 16, rtol=1e-3, atol=1e-4)


def test_roi_align(context: webnn_cl.MLContext) -> None:
    x, batch = numbers(2, 3, 10, 10), np.array([0, 1, 1], np.int64)
    rois = np.array([[0, 0, 9, 9], [1.5, 2.5, 6, 7], [-3, 2, 12, 4]], np.float32)
    attrs = {"output_height": 3, "output_width": 2, "sampling_ratio": 2, "spatial_scale": 0.9}
    modes = ("half_pixel", "output_half_pixel")
    cases = [Case("RoiAlign", [x, rois, batch], {**attrs, "coordinate_transformation_mode": m}) for m in modes]
    check(context, cases, 16, rtol=1e-3)
