"""What the spec allows: data types and ranks of every operand and output, restated independently of the library.

One row per group of operators: names, then `role:types:ranks` for operands and outputs. `=a` means the type (or the
rank) of operand `a`; N is the implementation's maximum rank. The source is the spec's tensor-limit tables of June 2026,
with isNaN/isInfinite restricted to floats as the steps demand and rank 0 allowed for gather's output.
"""

from __future__ import annotations

from dataclasses import dataclass

MAX_RANK = 8

TYPES = {
    "f": "float32 float16",
    "any": "float32 float16 int32 uint32 int64 uint64 int8 uint8",
    "signed": "float32 float16 int64 int32 int8",
    "sum": "float32 float16 int32 uint32 int64 uint64",
    "index": "int32 uint32 int64",
    "arg": "int32 int64",
    "q": "uint8 int8 uint32 int32",
    "resample": "float32 float16 uint8 int8",
    "u8": "uint8",
}

ROWS = """
add sub mul div max min pow | a:any:0-N b:=a:0-N | output:=a:0-N
equal not_equal greater greater_or_equal lesser lesser_or_equal | a:any:0-N b:=a:0-N | output:u8:0-N
logical_not | a:u8:0-N | output:u8:0-N
logical_and logical_or logical_xor | a:u8:0-N b:=a:0-N | output:u8:0-N
is_nan is_infinite | a:f:0-N | output:u8:0-N
abs neg sign relu | input:signed:0-N | output:=input:0-N
ceil cos erf exp floor log reciprocal round_even sin sqrt tan | input:f:0-N | output:=input:0-N
elu gelu hard_sigmoid hard_swish leaky_relu linear sigmoid softplus softsign tanh | input:f:0-N | output:=input:0-N
identity reverse tile transpose clamp pad expand reshape slice | input:any:0-N | output:=input:0-N
prelu | input:signed:0-N slope:=input:0-N | output:=input:0-N
softmax | input:f:1-N | output:=input:1-N
cast | input:any:0-N | output:any:0-N
dequantize_linear | input:q:0-N scale:f:=input zero_point:=input:=input | output:=scale:0-N
quantize_linear | input:f:0-N scale:=input:=input zero_point:q:=input | output:=zero_point:0-N
conv2d conv_transpose2d | input:f:4 filter:=input:4 bias?:=input:1 | output:=input:4
average_pool2d l2_pool2d | input:f:4 | output:=input:4
max_pool2d | input:any:4 | output:=input:4
matmul | a:f:2-N b:=a:2-N | output:=a:2-N
gemm | a:f:2 b:=a:2 c?:=a:0-2 | output:=a:2
batch_normalization | input:f:1-N mean:=input:1 variance:=input:1 scale?:=input:1 bias?:=input:1 | output:=input:1-N
instance_normalization | input:f:4 scale?:=input:1 bias?:=input:1 | output:=input:4
layer_normalization | input:f:0-N scale?:=input:0-N bias?:=input:0-N | output:=input:0-N
arg_min arg_max | input:any:1-N | output:arg:0-N
reduce_l1 reduce_sum reduce_sum_square reduce_product | input:sum:0-N | output:=input:0-N
reduce_l2 reduce_log_sum reduce_log_sum_exp reduce_mean | input:f:0-N | output:=input:0-N
reduce_max reduce_min | input:any:0-N | output:=input:0-N
cumulative_sum | input:sum:1-N | output:=input:1-N
gru | input:f:3 weight:=input:3 recurrent_weight:=input:3 bias?:=input:2 recurrent_bias?:=input:2 \
initial_hidden_state?:=input:3 | output0:=input:3 output1:=input:4
gru_cell | input:f:2 weight:=input:2 recurrent_weight:=input:2 hidden_state:=input:2 bias?:=input:1 \
recurrent_bias?:=input:1 | output:=input:2
lstm | input:f:3 weight:=input:3 recurrent_weight:=input:3 bias?:=input:2 recurrent_bias?:=input:2 \
peephole_weight?:=input:2 initial_hidden_state?:=input:3 initial_cell_state?:=input:3 \
| output0:=input:3 output1:=input:3 output2:=input:4
lstm_cell | input:f:2 weight:=input:2 recurrent_weight:=input:2 hidden_state:=input:2 cell_state:=input:2 \
bias?:=input:1 recurrent_bias?:=input:1 peephole_weight?:=input:1 | output0:=input:2 output1:=input:2
gather | input:any:1-N indices:index:0-N | output:=input:0-N
gather_elements | input:any:1-N indices:index:=input | output:=input:1-N
gather_nd | input:any:1-N indices:index:1-N | output:=input:0-N
scatter_elements | input:any:1-N indices:index:=input updates:=input:=input | output:=input:1-N
scatter_nd | input:any:1-N indices:index:1-N updates:=input:0-N | output:=input:1-N
concat | inputs:any:1-N | output:=inputs:1-N
resample2d | input:resample:4 | output:=input:4
split | input:any:1-N | outputs:=input:1-N
triangular | input:any:2-N | output:=input:2-N
where | condition:u8:0-N true_value:any:0-N false_value:=true_value:0-N | output:=true_value:0-N
"""


@dataclass(frozen=True)
class Limits:
    """Limits of one operand or output; `same_type` and `same_rank` name the operand it must agree with."""

    role: str
    data_types: tuple[str, ...]
    ranks: tuple[int, int]
    optional: bool = False
    same_type: str | None = None
    same_rank: str | None = None


def _limits(word: str, earlier: dict[str, Limits]) -> Limits:
    name, types, ranks = word.split(":")
    role, same_type, same_rank = name.rstrip("?"), None, None
    if types.startswith("="):
        same_type = types[1:]
        data_types = earlier[same_type].data_types
    else:
        data_types = tuple(TYPES[types].split())
    if ranks.startswith("="):
        same_rank = ranks[1:]
        span = earlier[same_rank].ranks
    else:
        low, _, high = ranks.partition("-")
        span = int(low), MAX_RANK if high == "N" else int(high or low)
    return Limits(role, data_types, span, name.endswith("?"), same_type, same_rank)


def _parse() -> tuple[dict[str, dict[str, Limits]], dict[str, dict[str, Limits]]]:
    operands: dict[str, dict[str, Limits]] = {}
    outputs: dict[str, dict[str, Limits]] = {}
    for row in ROWS.strip().splitlines():
        names, ins, outs = (part.split() for part in row.split("|"))
        for name in names:
            known: dict[str, Limits] = {}
            for word in ins:
                limits = _limits(word, known)
                known[limits.role] = limits
            found = [_limits(word, known) for word in outs]
            operands[name], outputs[name] = known, {limits.role: limits for limits in found}
    return operands, outputs


OPERANDS, OUTPUTS = _parse()


def camel(name: str) -> str:
    """The spec's spelling of a python operator, operand or option name."""
    special = {"is_nan": "isNaN", "gather_nd": "gatherND", "scatter_nd": "scatterND"}
    head, *tail = name.split("_")
    return special.get(name) or head + "".join(word.capitalize() for word in tail)
