"""The memory that a local lane of http-shm shares with its server: the server's slab of models,
mapped read-only, and the lane's own slab of updates. Package transports/internal/slab defines
the layout of both.

A lane must prove that it is local: it finds the nonce in the slab that the server names, and
writes a challenge into the lane's slab, where the server checks it. Tensors that are not, or no
longer, in a slab are sent in HTTP bodies.
"""

from __future__ import annotations

import os
import re
import stat
import struct
from typing import Callable, NamedTuple, Optional

import numpy as np

from .layout import ALIGN, Package
from .packages import Packages, copy
from .pages import shared
from .session import Fault, Job, Session

HEADER, MAGIC = 4096, b"ipcslab\x01"
NONCE = CHALLENGE = 16
HANDLE = 28  # bytes
FOLDER = re.compile(r"/dev/shm/ipcbench-[0-9a-f]{16}/[^/]+")  # paths of servers' slabs
REASONS = ("off", "full", "missing", "dtype", "stale")  # any other is counted as "remote"


class Handle(NamedTuple):
    """Identifies a block of a slab in any process."""

    offset: int
    length: int
    generation: int
    index: int

    @classmethod
    def of(cls, text: str) -> Handle:
        return cls(*struct.unpack("<QQQI", unhex(text, HANDLE, "handle")))


def unhex(text, size: int, what: str) -> bytes:
    try:
        b = bytes.fromhex(text)
    except (ValueError, TypeError):
        b = b""
    if len(b) != size:
        raise Fault(f"{what} {str(text)[:60]!r}: must be {2 * size} hexadecimal digits")
    return b


