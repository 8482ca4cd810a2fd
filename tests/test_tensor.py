"""MLTensor: creation and its limits, flags, what may be written, where a read may go, constants, destruction."""

from __future__ import annotations

import asyncio
import multiprocessing.shared_memory
import pickle
import time
from typing import Any

import numpy as np
import pytest

import webnn_cl
from tests.work import Kernels, tensor
from webnn_cl import InvalidStateError, MLTypeError
from webnn_cl.dtypes import DATA_TYPES

SHAPES = [(), (1,), (5,), (3, 5), (2, 3, 4), (1, 1, 1, 1, 7), (2,) * 8]


def sample(shape: Any, data_type: str, seed: int = 0) -> Any:
    """Random bytes of the very type, free of NaN."""
    values = np.random.default_rng(seed).integers(0, 100, shape)
    return np.asarray(values).astype(data_type)


@pytest.mark.parametrize("data_type", DATA_TYPES)
@pytest.mark.parametrize("shape", SHAPES)
def test_create_write_read(context: webnn_cl.MLContext, shape: Any, data_type: str) -> None:
    made = context.create_tensor(list(shape), data_type, readable=True, writable=True)
    assert (made.shape, made.data_type) == (shape, data_type)
    assert made.nbytes == int(np.prod(shape)) * np.dtype(data_type).itemsize
    zeros = context.read_tensor(made)
    assert zeros.shape == shape and zeros.dtype == data_type and not zeros.any()
    data = sample(shape, data_type)
    assert context.write_tensor(made, data) is None
    back = context.read_tensor(made)
    assert back.dtype == data_type and np.array_equal(back, data)
    assert back.flags.writeable
    made.destroy()


def test_create_accepts_numpy_types_and_integers(context: webnn_cl.MLContext) -> None:
    made = context.create_tensor(np.array([2, 3]), np.float16)
    assert (made.shape, made.data_type) == ((2, 3), "float16")
    assert context.create_tensor((np.int64(4),), np.dtype("uint8")).shape == (4,)
    assert context.create_tensor([], "int32").shape == ()


@pytest.mark.parametrize(
    ("shape", "data_type"),
    [
        ([2, 0, 3], "int32"),
        ([-1], "float32"),
        ([2**31], "int8"),
        ([2**32 - 1, 2**32 - 1, 2**32 - 1], "int32"),
        ([2**16, 2**16], "int8"),  # more elements than 2^31 - 1
        ([2] * 9, "float32"),
        ([1.0], "float32"),
        ([True], "float32"),
        ("12", "float32"),
        (5, "float32"),
        (None, "float32"),
        ([None], "float32"),
        ([2], "float64"),
        ([2], "bool"),
        ([2], None),
        ([2], "uint4"),
        ([2], 4),
    ],
)
def test_create_refuses(context: webnn_cl.MLContext, shape: Any, data_type: Any) -> None:
    with pytest.raises(MLTypeError):
        context.create_tensor(shape, data_type)


