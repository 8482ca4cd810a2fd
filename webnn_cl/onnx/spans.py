"""Large weights in the bytes of a model file, found without copying them.

A parsed protobuf has a copy of every weight, and Python gets a further one. So the raw data of large initializers is
left out of what the parser sees (protobuf wire format: https://protobuf.dev/programming-guides/encoding/); in its
place is external data whose location says: at this offset of the given bytes.
"""

from __future__ import annotations

from collections.abc import Iterator

__all__ = ["LOCATION", "without_weights"]

LOCATION = "\0webnn_cl: in the model itself"
SMALLEST = 1 << 16  # bytes of a weight that is worth it
_GRAPH, _INITIALIZER, _RAW_DATA = 7, 5, 9  # of ModelProto, GraphProto, TensorProto
_EXTERNAL_DATA, _DATA_LOCATION = 13, 14  # of TensorProto
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5

_Field = tuple[int, int, int, int, int]  # number, wire type, start of the tag, start and end of the content


def without_weights(data: bytes) -> bytes | None:
    """`data`, a serialized ModelProto, with its large weights replaced by references; None when there are none.

    None as well for what is no protobuf: the parser finds the words for that.
    """
    try:
        graphs = [f for f in _fields(data, 0, len(data)) if f[0] == _GRAPH and f[1] == _BYTES]
        if len(graphs) != 1:
            return None
        _, _, tag, start, end = graphs[0]
        graph, found = _graph(data, start, end)
    except (ValueError, IndexError):
        return None
    return b"".join([data[:tag], _message(_GRAPH, graph), data[end:]]) if found else None


def _graph(data: bytes, start: int, end: int) -> tuple[bytes, bool]:
    parts, copied, found = [], start, False
    for number, kind, tag, first, last in _fields(data, start, end):
        if number == _INITIALIZER and kind == _BYTES and last - first >= SMALLEST:
            tensor = _tensor(data, first, last)
            if tensor is not None:
                parts += [data[copied:tag], _message(_INITIALIZER, tensor)]
                copied, found = last, True
    return b"".join([*parts, data[copied:end]]), found


def _tensor(data: bytes, start: int, end: int) -> bytes | None:
    """The tensor with a reference instead of its raw data; None when that is short, or elsewhere already."""
    fields = list(_fields(data, start, end))
    raw = [f for f in fields if f[0] == _RAW_DATA and f[1] == _BYTES]
    if len(raw) != 1 or raw[0][4] - raw[0][3] < SMALLEST:
        return None
    if any(f[0] in (_EXTERNAL_DATA, _DATA_LOCATION) for f in fields):
        return None
    _, _, tag, first, last = raw[0]
    entries = {"location": LOCATION, "offset": str(first), "length": str(last - first)}
    texts = [_message(1, key.encode()) + _message(2, value.encode()) for key, value in entries.items()]
    external = [_message(_EXTERNAL_DATA, text) for text in texts]
    return b"".join([data[start:tag], data[last:end], *external, _varint(_DATA_LOCATION << 3 | _VARINT), b"\1"])


def _fields(data: bytes, at: int, end: int) -> Iterator[_Field]:
    """The fields of the message in ``data[at:end]``; ValueError or IndexError when it is none."""
    while at < end:
        tag = at
        key, at = _read_varint(data, at)
        kind = key & 7
        if kind == _VARINT:
            first, (_, at) = at, _read_varint(data, at)
        elif kind in (_FIXED64, _FIXED32):
            first, at = at, at + (8 if kind == _FIXED64 else 4)
        elif kind == _BYTES:
            size, first = _read_varint(data, at)
            at = first + size
        else:
            raise ValueError("groups are not used by ONNX")
        if at > end:
            raise ValueError("truncated")
        yield key >> 3, kind, tag, first, at


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return value, at
        if shift > 63:
            raise ValueError("not a varint")


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])


def _message(number: int, content: bytes) -> bytes:
    return b"".join([_varint(number << 3 | _BYTES), _varint(len(content)), content])
