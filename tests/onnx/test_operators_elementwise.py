"""Element-wise operators, casts, bit operations and their older operator sets."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

import webnn_cl
from tests.onnx.models import Case, check, numbers, whole

X = numbers(3, 4, 5)


def test_unary_and_activations(context: webnn_cl.MLContext) -> None:
    ops = ["Abs", "Ceil", "Cos", "Cosh", "Asinh", "Atan", "Elu", "Erf", "Exp", "Floor", "HardSigmoid",
           "HardSwish", "LeakyRelu", "Mish", "Neg", "Relu", "Round", "Selu", "Sigmoid", "Sign", "Sin", "Sinh",
           "Softplus", "Softsign", "Tan", "Tanh", "ThresholdedRelu", "Celu", "Identity", "IsNaN"]  # fmt: skip
    cases = [Case(op, [X]) for op in ops]
    unit = numbers(7, low=0.01, high=0.99)
    cases += [Case(op, [unit]) for op in ("Log", "Sqrt", "Reciprocal", "Acos", "Asin", "Atanh")]
    cases += [
        Case("Celu", [X], {"alpha": 0.5}),
        Case("Elu", [X], {"alpha": 2.0}),
        Case("Shrink", [X], {"lambd": 0.7, "bias": 0.2}),
        Case("Selu", [X], {"alpha": 1.1, "gamma": 3.0}),
        Case("PRelu", [X, numbers(4, 1)]),
        Case("Acosh", [numbers(6, low=1.0, high=4.0)]),
        Case("HardSigmoid", [X], {"alpha": 0.3, "beta": 0.4}),
    ]
    check(context, cases)


def test_gelu_swish_and_signs_of_infinity(context: webnn_cl.MLContext) -> None:
    x = np.array([-np.inf, np.inf, np.nan, 0.0, -0.0, 1.0], np.float32)
    cases = [Case("Gelu", [X]), Case("Gelu", [X], {"approximate": "tanh"}), Case("IsInf", [x])]
    cases += [Case("IsInf", [x], {"detect_negative": n, "detect_positive": p}) for n, p in ((0, 1), (1, 0))]
    check(context, cases, 20)
    check(context, [Case("Swish", [X]), Case("Swish", [X], {"alpha": 1.5})], 24, reference=True)


def test_arithmetic_with_broadcasting(context: webnn_cl.MLContext) -> None:
    b = numbers(4, 1, seed=1, low=0.5, high=2.0)
    cases = [Case(op, [X, b]) for op in ("Add", "Sub", "Mul", "Div", "Less", "Greater", "Equal", "LessOrEqual")]
    cases += [Case(op, [X, b, numbers(1, seed=2)]) for op in ("Max", "Min", "Sum", "Mean")]
    cases += [Case("Pow", [np.abs(X), b]), Case("Pow", [X, np.float32(2.0).reshape(())], known=[1])]
    cases += [Case("Pow", [X, np.array(3, np.int64)], known=[1]), Case("Max", [X]), Case("Where", [X > 0, X, b])]
    check(context, cases)


@pytest.mark.parametrize("dtype", ["int32", "int64", "uint8", "int8"])
def test_integers(context: webnn_cl.MLContext, dtype: str) -> None:
    low = 0 if dtype.startswith("u") else -9
    a, b = whole(20, low=low, high=10, dtype=dtype), whole(20, low=1, high=4, dtype=dtype, seed=1)
    signed = np.where(np.arange(20) % 2, b, -b.astype(np.int8)).astype(dtype) if low else b
    cases = [Case(op, [a, b]) for op in ("Add", "Sub", "Mul", "Div", "Max", "Min")]
    cases += [Case("Mod", [a, signed]), Case("Mod", [a, signed], {"fmod": 1}), Case("Abs", [a]), Case("Sign", [a])]
    cases += [Case(op, [a, b]) for op in ("BitwiseAnd", "BitwiseOr", "BitwiseXor")] + [Case("BitwiseNot", [a])]
    check(context, cases, reference=True)


@pytest.mark.parametrize("dtype", ["int16", "uint16"])
def test_short_integers_wrap(context: webnn_cl.MLContext, dtype: str) -> None:
    a = np.array([32767, -32768, 300, -1, 5], np.int64).astype(dtype)
    b = np.array([1, -1, 300, 2, -7], np.int64).astype(dtype)
    cases = [Case(op, [a, b]) for op in ("Add", "Sub", "Mul")] + [Case("BitwiseNot", [a])]
    cases += [Case("Cast", [a], {"to": t}) for t in (onnx.TensorProto.INT8, onnx.TensorProto.INT64)]
    check(context, cases, reference=True)


def test_logic(context: webnn_cl.MLContext) -> None:
    a, b = whole(2, 6, low=0, high=2, dtype="bool"), whole(6, low=0, high=2, dtype="bool", seed=3)
    cases = [Case(op, [a, b]) for op in ("And", "Or", "Xor", "Equal")] + [Case("Not", [a])]
    cases += [Case("Cast", [a], {"to": onnx.TensorProto.FLOAT}), Case("Cast", [X], {"to": onnx.TensorProto.BOOL})]
    check(context, cases)


def test_clip_by_constants_and_by_tensors(context: webnn_cl.MLContext) -> None:
    low, high = np.array(-0.5, np.float32), np.array(0.75, np.float32)
    cases = [
        Case("Clip", [X, low, high], known=[1, 2]),
        Case("Clip", [X, low, high]),
        Case("Clip", [X, None, high], known=[2]),
        Case("Clip", [X, low], known=[1]),
        Case("Clip", [X, high, low], known=[1, 2]),
        Case("Clip", [whole(9), np.array(-2, np.int64), np.array(3, np.int64)], known=[1, 2]),
    ]
    check(context, cases)
    check(context, [Case("Clip", [X], {"min": -0.25, "max": 0.5}), Case("Clip", [X])], 7)


def test_operator_set_7(context: webnn_cl.MLContext) -> None:
    cases = [
        Case("Add", [X, numbers(5)]),
        Case("PRelu", [X, numbers(4, 1)]),
        Case("Softmax", [X], {"axis": 1}),
        Case("LogSoftmax", [X], {"axis": 2}),
        Case("Hardmax", [X], {"axis": 1}),
        Case("Dropout", [X], {"ratio": 0.5}),
    ]
    check(context, cases, 7)


def test_softmax_and_kin(context: webnn_cl.MLContext) -> None:
    large = np.array([[10000.0, 10001.0, 9999.0], [-5e4, -5e4, -5e4]], np.float32)
    cases = [Case(op, [X], {"axis": axis}) for op in ("Softmax", "LogSoftmax", "Hardmax") for axis in (-1, 0, 1)]
    check(context, [*cases, Case("LogSoftmax", [large])])


def test_casts_between_all_types(context: webnn_cl.MLContext) -> None:
    kinds = ["float32", "float16", "int32", "int64", "uint8", "int8", "uint32", "uint64", "bool", "float64", "int16"]
    x = np.array([0, 1, 2, 3, 100, 127], np.float64)
    numbered = {k: onnx.helper.np_dtype_to_tensor_dtype(np.dtype(k)) for k in kinds}
    cases = [Case("Cast", [x.astype(a)], {"to": numbered[b]}) for a in kinds for b in kinds if a != b]
    check(context, cases, reference=True)


def test_short_floats_round_half_to_even(context: webnn_cl.MLContext) -> None:
    x = np.concatenate([np.linspace(-500, 500, 101), [0.0, -0.0, 1e-3, 2e-3, 0.0117, 17.0, 19.0, np.inf, np.nan]])
    names = ["BFLOAT16", "FLOAT8E4M3FN", "FLOAT8E5M2", "FLOAT8E4M3FNUZ", "FLOAT8E5M2FNUZ"]
    kinds = [getattr(onnx.TensorProto, name) for name in names]
    cases = [Case("Cast", [x.astype(np.float32)], {"to": k, "saturate": s}) for k in kinds for s in (0, 1)]
    check(context, cases, 21, reference=True, rtol=0, atol=0)


def test_bit_shifts_by_the_width(context: webnn_cl.MLContext) -> None:
    a, b = np.array([1, 255, 16, 128], np.uint8), np.array([0, 4, 7, 8], np.uint8)
    cases = [Case("BitShift", [a[:3], b[:3]], {"direction": d}) for d in ("LEFT", "RIGHT")]
    check(context, cases, 11)


def test_float_modulo(context: webnn_cl.MLContext) -> None:
    check(context, [Case("Mod", [X, numbers(5, low=0.3, high=1.0)], {"fmod": 1})])
