"""What convolution, pooling and instance normalization share: layouts of image tensors and window options."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from webnn_cl.ops.strided import packed_strides

if TYPE_CHECKING:
    from webnn_cl.ops.base import Call

__all__ = ["IMAGE_LAYOUTS", "Image", "ImageLayout", "Window", "parse_window"]

ImageLayout = Literal["nchw", "nhwc"]
IMAGE_LAYOUTS: tuple[ImageLayout, ...] = ("nchw", "nhwc")


@dataclass(frozen=True)
class Image:
    """Extents of a rank-4 tensor by meaning, and its layout."""

    batch: int
    channels: int
    height: int
    width: int
    layout: str

    @classmethod
    def of(cls, shape: Sequence[int], layout: str) -> Image:
        """The image tensor of `shape`, whose dimensions `layout` names ("nchw" or "nhwc")."""
        n, c, h, w = (shape[layout.index(letter)] for letter in "nchw")
        return cls(n, c, h, w, layout)

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """Dimensions in the order of the layout."""
        if self.layout == "nchw":
            return self.batch, self.channels, self.height, self.width
        return self.batch, self.height, self.width, self.channels

    @property
    def strides(self) -> tuple[int, int, int, int]:
        """Element strides of batch, channel, row and column."""
        strides = packed_strides(self.shape)
        n, c, h, w = (strides[self.layout.index(letter)] for letter in "nchw")
        return n, c, h, w


@dataclass(frozen=True)
class Window:
    """Padding ``(top, bottom, left, right)``, strides and dilations ``(height, width)``."""

    padding: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]

    def pads(self, d: int) -> int:
        """Both paddings of spatial dimension `d` (0 height, 1 width) together."""
        return self.padding[2 * d] + self.padding[2 * d + 1]

    def slack(self, d: int, extent: int, kernel: int) -> int:
        """How far the window can travel along dimension `d`; negative when it does not fit."""
        return extent - ((kernel - 1) * self.dilations[d] + 1) + self.pads(d)


def parse_window(
    call: Call,
    padding: Sequence[int] | None,
    strides: Sequence[int] | None,
    dilations: Sequence[int] | None,
) -> Window:
    """The window options, with defaults for those that are missing."""
    return Window(
        (0, 0, 0, 0) if padding is None else call.u32_list("padding", padding, length=4),
        (1, 1) if strides is None else call.u32_list("strides", strides, length=2, minimum=1),
        (1, 1) if dilations is None else call.u32_list("dilations", dilations, length=2, minimum=1),
    )
