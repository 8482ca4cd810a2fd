"""Cast, CastLike and BitCast."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from webnn_cl.onnx.elements import carrier_of, is_float, is_integer, name_of_elem, numpy_type, short_range
from webnn_cl.onnx.operators.common import cast, expression, wrap_short
from webnn_cl.onnx.registry import op
from webnn_cl.onnx.values import Known, Tensor

if TYPE_CHECKING:
    from webnn_cl.onnx.call import Call
    from webnn_cl.operand import MLOperand

__all__ = ["convert", "round_short_float"]


@dataclass(frozen=True)
class _ShortFloat:
    """`digits` of the significand behind the point, the exponent of the smallest normal number, the largest number."""

    digits: int
    exponent: int
    maximum: float
    infinite: bool
    signed_zero: bool = True


_SHORT_FLOATS = {
    "float8_e4m3fn": _ShortFloat(3, -6, 448.0, False),
    "float8_e4m3fnuz": _ShortFloat(3, -7, 240.0, False, False),
    "float8_e5m2": _ShortFloat(2, -14, 57344.0, True),
    "float8_e5m2fnuz": _ShortFloat(2, -15, 57344.0, False, False),
    "float4_e2m1fn": _ShortFloat(1, 0, 6.0, False),
}


def round_short_float(c: Call, x: MLOperand, dtype: str, saturate: bool = True) -> MLOperand:
    """`x` (float32) rounded to the numbers that `dtype` has, half to even; too large ones saturate or become NaN."""
    if dtype == "bfloat16":
        bits = "(as_uint(x) + 0x7fffu + ((as_uint(x) >> 16) & 1u)) & 0xffff0000u"
        return expression(c, f"isfinite(x) ? as_float({bits}) : x", x=x)
    kind = _SHORT_FLOATS.get(dtype)
    if kind is None:
        c.refuse(f"rounding to {dtype}")
    quantum = f"ldexp(1.0f, max(ilogb(x), {kind.exponent}) - {kind.digits})"
    rounded = expression(c, f"(x == 0 || !isfinite(x)) ? x : rint(x / {quantum}) * {quantum}", x=x)
    if not kind.signed_zero:
        rounded = c.b.add(rounded, c.scalar(0, rounded))
    limit = f"{kind.maximum}f"
    if dtype == "float4_e2m1fn" or (saturate and not kind.infinite):
        return expression(c, f"isnan(x) ? x : clamp(x, -{limit}, {limit})", x=rounded)
    if saturate:
        return expression(c, f"isnan(x) ? x : clamp(x, -{limit}, {limit})", x=rounded)
    over = "copysign(INFINITY, x)" if kind.infinite else "NAN"
    return expression(c, f"fabs(x) > {limit} ? {over} : x", x=rounded)


def convert(c: Call, value: Known | Tensor, dtype: str, saturate: bool = True) -> Tensor:
    """`value` as the ONNX element type `dtype`."""
    x, source = c.lift(value), value.dtype
    if "string" in (source, dtype):
        c.refuse(f"Cast from {source} to {dtype}: strings stay on the host")
    carrier = carrier_of(dtype)
    if dtype == "bool":
        x = x if source == "bool" else c.b.not_equal(x, c.scalar(0, x))
    elif is_float(dtype):
        x = cast(c, x, carrier)
        if carrier == "float32" and dtype not in ("float32", "float64", source) and source != "bool":
            x = round_short_float(c, x, dtype, saturate)
    elif short_range(dtype) is not None and source != dtype:
        x = _to_short_integer(c, x, source, dtype)
    else:
        x = cast(c, x, carrier)
    return Tensor(x, dtype, c.sources())


def _to_short_integer(c: Call, x: MLOperand, source: str, dtype: str) -> MLOperand:
    """Through int32 and a wrap; numbers of 64 bits are cut to 32 first, which keeps the low bits."""
    wide = cast(c, x, "int32")
    low, high = short_range(dtype) or (0, 0)
    if dtype in ("int16", "uint16"):
        return wide if _fits(source, low, high) else wrap_short(c, wide, dtype)
    if not _fits(source, low, high):
        wide = _wrap_bits(c, wide, low, high)
    return cast(c, wide, carrier_of(dtype))


def _fits(source: str, low: int, high: int) -> bool:
    limits = short_range(source) or {"int8": (-128, 127), "uint8": (0, 255), "bool": (0, 1)}.get(source)
    return limits is not None and limits[0] >= low and limits[1] <= high


def _wrap_bits(c: Call, x: MLOperand, low: int, high: int) -> MLOperand:
    """The low bits of int32 numbers, as two's complement where `low` is negative."""
    span = high - low + 1
    return expression(c, f"((x - ({low})) & {span - 1}) + ({low})", x=x)


@op("Cast")
def cast_to(c: Call) -> Any:
    dtype = name_of_elem(c.integer("to"))
    return convert(c, c.value(0), dtype, bool(c.integer("saturate", 1)))


@op("CastLike")
def cast_like(c: Call) -> Any:
    known = c.peek(0)
    if known is not None and known.size == 0:
        return known.astype(numpy_type(c.dtype(1)))
    return convert(c, c.value(0), c.dtype(1), bool(c.integer("saturate", 1)))


@op("BitCast")
def bit_cast(c: Call) -> Any:
    """Between types of equal width and the same carrier width; others have no expression."""
    source, dtype = c.dtype(0), name_of_elem(c.integer("to"))
    if source == dtype:
        return c.value(0)
    if (source, dtype) in _SAME_BITS or (is_integer(source) and is_integer(dtype) and _bits(source) == _bits(dtype)):
        return convert(c, c.value(0), dtype)
    if {source, dtype} <= {"float32", "int32", "uint32"}:
        operator = {"float32": "as_float", "int32": "as_int", "uint32": "as_uint"}[dtype]
        return c.tensor(c.b.elementwise(f"{operator}(x)", data_type=dtype, x=c.x(0)), dtype)
    return c.refuse(f"BitCast from {source} to {dtype}")


_SAME_BITS = {("bool", "uint8"), ("bool", "int8")}


def _bits(dtype: str) -> str:
    return dtype.lstrip("uint")