def test_the_largest_tensor_is_what_the_limits_say(context: webnn_cl.MLContext) -> None:
    limit = context.op_support_limits()["maxTensorByteLength"]
    with pytest.raises(MLTypeError) as caught:
        context.create_tensor([limit // 8 + 1], "int64", writable=True)
    assert str(limit) in str(caught.value) and str((limit // 8 + 1) * 8) in str(caught.value)


@pytest.mark.parametrize("flag", ["readable", "writable", "exportable"])
@pytest.mark.parametrize("value", [1, None, "yes"])
def test_flags_are_bools(context: webnn_cl.MLContext, flag: str, value: Any) -> None:
    with pytest.raises(MLTypeError, match=flag):
        context.create_tensor([1], **{flag: value})


def test_flags_are_reported_and_enforced(context: webnn_cl.MLContext) -> None:
    plain = context.create_tensor([2])
    assert (plain.readable, plain.writable, plain.exportable, plain.constant) == (False,) * 4
    with pytest.raises(MLTypeError, match="readable"):
        context.read_tensor(plain)
    with pytest.raises(MLTypeError, match="readable"):
        context.read_tensor_async(plain).result()
    with pytest.raises(MLTypeError, match="writable"):
        context.write_tensor(plain, np.zeros(2, np.float32))
    with pytest.raises(MLTypeError, match="exportable"):
        context.export_tensor(plain)
    readable = context.create_tensor([2], readable=True)
    with pytest.raises(MLTypeError):
        context.write_tensor(readable, np.zeros(2, np.float32))
    writable = context.create_tensor([2], writable=True)
    context.write_tensor(writable, np.zeros(2, np.float32))
    with pytest.raises(MLTypeError):
        context.read_tensor(writable)


# Writing ------------------------------------------------------------------------------------------------------


def test_raw_bytes_of_every_kind(context: webnn_cl.MLContext) -> None:
    made = context.create_tensor([4], "int32", readable=True, writable=True)
    raw = np.arange(4, dtype=np.int32).tobytes()
    kinds = [raw, bytearray(raw), memoryview(raw), memoryview(bytearray(raw)), np.frombuffer(raw, np.uint8)]
    kinds.append(np.frombuffer(raw, np.uint8).reshape(2, 8))
    for kind in kinds:
        context.write_tensor(made, np.zeros(4, np.int32))
        context.write_tensor(made, kind)
        assert context.read_tensor(made).tolist() == [0, 1, 2, 3]


def test_shared_memory_and_views(context: webnn_cl.MLContext) -> None:
    made = context.create_tensor([4], "int32", readable=True, writable=True)
    shared = multiprocessing.shared_memory.SharedMemory(create=True, size=16)
    try:
        view = np.ndarray(4, np.int32, shared.buf)
        view[:] = 7
        context.write_tensor(made, view)
        assert context.read_tensor(made).tolist() == [7] * 4
        del view
        context.write_tensor(made, shared.buf[:16])
        assert context.read_tensor(made).tolist() == [7] * 4
    finally:
        shared.close()
        shared.unlink()


def test_arrays_are_made_contiguous_and_1d_is_taken(context: webnn_cl.MLContext) -> None:
    made = context.create_tensor([3, 4], readable=True, writable=True)
    data = np.arange(12, dtype=np.float32).reshape(4, 3).T
    context.write_tensor(made, data)
    assert np.array_equal(context.read_tensor(made), data)
    context.write_tensor(made, np.arange(24, dtype=np.float32)[::2])
    assert np.array_equal(context.read_tensor(made).ravel(), np.arange(0, 24, 2))
    read_only = np.full((3, 4), 2, np.float32)
    read_only.flags.writeable = False
    context.write_tensor(made, read_only)
    assert (context.read_tensor(made) == 2).all()
    context.write_tensor(made, np.ones((3, 4), ">f4"))
    assert (context.read_tensor(made) == 1).all()


def test_float16_bits(context: webnn_cl.MLContext) -> None:
    made = context.create_tensor([4], np.float16, readable=True, writable=True)
    bits = np.array([0x8000, 0x0001, 0x7C00, 0x7E01], np.uint16)
    context.write_tensor(made, bits)
    assert np.array_equal(context.read_tensor(made).view(np.uint16), bits)


def released() -> memoryview:
    """The counterpart of a detached ArrayBuffer."""
    view = memoryview(bytearray(16))
    view.release()
    return view


@pytest.mark.parametrize(
    "data",
    [
        [1, 2, 3, 4],
        (1, 2, 3, 4),
        5,
        None,
        "abcd",
        np.zeros(4, np.float32),
        np.zeros(4, np.uint32),
        np.zeros(4, np.int64),
        np.zeros(4, bool),
        np.zeros(3, np.int32),
        np.zeros(5, np.int32),
        np.zeros((4, 1), np.int32),
        np.zeros((2, 2), np.int32)[:1],
        b"",
        bytes(15),
        bytes(17),
        memoryview(np.zeros(4, np.float32)),
        released(),
        np.array([None] * 4, object),
        np.array([], np.int32),
    ],
    ids=lambda d: f"{type(d).__name__}-{d.dtype}{d.shape}" if isinstance(d, np.ndarray) else type(d).__name__,
)
def test_write_refuses(context: webnn_cl.MLContext, data: Any) -> None:
    made = context.create_tensor([4], "int32", readable=True, writable=True)
    context.write_tensor(made, np.arange(4, dtype=np.int32))
    with pytest.raises(MLTypeError):
        context.write_tensor(made, data)
    assert context.read_tensor(made).tolist() == [0, 1, 2, 3]


def test_write_copies_at_the_call(context: webnn_cl.MLContext) -> None:
    kernels = Kernels(context.cl_context)
    for exportable in (False, True):
        made = context.create_tensor([1000], readable=True, writable=True, exportable=exportable)
        source = np.ones(1000, np.float32)
        kernels.spin(context.queue, 0.05)
        context.write_tensor(made, source)
        source[:] = 2
        assert (context.read_tensor(made) == 1).all()


def test_no_such_argument_is_pythons_own_type_error(context: webnn_cl.MLContext) -> None:
    made = tensor(context)
    with pytest.raises(TypeError):
        context.write_tensor(made, np.zeros(1, np.float32), 0)  # type: ignore[call-arg]
    for wrong in (None, 1, np.zeros(1, np.float32)):
        with pytest.raises(MLTypeError):
            context.write_tensor(wrong, np.zeros(1, np.float32))  # type: ignore[arg-type]
        with pytest.raises(MLTypeError):
            context.read_tensor(wrong)  # type: ignore[arg-type]


# Reading ------------------------------------------------------------------------------------------------------


def outs(data_type: str) -> list[Any]:
    """Everything that a read of shape [2, 4] may be put into."""
    size = 8 * np.dtype(data_type).itemsize
    strided = np.zeros((4, 8), data_type)[::2, ::2]
    return [
        np.zeros((2, 4), data_type),
        np.zeros(8, data_type),
        np.zeros(size, np.uint8),
        bytearray(size),
        memoryview(bytearray(size)),
        memoryview(bytearray(size + 4))[4:],
        strided,
    ]


@pytest.mark.parametrize("data_type", DATA_TYPES)
def test_read_into_out(context: webnn_cl.MLContext, data_type: str) -> None:
    data = sample((2, 4), data_type, 3)
    made = context.create_tensor([2, 4], data_type, readable=True, writable=True)
    context.write_tensor(made, data)
    for way in ("sync", "future", "await"):
        for out in outs(data_type):
            if way == "sync":
                result = context.read_tensor(made, out)
            elif way == "future":
                result = context.read_tensor_async(made, out).result(60)
            else:
                result = asyncio.run(_read(context, made, out))
            assert result is out
            view = np.ascontiguousarray(out) if isinstance(out, np.ndarray) else np.frombuffer(out, np.uint8)
            assert view.tobytes() == data.tobytes()


async def _read(context: webnn_cl.MLContext, made: webnn_cl.MLTensor, out: Any) -> Any:
    return await context.read_tensor_async(made, out)


def test_float16_bits_out(context: webnn_cl.MLContext) -> None:
    made = context.create_tensor([2], np.float16, readable=True, writable=True)
    context.write_tensor(made, np.array([0x8001, 0x7E01], np.uint16))
    out = np.zeros(2, np.uint16)
    assert context.read_tensor(made, out) is out and out.tolist() == [0x8001, 0x7E01]


def frozen() -> Any:
    """A read-only array."""
    array = np.zeros((2, 4), np.int32)
    array.flags.writeable = False
    return array


@pytest.mark.parametrize(
    "out",
    [
        np.zeros((2, 4), np.float32),
        np.zeros((2, 4), np.uint32),
        np.zeros((4, 2), np.int32),
        np.zeros(7, np.int32),
        np.zeros(9, np.int32),
        bytearray(31),
        bytearray(64),
        bytes(32),
        memoryview(bytes(32)),
        memoryview(np.zeros(8, np.int32)),
        [0] * 8,
        5,
        "text",
        released(),
        frozen(),
    ],
    ids=lambda o: f"{type(o).__name__}-{len(o) if hasattr(o, '__len__') and not isinstance(o, memoryview) else ''}",
)
def test_read_refuses_out(context: webnn_cl.MLContext, out: Any) -> None:
    made = context.create_tensor([2, 4], "int32", readable=True, writable=True)
    context.write_tensor(made, np.arange(8, dtype=np.int32))
    with pytest.raises(MLTypeError):
        context.read_tensor(made, out)
    with pytest.raises(MLTypeError):
        context.read_tensor_async(made, out).result(60)
    if isinstance(out, np.ndarray):
        assert not out.any()


def test_timeout(context: webnn_cl.MLContext) -> None:
    kernels = Kernels(context.cl_context)
    made = tensor(context, 4.0)
    out = np.zeros(1, np.float32)
    kernels.spin(context.queue, 0.5)
    with pytest.raises(TimeoutError):
        context.read_tensor(made, out, timeout=0.01)
    with pytest.raises(TimeoutError):
        context.read_tensor_async(made).result(timeout=0)
    assert context.read_tensor(made, timeout=60) == [4.0]
    assert out == [0.0], "a read that timed out must leave out alone"


def test_out_is_filled_before_done_and_on_the_loops_thread(context: webnn_cl.MLContext) -> None:
    made = tensor(context, 6.0)
    out = np.zeros(1, np.float32)
    future = context.read_tensor_async(made, out)
    future.result(60)
    assert future.done() and out == [6.0]

    async def main() -> None:
        kernels = Kernels(context.cl_context)
        spied = np.zeros(1, np.float32)
        kernels.spin(context.queue, 0.2)
        future = context.read_tensor_async(made, spied)
        waiting = asyncio.ensure_future(_wait(future))
        await asyncio.sleep(0)  # the task now awaits the future
        time.sleep(0.6)  # the device finishes while the loop is busy: out must not change under its feet
        assert spied == [0.0] and not future.done()
        assert await waiting is spied and spied == [6.0]

    asyncio.run(main())


async def _wait(future: Any) -> Any:
    return await future


def test_array_protocol_is_a_read(context: webnn_cl.MLContext) -> None:
    made = tensor(context, [1.0, 2.0], (2,))
    assert np.asarray(made).tolist() == [1.0, 2.0]
    assert np.asarray(made, dtype=np.int64).dtype == np.int64
    with pytest.raises(MLTypeError):
        np.asarray(context.create_tensor([2]))
    with pytest.raises(ValueError, match="map_tensor"):
        made.__array__(copy=False)


# Constants ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("data_type", DATA_TYPES)
def test_constant_tensors(context: webnn_cl.MLContext, data_type: str) -> None:
    data = sample((2, 3), data_type, 5)
    for made in (
        context.create_constant_tensor(data),
        context.create_constant_tensor(data.tobytes(), shape=[2, 3], data_type=data_type),
        context.create_constant_tensor(data.ravel(), shape=[2, 3]),
    ):
        assert (made.shape, made.data_type) == ((2, 3), data_type)
        assert (made.constant, made.readable, made.writable, made.exportable) == (True, False, False, False)
        with pytest.raises(MLTypeError):
            context.read_tensor(made)
        with pytest.raises(MLTypeError):
            context.write_tensor(made, data)


@pytest.mark.parametrize(
    "arguments",
    [
        {"data": np.zeros(5, np.int32), "shape": [4]},
        {"data": np.zeros(3, np.int32), "shape": [4]},
        {"data": bytes(15), "shape": [4], "data_type": "int32"},
        {"data": bytes(16), "shape": [4]},
        {"data": bytes(16), "data_type": "int32"},
        {"data": np.zeros((2, 0), np.int32)},
        {"data": np.zeros(0, np.int32), "shape": [2, 0, 3], "data_type": "int32"},
        {"data": np.zeros(4, np.float64)},
        {"data": [1, 2, 3], "shape": [3]},
        {"data": np.zeros(4, np.int32), "data_type": "float32"},
        {"data": np.zeros((2,) * 9, np.float32)},
    ],
    ids=str,
)
def test_constant_tensors_refuse(context: webnn_cl.MLContext, arguments: dict[str, Any]) -> None:
    with pytest.raises(MLTypeError):
        context.create_constant_tensor(**arguments)


def test_a_constant_tensor_copies_and_outlives_build(context: webnn_cl.MLContext) -> None:
    data = np.full(4, 3.0, np.float32)
    made = context.create_constant_tensor(data)
    data[:] = 9
    builder = context.create_graph_builder()
    graph = builder.build({"y": builder.add(builder.input("x", [4]), builder.constant(made))})
    made.destroy()
    assert context.compute(graph, {"x": [1, 2, 3, 4]})["y"].tolist() == [4, 5, 6, 7]
    with pytest.raises(MLTypeError):
        context.create_graph_builder().constant(made)


def test_a_constant_tensor_destroyed_before_build_is_refused(context: webnn_cl.MLContext) -> None:
    made = context.create_constant_tensor(np.ones(4, np.float32))
    builder = context.create_graph_builder()
    output = builder.add(builder.input("x", [4]), builder.constant(made))
    made.destroy()
    with pytest.raises(MLTypeError):
        builder.build({"y": output})


# Destruction --------------------------------------------------------------------------------------------------


def test_destroy_is_repeatable_and_attributes_stay(context: webnn_cl.MLContext) -> None:
    made = tensor(context, shape=(2, 3), data_type="int8")
    made.destroy()
    made.destroy()
    assert (made.shape, made.data_type, made.readable, made.nbytes) == ((2, 3), "int8", True, 6)
    assert "destroyed" in repr(made)
    for refused in (
        lambda: context.read_tensor(made),
        lambda: context.read_tensor_async(made).result(),
        lambda: context.write_tensor(made, np.zeros((2, 3), np.int8)),
        lambda: context.map_tensor(made),
        lambda: context.copy_tensor(made, made),
    ):
        with pytest.raises(MLTypeError):
            refused()


def test_with_destroys(context: webnn_cl.MLContext) -> None:
    with tensor(context, 1.0) as made:
        assert context.read_tensor(made) == [1.0]
    with pytest.raises(MLTypeError):
        context.read_tensor(made)


def test_pending_reads_are_rejected_at_once(context: webnn_cl.MLContext) -> None:
    kernels = Kernels(context.cl_context)
    made = tensor(context, 1.0)
    out = np.zeros(1, np.float32)
    event = kernels.spin(context.queue, 0.5)
    futures = [context.read_tensor_async(made), context.read_tensor_async(made, out)]
    made.destroy()
    assert all(f.done() for f in futures) and event.command_execution_status != 0
    for future in futures:
        with pytest.raises(InvalidStateError, match="destroyed"):
            future.result()
    context.finish()
    assert out == [0.0], "a failed read must leave out alone"


def test_tensors_are_not_pickled(context: webnn_cl.MLContext) -> None:
    with pytest.raises(InvalidStateError):
        pickle.dumps(tensor(context))
