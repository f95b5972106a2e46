"""Layouts (names, data types and shapes of a model's tensors) and the memory of tensors."""

from __future__ import annotations

import ctypes
import math
from dataclasses import dataclass
from functools import cached_property
from typing import Iterable, Mapping, Optional

import numpy as np

from . import pages

ALIGN = 64  # bytes, one cache line: alignment of tensors in a block


@dataclass(frozen=True)
class DType:
    code: int  # the type's number in a layout's digest
    numpy: np.dtype
    mask: int  # bits of an element that may change freely
    base: int  # bits to OR with these, so that floats are in [1, 2)

    @property
    def size(self) -> int:
        return self.numpy.itemsize

    def word(self, bits: int) -> int:
        """The bits of an element, repeated to fill a word of 8 bytes."""
        return int.from_bytes(bits.to_bytes(self.size, "little") * (8 // self.size), "little")


# numpy has no bf16, so its elements are uint16 there.
DTYPES = {
    "f16": DType(1, np.dtype("<f2"), 0x03FF, 0x3C00),
    "bf16": DType(2, np.dtype("<u2"), 0x007F, 0x3F80),
    "f32": DType(3, np.dtype("<f4"), 0x007FFFFF, 0x3F800000),
    "f64": DType(4, np.dtype("<f8"), (1 << 52) - 1, 0x3FF << 52),
    "i8": DType(5, np.dtype("i1"), 0xFF, 0),
    "i16": DType(6, np.dtype("<i2"), 0xFFFF, 0),
    "i32": DType(7, np.dtype("<i4"), 0xFFFFFFFF, 0),
    "i64": DType(8, np.dtype("<i8"), (1 << 64) - 1, 0),
    "bool": DType(9, np.dtype("?"), 0x01, 0),
    "u8": DType(10, np.dtype("u1"), 0xFF, 0),
}


@dataclass(frozen=True)
class Spec:
    """One tensor of a model."""

    name: str
    dtype: str
    shape: tuple[int, ...]

    @property
    def type(self) -> DType:
        return DTYPES[self.dtype]

    @property
    def nbytes(self) -> int:
        return math.prod(self.shape) * self.type.size

    @property
    def rows(self) -> int:
        return self.shape[0] if self.shape else 1


class Layout:
    """The tensors of a model, in order. Two layouts are equal if all their specs are."""

    def __init__(self, specs: Iterable[Spec]):
        self.specs = list(specs)
        self.sizes = [s.nbytes for s in self.specs]
        self.nbytes = sum(self.sizes)  # without padding
        self.offsets: list[int] = []  # in one block of memory, multiples of ALIGN
        self.size = 0  # bytes of that block
        for n in self.sizes:
            self.offsets.append(self.size)
            self.size += -(-n // ALIGN) * ALIGN
        self.extent = max(self.size, ALIGN)  # bytes per package in shared memory, never 0

    def __reduce__(self):  # without cached properties, which may not be pickled
        return Layout, (self.specs,)

    @classmethod
    def of(cls, tensors: Iterable[Mapping]) -> Layout:
        """The layout of the tensors in an order or an assignment."""
        specs = []
        for t in tensors:
            if t.get("var"):
                raise ValueError(f"tensor {t['name']!r}: varying lengths are not supported")
            if t["dtype"] not in DTYPES:
                raise ValueError(f"tensor {t['name']!r}: unknown dtype {t['dtype']!r}")
            specs.append(Spec(t["name"], t["dtype"], tuple(t.get("shape") or ())))
        return cls(specs)

    def __len__(self) -> int:
        return len(self.specs)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Layout) and self.specs == other.specs

    __hash__ = None

    @cached_property
    def digest(self) -> int:
        """A hash of all names, data types and shapes, which the ends of a session compare."""
        import xxhash  # here, because workers of reference rows do not need it

        text = bytearray()
        for s in self.specs:
            name = s.name.encode()
            text += uvarint(len(name)) + name + bytes([s.type.code]) + uvarint(len(s.shape))
            for n in s.shape:
                text += uvarint(n)
        return xxhash.xxh3_64_intdigest(bytes(text))

    # Arguments of the kernel, with one entry per tensor.

    @cached_property
    def masks(self) -> ctypes.Array:
        return words(s.type.word(s.type.mask) for s in self.specs)

    @cached_property
    def bases(self) -> ctypes.Array:
        return words(s.type.word(s.type.base) for s in self.specs)

    @cached_property
    def lengths(self) -> ctypes.Array:
        return words(self.sizes)

    @cached_property
    def rows(self) -> ctypes.Array:
        return words(s.rows for s in self.specs)


def words(numbers: Iterable[int]) -> ctypes.Array:
    numbers = list(numbers)
    return (ctypes.c_uint64 * len(numbers))(*numbers)


def address(a: np.ndarray) -> int:
    return a.__array_interface__["data"][0]


def uvarint(n: int) -> bytes:
    out = bytearray()
    while n >= 0x80:
        out.append(n & 0x7F | 0x80)
        n >>= 7
    return bytes(out + bytes([n]))


class Package:
    """The tensors of one model or update: a view of each tensor's bytes, at any addresses."""

    def __init__(self, layout: Layout, data: list[np.ndarray]):
        self.layout, self.data, self.receipt = layout, data, b""

    @classmethod
    def over(cls, layout: Layout, block) -> Package:
        """A package in an existing block of layout.size bytes, which is not copied."""
        block = np.frombuffer(block, np.uint8, layout.size)
        places = zip(layout.offsets, layout.sizes)
        return cls(layout, [block[at:at + n] for at, n in places])

    @classmethod
    def alloc(cls, layout: Layout) -> Package:
        """A package in new memory."""
        return cls.over(layout, pages.private(layout.size))

    @classmethod
    def touched(cls, layout: Layout) -> Package:
        """The same, with all pages touched, so that rounds need not do it."""
        package = cls.alloc(layout)
        for data in package.data:
            data.fill(0)
        return package

    @classmethod
    def of(cls, layout: Layout, arrays: Iterable[np.ndarray]) -> Package:
        """A package of contiguous arrays of any shape and type, which are not copied."""
        return cls(layout, [a.reshape(-1).view(np.uint8) for a in arrays])

    def view(self, i: int) -> np.ndarray:
        """Tensor i in its type and shape; bf16 as uint16."""
        s = self.layout.specs[i]
        return self.data[i].view(s.type.numpy).reshape(s.shape)

    @cached_property
    def views(self) -> dict[str, np.ndarray]:
        """All tensors by name."""
        return {s.name: self.view(i) for i, s in enumerate(self.layout.specs)}

    @cached_property
    def addresses(self) -> ctypes.Array:
        """The tensors' addresses, for the kernel."""
        return words(map(address, self.data))


def layout_of(tensors: Optional[Iterable[Mapping]], otherwise: Layout) -> Layout:
    """The layout of updates: the model's, otherwise, unless tensors describe another one."""
    layout = Layout.of(tensors) if tensors else otherwise
    return otherwise if layout == otherwise else layout
