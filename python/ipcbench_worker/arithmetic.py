"""The arithmetic of a round: training in the workers and averaging in the server.

docs/reference/arithmetic.md defines it. The loops over words (8 bytes) run in C if kernel.so was
built next to this file, and otherwise in numpy, in blocks whose intermediate results stay in the
cache. KERNEL names the one in use.
"""

from __future__ import annotations

import ctypes
import os
from typing import Optional

import numpy as np

from .layout import Layout, Package, address

GOLDEN, WORD = 0x9E3779B97F4A7C15, (1 << 64) - 1
BLOCK = 1 << 15  # words: with intermediate results, they need a part of a core's own cache


def _load():
    try:
        lib = ctypes.CDLL(os.path.join(os.path.dirname(os.path.abspath(__file__)), "kernel.so"))
    except OSError:
        return None
    n, p = ctypes.c_uint64, ctypes.c_void_p
    lib.change.argtypes, lib.change.restype = [n, p, p, p, p, p, n, n], None
    lib.digest.argtypes, lib.digest.restype = [n, p, p, p], n
    lib.fold_f32.argtypes, lib.fold_f32.restype = [p, p, n, ctypes.c_float, ctypes.c_int], None
    lib.fold_f64.argtypes, lib.fold_f64.restype = [p, p, n, ctypes.c_double, ctypes.c_int], None
    return lib


_c = _load()
KERNEL = "C" if _c else "numpy"


def scatter(h: int) -> int:
    h = (h ^ h >> 30) * 0xBF58476D1CE4E5B9 & WORD
    h = (h ^ h >> 27) * 0x94D049BB133111EB & WORD
    return h ^ h >> 31


def mix(*parts: int) -> int:
    h = 0
    for v in parts:
        h = scatter(h + GOLDEN + v & WORD)
    return h


def word(s: int, i: int) -> int:
    x = (s + i) * GOLDEN & WORD
    return x ^ x >> 32


def spread(w: int, at: int) -> int:
    return word(w ^ at, 0) * (at | 1) & WORD


def first(package: Package, seed: int) -> None:
    """Writes the first values of a model."""
    _change(package, None, mix(seed, WORD, WORD))


def train(model: Package, update: Package, seed: int, round: int, client: int) -> None:
    """The stock worker function: reads every byte of model and writes every byte of update."""
    key = mix(seed, round, client)
    if update.layout == model.layout:
        _change(update, model, key)
    else:
        _change(update, None, key, mix(digest(model)))


def advance(next: Package, model: Package, average: Package) -> None:
    """Computes the next model if updates have another layout than the model."""
    _change(next, model, mix(digest(average)))


def _change(to: Package, frm: Optional[Package], key: int, outer: int = 0) -> None:
    """Writes every tensor t of to: frm's words, or the type's base, XORed with a masked stream.
    The stream's s is mix(…, t), or mix(…, mix(…, t)) unless outer is 0; key and outer are the
    inner and the outer mix(…)."""
    layout = to.layout
    if _c:
        _c.change(len(layout), to.addresses, frm and frm.addresses, layout.lengths, layout.masks,
                  layout.bases, key, outer)
        return
    for t, out in enumerate(to.data):
        s = scatter(key + GOLDEN + t & WORD)
        s = scatter(outer + GOLDEN + s & WORD) if outer else s
        mask, base = np.uint64(layout.masks[t]), np.uint64(layout.bases[t])
        dst, rest = _words(out)
        src = _words(frm.data[t])[0] if frm else None
        for i, x, y in _blocks(s * GOLDEN, len(dst)):
            np.right_shift(x, 32, out=y)
            np.bitwise_xor(x, y, out=x)
            np.bitwise_and(x, mask, out=x)
            np.bitwise_xor(x, base if src is None else src[i:i + len(x)], out=dst[i:i + len(x)])
        if len(rest):
            w = _rest(_words(frm.data[t])[1]) if frm else int(base)
            w ^= word(s, len(dst)) & int(mask)
            rest[:] = np.frombuffer(w.to_bytes(8, "little"), np.uint8, len(rest))


def digest(package: Package) -> int:
    """A number that depends on every byte of the package and its position."""
    layout = package.layout
    if _c:
        return _c.digest(len(layout), package.addresses, layout.lengths, layout.rows)
    d = 0
    for t, data in enumerate(package.data):
        words, rest = _words(data)
        at = mix(t, layout.specs[t].rows, len(data))
        total = spread(_rest(rest), at)
        for i, x, y in _blocks(at + GOLDEN, len(words)):  # x is spread's at of each word
            np.bitwise_xor(x, words[i:i + len(x)], out=y)
            np.multiply(y, GOLDEN, out=y)
            np.bitwise_or(x, 1, out=x)
            np.multiply(x, y ^ (y >> np.uint64(32)), out=x)
            total += int(np.add.reduce(x))
        d = mix(d, total & WORD)
    return d


