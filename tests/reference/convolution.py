"""Two-dimensional convolutions (operators.json: convolution), as sums over the taps of the filter."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tests.reference.numbers import Array, wide
from tests.reference.registry import operator

TO_NCHW = {"nchw": (0, 1, 2, 3), "nhwc": (0, 3, 1, 2)}
FROM_NCHW = {"nchw": (0, 1, 2, 3), "nhwc": (0, 2, 3, 1)}


def reorder(x: Array, source: str, target: str) -> Array:
    """Transpose between layouts written as words of the same letters ("hwio" to "oihw")."""
    return x.transpose([source.index(letter) for letter in target])


def _add_bias(y: Array, bias: Array | None) -> Array:
    return y if bias is None else y + wide(bias).reshape(1, -1, 1, 1)


@operator()
def conv2d(
    input: Array,
    filter: Array,
    *,
    bias: Array | None = None,
    padding: Sequence[int] = (0, 0, 0, 0),
    strides: Sequence[int] = (1, 1),
    dilations: Sequence[int] = (1, 1),
    groups: int = 1,
    input_layout: str = "nchw",
    filter_layout: str = "oihw",
) -> Array:
    top, bottom, left, right = padding
    (sh, sw), (dh, dw) = strides, dilations
    x = wide(input).transpose(TO_NCHW[input_layout])
    w = reorder(wide(filter), filter_layout, "oihw")
    x = np.pad(x, ((0, 0), (0, 0), (top, bottom), (left, right)))
    (n, _, ih, iw), (oc, icg, kh, kw) = x.shape, w.shape
    oh, ow = (ih - (kh - 1) * dh - 1) // sh + 1, (iw - (kw - 1) * dw - 1) // sw + 1
    xg, wg = x.reshape(n, groups, icg, ih, iw), w.reshape(groups, oc // groups, icg, kh, kw)
    y = np.zeros((n, groups, oc // groups, oh, ow))
    for r in range(kh):
        for c in range(kw):
            rows, columns = slice(r * dh, r * dh + (oh - 1) * sh + 1, sh), slice(c * dw, c * dw + (ow - 1) * sw + 1, sw)
            y += np.einsum("ngihw,goi->ngohw", xg[..., rows, columns], wg[..., r, c], optimize=True)
    return _add_bias(y.reshape(n, oc, oh, ow), bias).transpose(FROM_NCHW[input_layout])


@operator()
def conv_transpose2d(
    input: Array,
    filter: Array,
    *,
    bias: Array | None = None,
    padding: Sequence[int] = (0, 0, 0, 0),
    strides: Sequence[int] = (1, 1),
    dilations: Sequence[int] = (1, 1),
    output_padding: Sequence[int] = (0, 0),
    output_sizes: Sequence[int] | None = None,
    groups: int = 1,
    input_layout: str = "nchw",
    filter_layout: str = "iohw",
) -> Array:
    top, bottom, left, right = padding
    (sh, sw), (dh, dw) = strides, dilations
    x = wide(input).transpose(TO_NCHW[input_layout])
    w = reorder(wide(filter), filter_layout, "iohw")
    (n, ic, ih, iw), (_, ocg, kh, kw) = x.shape, w.shape
    full = (ih - 1) * sh + (kh - 1) * dh + 1, (iw - 1) * sw + (kw - 1) * dw + 1
    calculated = full[0] - top - bottom, full[1] - left - right
    oh, ow = output_sizes or (calculated[0] + output_padding[0], calculated[1] + output_padding[1])
    xg, wg = x.reshape(n, groups, ic // groups, ih, iw), w.reshape(groups, ic // groups, ocg, kh, kw)
    canvas = np.zeros((n, groups, ocg, max(full[0], top + oh), max(full[1], left + ow)))
    for r in range(kh):
        for c in range(kw):
            rows, columns = slice(r * dh, r * dh + (ih - 1) * sh + 1, sh), slice(c * dw, c * dw + (iw - 1) * sw + 1, sw)
            canvas[..., rows, columns] += np.einsum("ngihw,gio->ngohw", xg, wg[..., r, c], optimize=True)
    y = canvas[..., top : top + oh, left : left + ow].reshape(n, groups * ocg, oh, ow)
    return _add_bias(y, bias).transpose(FROM_NCHW[input_layout])
