"""The methods of MLContext that share tensors with user-written OpenCL code, the host, and other contexts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

from webnn_cl.errors import MLError
from webnn_cl.future import MLFuture
from webnn_cl.interop.copying import copy_tensor
from webnn_cl.interop.importing import import_tensor
from webnn_cl.interop.lease import Lease, LeaseRequest
from webnn_cl.interop.mapping import HostLease, map_tensor

if TYPE_CHECKING:
    from webnn_cl.context import MLContext
    from webnn_cl.tensor import MLTensor

__all__ = ["SharingMixin"]


class SharingMixin:
    """Leases, imports and copies; a part of MLContext."""

    def export_tensor(self, tensor: MLTensor, *, queue: Any = None) -> Lease:
        """Lease an exportable tensor to user-written OpenCL kernels: ``with ctx.export_tensor(t) as lease:``.

        From this call until the block ends (or ``lease.release()``), work that depends on the tensor waits, in call
        order, and independent work goes on. On the context's own queue nothing waits. Another `queue` of the same
        pyopencl.Context is made to wait for earlier work by an event; a queue of another pyopencl.Context gets a copy,
        which is copied back on return. Leaving by an exception returns the tensor.

        Raises MLTypeError for a tensor that is not exportable, foreign or destroyed; InvalidStateError when it is
        leased already, when earlier work on it waits for another lease of this thread, or when the context is lost.
        """
        return LeaseRequest(_context(self), tensor, queue).wait()

    def export_tensor_async(self, tensor: MLTensor, *, queue: Any = None) -> MLFuture[Lease]:
        """As `export_tensor`, without waiting; every failure arrives through the future."""
        try:
            return LeaseRequest(_context(self), tensor, queue).future
        except MLError as error:
            return MLFuture.rejected(error)

    def map_tensor(self, tensor: MLTensor) -> HostLease:
        """Lease a tensor to the host: ``with ctx.map_tensor(t) as view:`` gives a numpy array of it.

        Waits for earlier work on the tensor. Where the device shares memory with the host the view is the tensor's own
        memory; elsewhere it is a copy, written back at the end. The tensor must be exportable or readable; the view
        can be written when it is exportable or writable. Arrays made from the view must be gone when the block ends
        (InvalidStateError). Errors otherwise as for `export_tensor`.
        """
        return map_tensor(_context(self), tensor)

    def import_buffer(
        self,
        buffer: Any,
        shape: Sequence[int],
        data_type: object = "float32",
        *,
        readable: bool = False,
        writable: bool = False,
        exportable: bool = False,
    ) -> MLTensor:
        """A tensor over the user's own memory of this pyopencl.Context, without a copy.

        `buffer` is a pyopencl.Buffer (or sub-buffer) of at least the tensor's bytes, a C-contiguous
        pyopencl.array.Array of its type and size, or a DLPack object (kDLOpenCL; kDLCPU where the device shares memory
        with the host). The tensor keeps the memory alive: the user may release the buffer first. Outside of leases the
        user must not touch it. Raises MLTypeError for memory that doesn't fit.
        """
        return import_tensor(_context(self), buffer, shape, data_type, readable, writable, exportable)

    def copy_tensor(self, source: MLTensor, destination: MLTensor) -> None:
        """Copy `source`, a tensor of this or another context, to `destination`, a tensor of this one.

        Runs in order on both timelines, without waiting: from device to device within one pyopencl.Context, else
        through host memory. Raises MLTypeError unless type and shape are the same and neither is constant.
        """
        copy_tensor(_context(self), source, destination)


def _context(mixin: SharingMixin) -> MLContext:
    return cast("MLContext", mixin)