class Slab:
    """A slab that the server has named, mapped."""

    def __init__(self, ref: dict, write: bool):
        if not isinstance(ref, dict) or not FOLDER.fullmatch(str(ref.get("path"))):
            raise Fault("not a slab of a server")  # a remote server may send harmful paths
        nonce = unhex(ref.get("nonce"), NONCE, "nonce")
        fd = open_own(ref["path"], os.O_RDWR if write else os.O_RDONLY)
        try:
            n, head = os.fstat(fd).st_size, os.pread(fd, 32, 0)
            if head != MAGIC + (n - HEADER).to_bytes(8, "little", signed=True) + nonce:
                raise Fault(f"{ref['path']} is not the slab of this session")
            self._map = shared(fd, n, write)
        finally:
            os.close(fd)
        self.bytes = np.frombuffer(self._map, np.uint8)[HEADER:]
        self.words = self.bytes[:len(self.bytes) & ~7].view("<u8")

    def view(self, h: Handle) -> Optional[np.ndarray]:
        """The bytes that h identifies, or None if they are not available any more."""
        end = len(self.bytes) - h.length
        if h.offset < ALIGN or h.offset % ALIGN or h.offset > end:
            return None
        return self.bytes[h.offset:h.offset + h.length] if self.holds(h) else None

    def holds(self, h: Handle) -> bool:
        """Whether the block is published and not released: its generation precedes it then."""
        return h.generation != 0 and int(self.words[(h.offset - ALIGN) // 8]) == h.generation


def open_own(path: str, flags: int) -> int:
    """Opens a file that another process of this user has named. Because opening a device can do
    harm, it first checks the file, in a directory that no other user can write to."""
    dir = os.open(os.path.dirname(path), os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        of, name = os.fstat(dir), os.path.basename(path)
        st = os.stat(name, dir_fd=dir, follow_symlinks=False)
        own = of.st_uid == st.st_uid == os.geteuid() and not of.st_mode & 0o022
        if not own or not stat.S_ISREG(st.st_mode):
            raise Fault(f"{path} is not a regular file that only this user can write")
        return os.open(name, flags | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=dir)
    finally:
        os.close(dir)


def opened(ref: Optional[dict], write: bool) -> Optional[Slab]:
    """The slab that ref names, or None if it is not this session's."""
    try:
        return Slab(ref, write) if ref else None
    except (Fault, OSError, ValueError):
        return None


class Shared:
    def __init__(self, session: Session, answer: dict):
        """Opens the slabs that the answer to a join names, and writes the challenge."""
        self.session, self.recorder, self.layout = session, session.recorder, session.down
        self.named = answer.get("models")
        self.models = opened(self.named, False)
        self.updates = opened(answer.get("updates"), True)
        self.handles: dict[int, Handle] = {}  # by tensor, of the current model's shared tensors
        self._recent: list[tuple[tuple, Package]] = []  # recent models, by their tensors' offsets
        if self.updates is None:
            return
        try:
            challenge = unhex(answer.get("challenge"), CHALLENGE, "challenge")
            at = int(answer.get("offset", 0))
            self.updates.bytes[at:at + CHALLENGE] = np.frombuffer(challenge, np.uint8)
        except (Fault, ValueError, TypeError):  # a bad answer, or a slab without room
            self.give_up()
            return
        room = len(self.updates.bytes) // session.up.extent
        self._places = Packages(self.updates.bytes, room, session.up)

    def give_up(self) -> None:
        self.updates = None

    def close(self) -> None:
        """Drops shared memory, which is unmapped when no array uses it."""
        self.models = self.updates = None
        self.handles, self._recent, self._places = {}, [], None

    def model(self, a: dict, own: Callable[[], Package]) -> tuple[Package, list[int]]:
        """The model of job a, and the indices of the tensors that must still be fetched."""
        mapped = self.models is not None and a.get("pool") == self.named is not None
        located = self._locate(a.get("runs") or [])
        views, rest, stale = {}, [], 0
        for i in range(len(self.layout)):
            h = located.get(i) if mapped else None
            views[i] = self.models.view(h) if h else None
            if views[i] is None:
                rest.append(i)
                stale += h is not None
        self.handles = {i: located[i] for i in views if views[i] is not None}
        reason = a.get("fallback", "") if mapped or not a.get("pool") else "remote"
        self._fell_back("stale", stale)
        self._fell_back(reason if reason in REASONS else "remote", len(rest) - stale)
        if not self.handles:
            return own(), rest
        if rest:
            views.update((i, own().data[i]) for i in rest)
            return Package(self.layout, list(views.values())), rest
        places = tuple(h.offset for h in self.handles.values())
        for known, package in self._recent:
            if known == places:
                return package, rest
        package = Package(self.layout, list(views.values()))
        self._recent = self._recent[-1:] + [(places, package)]
        return package, rest

    def _fell_back(self, reason: str, n: int) -> None:
        if n and self.session.transport == "http-shm":
            self.recorder.count("fallback." + reason, n)

    def _locate(self, runs: list) -> dict[int, Handle]:
        """The handles of tensors. A run is a series of tensors stored one after another."""
        handles: dict[int, Handle] = {}
        for r in runs:
            try:
                first, count, h = int(r["first"]), int(r["count"]), Handle.of(r["handle"])
            except (KeyError, TypeError, ValueError):
                raise Fault(f"a job with a malformed run of tensors: {str(r)[:100]}") from None
            if first < 0 or count < 1 or first + count > len(self.layout):
                raise Fault(f"a job with tensors {first} to {first + count} of {len(self.layout)}")
            for i in range(first, first + count):
                if i > first:
                    taken = max(-(-h.length // ALIGN), 1) * ALIGN + ALIGN  # + generation
                    h = Handle(h.offset + taken, self.layout.sizes[i], h.generation + 1, 0)
                if h.length != self.layout.sizes[i] or h.generation == 0 or i in handles:
                    name = self.layout.specs[i].name
                    raise Fault(f"tensor {i} ({name}): a handle to {h.length} bytes,"
                                f" must be {self.layout.sizes[i]}")
                handles[i] = h
        return handles

    def unchanged(self) -> None:
        """Checks that the current model's memory still holds the model that was lent."""
        for i, h in self.handles.items():
            if not self.models.holds(h):
                name = self.layout.specs[i].name
                raise Fault(f"the model changed while it was in use: tensor {i} ({name})")

    def clone(self, own: Package, model: Package, job: Job) -> Package:
        """The current model, with its shared tensors copied to own, the lane's memory."""
        copy(self.session, own, model, self.handles, job)
        self.unchanged()
        self.handles = {}
        return own

    def update(self, text: str) -> Package:
        """The package that a handle identifies in the lane's slab."""
        handle = unhex(text, HANDLE, "handle")
        if self.updates is None:
            raise Fault("a handle to a slab of updates that is not shared")
        return self._places.at(handle)
