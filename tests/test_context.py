"""create_context and its options, adopted OpenCL objects, destruction and what follows it."""

from __future__ import annotations

import asyncio
import gc
import pickle
import subprocess
import sys
import weakref
from typing import Any

import numpy as np
import pyopencl as cl
import pytest

import webnn_cl
from tests.work import affine, tensor
from webnn_cl import InvalidStateError, MLTypeError, NotSupportedError
from webnn_cl.opencl import adopt

ML = webnn_cl.ML()


@pytest.mark.parametrize("preference", ["default", "high-performance", "low-power"])
@pytest.mark.parametrize("accelerated", [True, False])
def test_hints_never_fail(preference: str, accelerated: bool) -> None:
    with ML.create_context(power_preference=preference, accelerated=accelerated) as context:
        assert context.power_preference == preference
        assert context.accelerated == (context.device.type != "cpu")


@pytest.mark.parametrize(
    "options",
    [
        {"power_preference": "fast"},
        {"power_preference": None},
        {"power_preference": 1},
        {"accelerated": 1},
        {"accelerated": "yes"},
        {"profiling": "yes"},
        {"require": True},
        {"opencl": 5},
        {"opencl": object()},
        {"device": 1.5},
    ],
)
def test_bad_options_are_type_errors(options: dict[str, Any]) -> None:
    with pytest.raises(MLTypeError):
        ML.create_context(**options)
    with pytest.raises(MLTypeError):
        ML.create_context_async(**options).result(60)


def test_options_are_keywords_only_and_unknown_ones_are_pythons_type_error() -> None:
    with pytest.raises(TypeError):
        ML.create_context("default")  # type: ignore[misc]
    with pytest.raises(TypeError):
        ML.create_context(power="default")  # type: ignore[call-arg]


def test_create_context_async_with_and_without_a_loop() -> None:
    async def main() -> None:
        context = await ML.create_context_async()
        assert isinstance(context, webnn_cl.MLContext)
        context.destroy()

    asyncio.run(main())
    ML.create_context_async().result(60).destroy()
    with pytest.raises(NotSupportedError):
        ML.create_context_async(device="no such device").result(60)


def test_what_a_context_says_about_itself(context: webnn_cl.MLContext) -> None:
    assert context.device.cl_device in context.cl_context.devices
    assert context.queue.context == context.cl_context and context.queue.device == context.device.cl_device
    assert not context.queue.properties & cl.command_queue_properties.OUT_OF_ORDER_EXEC_MODE_ENABLE
    assert not context.is_lost and not context.lost.done()
    assert context.device.name in repr(context)
    limits = context.op_support_limits()
    assert limits["maxTensorByteLength"] <= context.device.cl_device.max_mem_alloc_size
    with pytest.raises(InvalidStateError):
        pickle.dumps(context)


def test_profiling_contexts_record_times() -> None:
    with ML.create_context(profiling=True) as context:
        assert context.queue.properties & cl.command_queue_properties.PROFILING_ENABLE
        event = cl.enqueue_marker(context.queue)
        event.wait()
        assert event.profile.end >= event.profile.queued
    with ML.create_context() as context:
        assert not context.queue.properties & cl.command_queue_properties.PROFILING_ENABLE


# Adopted OpenCL objects ---------------------------------------------------------------------------------------


def own_context() -> Any:
    """A pyopencl.Context as a user would make it."""
    return cl.Context([ML.devices()[0].cl_device])


def test_adopts_a_pyopencl_context() -> None:
    mine = own_context()
    with ML.create_context(opencl=mine) as context:
        assert context.cl_context == mine
        assert context.device == ML.devices()[0]
        check_runs(context)


def test_adopts_a_command_queue_as_it_is() -> None:
    mine = own_context()
    queue = cl.CommandQueue(mine)
    with ML.create_context(opencl=queue) as context:
        assert context.queue is queue
        check_runs(context)
    queue.finish()  # the user's queue outlives the context


def test_an_adopted_queue_profiles_only_if_it_was_made_so() -> None:
    mine = own_context()  # Intel's runtime loses the context of a queue when only the queue is kept
    plain = cl.CommandQueue(mine)
    profiled = cl.CommandQueue(mine, properties=cl.command_queue_properties.PROFILING_ENABLE)
    with pytest.raises(MLTypeError, match="profiling"):
        ML.create_context(opencl=plain, profiling=True)
    with ML.create_context(opencl=profiled, profiling=True) as context:
        check_runs(context)


def test_refuses_an_out_of_order_queue_with_the_reason() -> None:
    mine = own_context()
    try:
        queue = cl.CommandQueue(mine, properties=cl.command_queue_properties.OUT_OF_ORDER_EXEC_MODE_ENABLE)
    except cl.Error:
        pytest.skip("device without out-of-order queues")
    with pytest.raises(MLTypeError, match="in-order"):
        ML.create_context(opencl=queue)


def test_device_and_opencl_exclude_each_other() -> None:
    mine = own_context()
    with pytest.raises(MLTypeError, match="both"):
        ML.create_context(opencl=mine, device=0)
    with pytest.raises(MLTypeError, match="both"):
        ML.create_context(opencl=cl.CommandQueue(mine), device=0)


