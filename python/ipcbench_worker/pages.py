"""Memory of tensors in pages of a chosen size, and what the kernel has done, as tensor/pages in Go."""

from __future__ import annotations

import ctypes
import mmap

import numpy as np

HUGE = 2 << 20  # bytes of a huge page
POPULATE = getattr(mmap, "MAP_POPULATE", 0x8000)  # has a name since Python 3.10; avoids page faults

size = ""  # of the pages of all memory from now on: "" as the machine is configured, small or huge
_lent: list[tuple[int, int]] = []  # addresses and sizes of memory with a whole huge page

_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
_libc.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]


def address(block) -> int:
    return np.frombuffer(block, np.uint8).__array_interface__["data"][0]


def lend(block, n: int):
    """The first n bytes of a block, which count in observe."""
    if n >= HUGE:
        _lent.append((address(block), n))
    return block


def aligned(n: int) -> memoryview:
    """n bytes of private memory at a multiple of HUGE, which no other object uses."""
    room = mmap.mmap(-1, n + 2 * HUGE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    skip = -address(room) % HUGE
    return memoryview(room)[skip:skip + n]


def advise(block, n: int) -> None:
    advice = mmap.MADV_HUGEPAGE if size == "huge" else mmap.MADV_NOHUGEPAGE
    if _libc.madvise(address(block), n, advice) and size == "huge":
        raise OSError(ctypes.get_errno(), "madvise")


def private(n: int):
    """Memory of this process. Without a size, pages are ordinary ones like Go's: numpy would ask for
    huge pages, and a training would take a tenth less time."""
    n = max(1, n)
    if not size:
        return lend(mmap.mmap(-1, n, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS), n)
    block = aligned(n)
    advise(block, -(-n // HUGE) * HUGE)
    return lend(block, n)


def shared(fd: int, n: int, write: bool):
    """Maps the file of a descriptor, which can be closed afterwards, with all pages touched."""
    access = mmap.PROT_READ | (mmap.PROT_WRITE if write else 0)
    if not size:
        return lend(mmap.mmap(fd, n, mmap.MAP_SHARED | POPULATE, access), n)
    block = aligned(n)  # the file replaces this part of it, until all of it is unmapped
    at = address(block)
    if _libc.mmap(at, n, access, mmap.MAP_SHARED | 0x10, fd, 0) != at:  # MAP_FIXED
        raise OSError(ctypes.get_errno(), "mmap")
    advise(block, n)
    pages = np.frombuffer(block, np.uint8)[::4096]
    if write:
        pages += 0  # reading first would split huge pages at the first write
    else:
        pages.sum()
    return lend(block if write else block.toreadonly(), n)


def observe() -> dict[str, int]:
    """The bytes of lent memory in whole ranges of HUGE that are present, and the part of them in huge
    pages, or nothing if there is none."""
    whole = huge = part = present = found = 0
    if not _lent:
        return {}
    with open("/proc/self/smaps") as f:
        for line in f:
            key, _, value = line.partition(":")
            first, _, last = line.split(" ", 1)[0].partition("-")
            if last and not key.isalpha():
                part = min(part, present)
                whole, huge = whole + part, huge + min(part, found)
                start, end, part, present, found = int(first, 16), int(last, 16), 0, 0, 0
                for at, n in _lent:
                    pages = min(end, at + n) // HUGE - -(-max(start, at) // HUGE)
                    part += max(0, pages) * HUGE
            elif key == "Rss":
                present = int(value.split()[0]) << 10
            elif key in ("AnonHugePages", "ShmemPmdMapped", "FilePmdMapped"):
                found += int(value.split()[0]) << 10
    part = min(part, present)
    whole, huge = whole + part, huge + min(part, found)
    return {"whole_bytes": whole, "huge_bytes": huge} if whole else {}
