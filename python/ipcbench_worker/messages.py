"""Messages with tensors, as federation.proto defines them. With generated=True, generated code
writes and reads whole messages; otherwise it handles everything except tensor data."""

from __future__ import annotations

from typing import Iterator

from google.protobuf.message import DecodeError

from . import federation_pb2 as pb
from .layout import Layout, uvarint
from .session import Fault

Piece = tuple[pb.NamedTensor, memoryview]  # a tensor or a part of one: description and data

# Tags of two fields: tensors of a message, and data of a tensor.
TENSORS, DATA = b"\x1a", b"\x52"


class Catalog:
    """Makes the descriptions of a layout's tensors, which all have one tag."""

    def __init__(self, layout: Layout, tag: str):
        self.layout, self.tag = layout, tag

    def __call__(self, i: int, round: int, offset: int = 0) -> pb.NamedTensor:
        s = self.layout.specs[i]
        return pb.NamedTensor(name=s.name, dtype=s.type.code, shape=s.shape, round=round,
                              tags=[self.tag], lossless=True, offset=offset)

    def room(self, i: int) -> int:
        """The most bytes that whole tensor i needs in a message."""
        n = self.layout.sizes[i]
        return field(field(n) + self(i, -1).ByteSize())


def field(n: int) -> int:
    """The size of a protobuf field of n bytes with its tag and length, or 0 if n is 0."""
    return n and 1 + len(uvarint(n)) + n


def written(first: dict, pieces: list[Piece], generated: bool) -> bytes:
    """A message of these pieces, the same bytes in both ways. first has the other fields, which
    only the first message of a stream has."""
    message = pb.TensorChunk(**first)
    if generated:
        for named, data in pieces:
            named.data = bytes(data)
        message.tensors.extend(named for named, _ in pieces)
        return message.SerializeToString()
    parts = [message.SerializeToString()]
    for named, data in pieces:
        description = named.SerializeToString()
        parts += [TENSORS, uvarint(len(description) + field(len(data))), description]
        if len(data):
            parts += [DATA, uvarint(len(data)), data]
    return b"".join(parts)


def read(message: bytes, generated: bool) -> tuple[pb.MessageHeader, list[Piece]]:
    """The header and the pieces of a message."""
    if not generated:
        return opened(message)
    m, pieces = decoded("a message with tensors", pb.TensorChunk, message), []
    for t in m.tensors:
        data = t.data
        t.ClearField("data")
        pieces.append((t, data))
    return m.header, pieces


def opened(message: bytes) -> tuple[pb.MessageHeader, list[Piece]]:
    """Reads a message without copying tensor data."""
    view, head, pieces = memoryview(message), [], []
    try:
        for tag, start, at, end in fields(message, 0, len(message)):
            if tag != TENSORS[0]:
                head.append(view[start:end])
                continue
            description, data = [], b""
            for tag, start, at, stop in fields(message, at, end):
                if tag == DATA[0]:
                    data = view[at:stop]
                else:
                    description.append(view[start:stop])
            pieces.append((pb.NamedTensor.FromString(b"".join(description)), data))
        return pb.TensorChunk.FromString(b"".join(head)).header, pieces
    except (DecodeError, IndexError):
        raise Fault("a message with tensors is malformed") from None


def fields(message: bytes, at: int, end: int) -> Iterator[tuple[int, int, int, int]]:
    """Yields, for each field of message[at:end], its tag and three offsets: of the field, of its
    value and of its end."""
    while at < end:
        start = at
        tag, at = varint(message, at)
        kind = tag & 7
        if kind == 2:
            n, at = varint(message, at)
            stop = at + n
        elif kind == 0:
            stop = varint(message, at)[1]
        else:
            stop = at + {1: 8, 5: 4}.get(kind, end)
        if stop > end:
            raise IndexError
        yield tag, start, at, stop
        at = stop


def varint(message: bytes, at: int) -> tuple[int, int]:
    """The number at this offset, and the offset of its end."""
    n = shift = 0
    while shift < 64:
        byte = message[at]
        at += 1
        n |= (byte & 0x7F) << shift
        if byte < 0x80:
            return n, at
        shift += 7
    raise IndexError


def decoded(what: str, kind, message: bytes):
    try:
        return kind.FromString(message)
    except DecodeError:
        raise Fault(f"{what}: not a {kind.__name__}") from None


def difference(got: pb.NamedTensor, want: pb.NamedTensor) -> str:
    """Describes the first field in which a received tensor differs from the requested one."""
    for f in want.DESCRIPTOR.fields:
        a, b = str(getattr(got, f.name)), str(getattr(want, f.name))
        if a != b:
            return f"tensor {want.name!r}: {f.name} {one_line(a)}, must be {one_line(b)}"
    return f"tensor {want.name!r}: its description has unknown fields"


def one_line(value) -> str:
    return " ".join(str(value).split())[:200]