def test_the_variable_does_not_touch_adopted_objects(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WEBNN_CL_DEVICE", "no such device")
    with ML.create_context(opencl=own_context()) as context:
        check_runs(context)
    with pytest.raises(NotSupportedError):
        ML.create_context()


def test_require_applies_to_adopted_objects() -> None:
    with pytest.raises(NotSupportedError, match="require"):
        ML.create_context(opencl=own_context(), require=lambda d: False)


def check_runs(context: webnn_cl.MLContext) -> None:
    """A write and a read give back the data."""
    made = tensor(context, [1.0, 2.0], (2,))
    assert context.read_tensor(made).tolist() == [1.0, 2.0]


# Destruction --------------------------------------------------------------------------------------------------


def test_destroy_resolves_lost_and_is_repeatable() -> None:
    context = ML.create_context()
    context.destroy()
    assert context.is_lost and context.lost.done()
    message = context.lost.result()
    assert "destroy()" in message
    context.destroy()
    assert context.lost.result() == message


def test_lost_can_be_awaited() -> None:
    async def main() -> str:
        context = ML.create_context()
        waiting = asyncio.ensure_future(_await(context.lost))
        await asyncio.sleep(0)
        context.destroy()
        return await waiting

    assert "destroy()" in asyncio.run(main())


async def _await(future: Any) -> Any:
    return await future


def test_everything_after_destroy() -> None:
    context = ML.create_context()
    made = tensor(context, 1.0)
    constant = context.create_constant_tensor(np.ones(1, np.float32))
    graph = affine(context, 2.0)
    out = tensor(context)
    builder = context.create_graph_builder()
    operand = builder.input("x", [1])
    pending = context.read_tensor_async(made)
    context.destroy()

    for refused in (
        lambda: context.create_tensor([1]),
        lambda: context.create_constant_tensor(np.ones(1, np.float32)),
        lambda: webnn_cl.MLGraphBuilder(context),
        context.create_graph_builder,
        lambda: builder.input("y", [1]),
        lambda: builder.add(operand, operand),
        lambda: builder.constant(1.0, data_type="float32"),
        lambda: builder.build({"y": operand}),
        lambda: context.dispatch(graph, {"x": made}, {"y": out}),
        lambda: context.compute(graph, {"x": [1.0]}),
        context.finish,
        lambda: context.export_tensor(made),
        lambda: context.map_tensor(made),
        lambda: context.import_buffer(cl.Buffer(context.cl_context, cl.mem_flags.READ_WRITE, 64), [1]),
        lambda: context.copy_tensor(made, out),
        lambda: context.export_tensor_async(made).result(),
    ):
        with pytest.raises(InvalidStateError):
            refused()
    for mistyped in (
        lambda: context.read_tensor(made),
        lambda: context.read_tensor_async(made).result(),
        lambda: context.write_tensor(made, np.ones(1, np.float32)),
        lambda: builder.constant(constant),
    ):
        with pytest.raises(MLTypeError):
            mistyped()
    assert pending.done()
    try:
        assert pending.result() == [1.0]  # the device may have been faster than destroy()
    except InvalidStateError as error:
        assert "destroy" in str(error)
    assert "destroy()" in graph.lost.result(1)
    assert made.shape == (1,) and made.data_type == "float32" and made.readable and made.writable
    assert graph.inputs["x"].shape == (1,)
    context.op_support_limits()
    made.destroy()
    graph.destroy()
    builder.destroy()


def test_importing_brings_no_event_loop() -> None:
    """asyncio and what it needs (ssl, sockets) would be a fifth of the time that the import takes."""
    lines = "import numpy, pyopencl, sys; before = set(sys.modules); import webnn_cl; print(*set(sys.modules) - before)"
    done = subprocess.run([sys.executable, "-c", lines], capture_output=True, text=True, timeout=100, check=True)
    assert "webnn_cl.future" in done.stdout.split() and "asyncio" not in done.stdout.split()


def test_leaving_a_with_block_destroys() -> None:
    with ML.create_context() as context:
        assert context.lost.done() is False
    assert context.is_lost
    with pytest.raises(KeyError), ML.create_context() as other:
        raise KeyError
    assert other.is_lost


def test_destroying_one_context_leaves_the_others() -> None:
    one, two = ML.create_context(), ML.create_context()
    made = tensor(two, 5.0)
    one.destroy()
    assert two.read_tensor(made) == [5.0]
    two.destroy()


def test_contexts_on_one_device_share_one_pyopencl_context_while_they_live(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(adopt, "_shared", weakref.WeakValueDictionary())  # the suite's own context has one open
    one, two = ML.create_context(), ML.create_context(profiling=True)
    given = ML.create_context(opencl=cl.Context([one.device.cl_device]))
    assert one.cl_context is two.cl_context and one.queue != two.queue
    assert given.cl_context != one.cl_context
    one.destroy()
    made = tensor(two, 5.0)
    assert two.read_tensor(made) == [5.0]
    reference = weakref.ref(one.cl_context)
    del one
    gc.collect()
    assert ML.create_context().cl_context is reference()
    del two, made
    gc.collect()
    assert reference() is None


def test_after_a_failure_of_the_device_new_contexts_begin_afresh() -> None:
    one = ML.create_context()
    one._timeline.lose("the device failed")
    two = ML.create_context()
    assert one.is_lost and two.cl_context != one.cl_context
    made = tensor(two, 5.0)
    assert two.read_tensor(made) == [5.0]
    with ML.create_context() as three:
        assert three.cl_context is two.cl_context
    two.destroy()


def test_a_context_lives_as_long_as_its_objects_and_no_longer() -> None:
    context = ML.create_context()
    reference = weakref.ref(context)
    made = tensor(context, 3.0)
    future = context.read_tensor_async(made)
    del context
    gc.collect()
    assert reference() is not None
    assert made.context.read_tensor(made) == [3.0] and future.result(60) == [3.0]
    del made, future
    gc.collect()
    assert reference() is None


def test_dropping_a_context_with_work_in_flight() -> None:
    context = ML.create_context()
    made = tensor(context, np.arange(1 << 20), (1 << 20,))
    future = context.read_tensor_async(made)
    del context, made
    gc.collect()
    assert future.result(60)[-1] == (1 << 20) - 1
