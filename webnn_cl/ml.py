"""ML: the entry point that lists devices and makes contexts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from webnn_cl.context import MLContext
from webnn_cl.errors import MLTypeError
from webnn_cl.future import MLFuture, run_in_thread
from webnn_cl.opencl import fork
from webnn_cl.opencl.adopt import adopted, opened
from webnn_cl.opencl.choice import checked_preference, choose
from webnn_cl.opencl.devices import MLDevice, list_devices
from webnn_cl.opencl.facts import PRECISIONS

__all__ = ["ML"]


class ML:
    """Lists OpenCL devices and makes contexts on them (W3C WebNN, "The ML interface": ``navigator.ml``)."""

    def devices(self) -> tuple[MLDevice, ...]:
        """Every OpenCL device of every platform and type, best first for the default preference; may be empty."""
        return list_devices()

    def create_context(
        self,
        *,
        power_preference: str = "default",
        accelerated: bool = True,
        device: object = None,
        opencl: Any = None,
        require: Callable[[MLDevice], object] | None = None,
        profiling: bool = False,
        precision: str = "fast",
    ) -> MLContext:
        """A context on one device.

        * `power_preference`: ``"default"``, ``"high-performance"`` or ``"low-power"``; with the default,
          ``accelerated=False`` prefers CPUs. Hints never fail.
        * `device`: an MLDevice, a pyopencl.Device, an index into ``devices()``, an exact device name, or text found in
          "platform / device / driver version". The variable WEBNN_CL_DEVICE does the same when neither this nor
          `opencl` is given.
        * `opencl`: a pyopencl.Context or an in-order pyopencl.CommandQueue to work on.
        * `require`: a predicate on MLDevice that the device must fulfil.
        * `profiling`: record the time of every command.
        * `precision`: ``"fast"`` lets 3x3 convolutions use Winograd's algorithm where its error stays below 2e-5 of
          the largest result; ``"exact"`` adds up the very products of the specification's formula, with about a tenth
          of the error, in up to three times the time.

        Raises NotSupportedError when there is no such device, MLTypeError for bad arguments.
        """
        fork.check()
        preference = checked_preference(power_preference)
        for name, flag in (("accelerated", accelerated), ("profiling", profiling)):
            if not isinstance(flag, bool):
                raise MLTypeError(f"create_context: {name}: got {flag!r}; allowed: True, False")
        if not isinstance(precision, str) or precision not in PRECISIONS:
            raise MLTypeError(f"create_context: precision: got {precision!r}; allowed: {', '.join(PRECISIONS)}")
        if require is not None and not callable(require):
            raise MLTypeError(f"create_context: require: got {require!r}; allowed: a function of an MLDevice")
        if opencl is not None:
            connection = adopted(opencl, device, require, profiling)
        else:
            connection = opened(choose(preference, accelerated, device, require), profiling)
        return MLContext(connection, preference, precision)

    def create_context_async(self, **options: Any) -> MLFuture[MLContext]:
        """As `create_context`, on a thread of its own; every failure arrives through the future."""
        return run_in_thread(lambda: self.create_context(**options), "webnn_cl create_context")
