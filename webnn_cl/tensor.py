"""MLTensor: a typed, shaped piece of device memory that belongs to one context."""

from __future__ import annotations

import weakref
from collections.abc import Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any

import numpy as np

from webnn_cl.compiler.ir import TensorDesc
from webnn_cl.dtypes import DataType
from webnn_cl.errors import InvalidStateError, MLTypeError
from webnn_cl.opencl import fork

if TYPE_CHECKING:
    from webnn_cl.context import MLContext
    from webnn_cl.opencl.memory import Storage
    from webnn_cl.opencl.transfer import PendingRead

__all__ = ["MLTensor", "check_flags"]


class MLTensor:
    """Device memory with a data type and a shape, packed row-major (W3C WebNN, "The MLTensor interface").

    Made by ``context.create_tensor``, ``create_constant_tensor`` and ``import_buffer``. Attributes stay readable
    after ``destroy()``. ``with`` destroys the tensor at the end. ``numpy.asarray(tensor)`` is a read.
    """

    __slots__ = ("__weakref__", "_constant", "_context", "_desc", "_destroyed", "_exportable", "_pending",
                 "_readable", "_storage", "_writable")  # fmt: skip

    def __init__(
        self,
        context: MLContext,
        desc: TensorDesc,
        storage: Storage,
        *,
        readable: bool = False,
        writable: bool = False,
        exportable: bool = False,
        constant: bool = False,
    ) -> None:
        self._context = context
        self._desc = desc
        self._storage = storage
        self._readable = readable
        self._writable = writable
        self._exportable = exportable
        self._constant = constant
        self._destroyed = ""
        self._pending: weakref.WeakSet[PendingRead] = weakref.WeakSet()

    @property
    def context(self) -> MLContext:
        """The context that the tensor belongs to."""
        return self._context

    @property
    def shape(self) -> tuple[int, ...]:
        """Dimensions; () for a scalar."""
        return self._desc.shape

    @property
    def data_type(self) -> DataType:
        """Element type, such as ``"float32"``."""
        return self._desc.data_type

    @property
    def nbytes(self) -> int:
        """Number of elements times their size, in bytes."""
        return self._desc.nbytes

    @property
    def readable(self) -> bool:
        """Whether ``read_tensor`` may be used."""
        return self._readable

    @property
    def writable(self) -> bool:
        """Whether ``write_tensor`` may be used."""
        return self._writable

    @property
    def exportable(self) -> bool:
        """Whether ``export_tensor`` may be used."""
        return self._exportable

    @property
    def constant(self) -> bool:
        """Whether this is a constant tensor, usable only in ``MLGraphBuilder.constant``."""
        return self._constant

    def destroy(self) -> None:
        """Give up the memory behind the work already queued; pending reads fail with InvalidStateError. Repeatable."""
        self._end("the tensor was destroyed")

    def _end(self, reason: str, failure: type[InvalidStateError] = InvalidStateError) -> None:
        if fork.forked:  # the lock may be held by a thread that the child doesn't have
            self._destroyed = self._destroyed or reason
            return
        with self._context._timeline.lock:
            if self._destroyed:
                return
            self._destroyed = reason
            pending = list(self._pending)
            self._pending.clear()
            # Work that is queued, or waits for a lease, holds the memory it uses.
            del self._storage
        for read in pending:
            read.reject(failure(f"read_tensor: {reason} while the read was pending"))

    def _check_usable(self, context: MLContext, where: str) -> None:
        """MLTypeError unless this tensor belongs to `context` and lives."""
        if self._context is not context:
            raise MLTypeError(f"{where}: got a tensor of another context; allowed: tensors of this context")
        if self._destroyed:
            raise MLTypeError(f"{where}: {self._destroyed}")

    def _check_usable_constant(self, context: MLContext) -> None:
        """MLTypeError unless this is a living constant tensor of `context` (``constant(tensor)``)."""
        self._check_usable(context, "constant")
        if not self._constant:
            raise MLTypeError(f"constant: got {self!r}; allowed: tensors made by create_constant_tensor")

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        """A copy of the data on the host, as ``context.read_tensor`` gives it."""
        if copy is False:
            raise ValueError("an MLTensor has no host memory to share; use context.map_tensor for a view")
        data: np.ndarray[Any, Any] = self._context.read_tensor(self)
        return data if dtype is None else data.astype(dtype, copy=False)

    def __enter__(self) -> MLTensor:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.destroy()

    def __reduce__(self) -> Any:
        raise InvalidStateError("an MLTensor belongs to this process's device memory and can't be pickled")

    def __repr__(self) -> str:
        flags = [f for f in ("readable", "writable", "exportable", "constant") if getattr(self, f)]
        flags += ["destroyed"] if self._destroyed else []
        return f"<MLTensor {self._desc}{''.join(' ' + f for f in flags)}>"


def check_flags(flags: Mapping[str, object], where: str) -> None:
    """MLTypeError unless every flag is a bool."""
    for name, value in flags.items():
        if not isinstance(value, (bool, np.bool_)):
            raise MLTypeError(f"{where}: {name}: got {value!r}; allowed: True, False")
