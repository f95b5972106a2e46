"""Packages in memory that a server shares, as package transports/internal/slab places them."""

from __future__ import annotations

import struct
from typing import Iterable

import numpy as np

from .layout import Layout, Package
from .session import Fault, Job, Session
from .wire import now


def copy(session: Session, to: Package, source: Package, which: Iterable[int], job: Job) -> None:
    """Copies tensors between shared memory and this process's own, for one job."""
    start, size = now(), 0
    for i in which:
        np.copyto(to.data[i], source.data[i])
        size += to.layout.sizes[i]
    session.recorder.add("copy", start, now(), job)
    session.recorder.count("copied", size)


class Packages:
    """n packages of one layout in a block of memory, by the first 16 bytes of their handles."""

    def __init__(self, memory, n: int, layout: Layout):
        self._layout, self._places = layout, {}
        for at in range(0, n * layout.extent, layout.extent):
            package = Package.over(layout, memoryview(memory)[at:at + layout.size])
            self._places[struct.pack("<QQ", at, layout.size)] = package

    def at(self, handle: bytes) -> Package:
        package = self._places.get(handle[:16])
        if package is None:
            offset, length = struct.unpack_from("<QQ", handle)
            raise Fault(f"handle to {length} bytes at {offset}: none of the "
                        f"{len(self._places)} packages of {self._layout.size}")
        return package