_steps = np.arange(BLOCK, dtype=np.uint64) * np.uint64(GOLDEN)
_x, _y = np.empty_like(_steps), np.empty_like(_steps)  # one thread of a process computes


def _blocks(start: int, words: int):
    """Yields for each block: its first index, start + i * GOLDEN for all its words i, and an
    array for intermediate results."""
    for i in range(0, words, BLOCK):
        n = min(BLOCK, words - i)
        np.add(_steps[:n], np.uint64(start + i * GOLDEN & WORD), out=_x[:n])
        yield i, _x[:n], _y[:n]


def _words(data: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The whole words of a tensor, and the 0 to 7 bytes after them."""
    n = len(data) & ~7
    return data[:n].view("<u8"), data[n:]


def _rest(data: np.ndarray) -> int:
    return int.from_bytes(data.tobytes(), "little")


def hashes(package: Package) -> list[int]:
    """The running hash after each tensor; the last one is the package's."""
    from xxhash import xxh3_64_intdigest

    h, all = 0, []
    for data in package.data:
        h = xxh3_64_intdigest(data, seed=h + len(data) & WORD)
        all.append(h)
    return all


def hash(package: Package) -> int:
    return hashes(package)[-1] if package.data else 0


_FLOATS = ("f32", "f64")  # summed up in the average itself
_WIDE = ("i32", "i64", "bool")  # summed up in float64; all others in float32


class Average:
    """Federated averaging: folds updates into their average, in the order of the clients."""

    def __init__(self, layout: Layout):
        self.layout = layout
        self._sums = [None if s.dtype in _FLOATS else
                      np.empty(s.nbytes // s.type.size, "<f8" if s.dtype in _WIDE else "<f4")
                      for s in layout.specs]
        self._room = np.empty(BLOCK, np.float64)

    def begin(self, next: Package, total: float) -> None:
        self._next, self._total, self._folded = next, total, 0

    def fold(self, update: Package, weight: float) -> None:
        begun = self._folded > 0
        self._folded += 1
        for t, spec in enumerate(self.layout.specs):
            src, acc, by = update.view(t).reshape(-1), self._sums[t], weight
            if acc is None:
                acc, by = self._next.view(t).reshape(-1), weight / self._total
                if _c:
                    fold = _c.fold_f32 if spec.dtype == "f32" else _c.fold_f64
                    fold(address(acc), address(src), len(src), by, not begun)
                    continue
            elif spec.dtype in ("f16", "bf16"):
                by = weight / self._total
            by = acc.dtype.type(by)
            for i in range(0, len(src), BLOCK):
                part, out = src[i:i + BLOCK], acc[i:i + BLOCK]
                if spec.dtype == "bf16":
                    part = (part.astype(np.uint32) << 16).view(np.float32)
                elif spec.dtype == "bool":
                    part = part.view(np.uint8) != 0  # all bytes except 0 are true
                if begun:
                    room = self._room.view(acc.dtype)[:len(part)]
                    np.add(out, np.multiply(part, by, out=room, dtype=acc.dtype), out=out)
                else:
                    np.multiply(part, by, out=out, dtype=acc.dtype)

    def finish(self) -> None:
        for t, spec in enumerate(self.layout.specs):
            acc, out = self._sums[t], self._next.view(t).reshape(-1)
            if acc is None:
                continue
            if spec.dtype == "f16":
                with np.errstate(over="ignore"):
                    out[:] = acc
            elif spec.dtype == "bf16":
                bits = acc.view(np.uint32)
                near = bits + (np.uint32(0x7FFF) + (bits >> 16 & 1)) >> 16
                out[:] = np.where(np.isnan(acc), bits >> 16 | 0x40, near)
            elif spec.dtype == "bool":
                np.greater(acc, self._total / 2, out=out)
            else:
                limits = np.iinfo(out.dtype)
                mean = np.rint(acc.astype(np.float64) / self._total)
                low, high = mean <= float(limits.min), mean >= float(limits.max)
                mean[low | high] = 0  # floats outside of the type's range cannot be cast
                out[:] = mean
                out[low], out[high] = limits.min, limits.max
