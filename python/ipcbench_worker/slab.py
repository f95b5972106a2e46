"""shm-slab at the worker's end: transports/shm and transports/internal/slab say how it works.

Model and updates lie in memory that the server has made, behind descriptors without a name. The
packages of this lane are numpy's views over the very same pages: no tensor is copied. Jobs and
receipts come and go through a mailbox for each direction, whose sequence number is the bell.
"""

from __future__ import annotations

import array
import ctypes
import errno
import fcntl
import json
import mmap
import os
import platform
import socket
import stat
import struct
import time
from typing import Optional

import numpy as np

from .layout import Layout, Package, address, shared
from .packages import Packages, copy
from .session import Fault, Job, Session, connect

# Its settings, in order, the default first: the others stand in a variant's name.
SETTINGS = {"wait": ("block", "spin"), "copy": ("off", "in", "out")}

SEALS = 0x2 | 0x4  # F_SEAL_SHRINK, F_SEAL_GROW: a descriptor that could shrink is a SIGBUS later


def mapped(what: str, fd: int, size: int, write: bool) -> mmap.mmap:
    """The memory of size bytes behind a descriptor that came from the server."""
    st = os.fstat(fd)
    if not stat.S_ISREG(st.st_mode) or st.st_size != size:
        raise Fault(f"{what}: {size} bytes announced, {st.st_size} found")
    try:
        sealed = fcntl.fcntl(fd, 1034)  # F_GET_SEALS
    except OSError:  # no memfd
        sealed = 0
    if sealed & SEALS != SEALS:
        raise Fault(f"{what}: its size is not sealed")
    return shared(fd, size, write)


# futex(2), for whose words Python has no other name.
FUTEX = {"x86_64": 202, "aarch64": 98}.get(platform.machine())
WAIT, WAKE_OP = 0, 5
ADD, NEVER = 1 << 28, 0xFFF  # adds a number, and compares what was there with -1
_syscall = ctypes.CDLL(None, use_errno=True).syscall
_syscall.restype = ctypes.c_long
_syscall.argtypes = [ctypes.c_long, ctypes.c_void_p, ctypes.c_int, ctypes.c_uint32,
                     ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint32]
_slice = (ctypes.c_long * 2)(0, 100_000_000)  # how long one sleep may take: 100 ms
_SLICE = ctypes.addressof(_slice)

OVER = 0xFFFFFFFF  # in place of a sequence number: the session has ended
LENGTH, MESSAGE = 64, 128  # where they begin in a mailbox; the sequence number is at 0
SPARE = 256 << 10


class Mailbox:
    """One direction of a lane: it holds at most one message."""

    def __init__(self, memory: mmap.mmap):
        self.words = memoryview(memory).cast("I")
        self.room = memoryview(memory)[MESSAGE:]
        self.address = address(np.frombuffer(memory, np.uint8))
        self.number = 0  # of the last message

    @staticmethod
    def size(layout: Layout) -> int:
        return MESSAGE + SPARE + 64 * len(layout)

    def following(self) -> int:
        return self.number + 1 if self.number + 1 < OVER else 0

    def post(self, n: int) -> None:
        """Makes the first n bytes of the room the next message, and wakes the server.

        The kernel adds to the number and wakes in one call. Python has no store that others see
        after those before it, but what the kernel adds to is such a one.
        """
        self.words[LENGTH // 4] = n
        before, self.number = self.number, self.following()
        step = self.number - before & 0xFFF
        op = ADD | step << 12 | NEVER
        if _syscall(FUTEX, self.address, WAKE_OP, 1, None, self.address, op) < 0:
            raise OSError(ctypes.get_errno(), "futex: wake")

    def changed(self) -> bool:
        return self.words[0] != self.number

    def sleep(self) -> bool:
        """Waits for a message, for 100 ms at most. Whether there is one is for the kernel to
        say, which looks with a barrier: what was written before is then seen."""
        if _syscall(FUTEX, self.address, WAIT, self.number, _SLICE, None, 0) < 0:
            e = ctypes.get_errno()
            if e not in (errno.EAGAIN, errno.EINTR, errno.ETIMEDOUT):
                raise OSError(e, "futex: wait")
            return e == errno.EAGAIN
        return self.changed()

    def take(self) -> Optional[bytes]:
        """A copy of the message that has come, or None if the session has ended. What the server
        could change meanwhile is read once."""
        number, length = self.words[0], self.words[LENGTH // 4]
        if number == OVER:
            return None
        if number != self.following():
            raise Fault(f"message out of sequence: number {number} after {self.number}")
        if length > len(self.room):
            raise Fault(f"message length is out of bounds: {length} bytes in {len(self.room)}")
        self.number = number
        return bytes(self.room[:length])


ORDER = struct.Struct("<qqdB28s28s")  # round, client, weight, flags, handles of model and update
TIMED = 1  # the flag of a job that counts; 2: there is no model


def fields(b: bytes) -> tuple[str, bytes, bytes, bytes]:
    """The device, configuration, rows and receipt of an order, each with its length before it."""
    found, at = [], 0
    for _ in range(4):
        end = at + 4 + int.from_bytes(b[at:at + 4], "little")
        found.append(b[at + 4:end])
        at = end
    if at != len(b):  # also where a field ends outside
        raise Fault("message is malformed")
    device, *others = found
    return (device.decode(errors="replace"), *others)


class Lane:
    calls = False  # whether ping has a meaning

    def __init__(self, session: Session):
        if FUTEX is None:
            raise Fault(f"no futex on {platform.machine()} in Python: x86_64 and aarch64 have one")
        self.session = session
        given = session.settings
        self.settings = {name: given.get(name, values[0]) for name, values in SETTINGS.items()}
        for name, value in self.settings.items():
            if value not in SETTINGS[name]:
                raise Fault(f"{name}={value} is unknown in Python")
        self.spins = self.settings["wait"] == "spin"
        self.heap: Optional[Package] = None  # with copy=in: where the update is written first
        self.clone: Optional[Package] = None  # with copy=out: where the model is read
        self.tail: Optional[bytes] = None  # of the last order, and what is in it

    def dial(self) -> None:
        s = self.session
        self.link = connect(s)
        self._introduce()
        text, files = self._expect(b"w")
        try:
            if text or len(files) != 4:
                raise Fault(f"welcome with {len(files)} descriptors, want 4")
            self.inbox = Mailbox(mapped("mailbox", files[0], Mailbox.size(s.down), False))
            self.outbox = Mailbox(mapped("mailbox", files[1], Mailbox.size(s.up), True))
            self.models = Packages(mapped("models", files[2], 2 * s.down.extent, False), 2, s.down)
            room = s.depth * s.up.extent
            self.updates = Packages(mapped("updates", files[3], room, True), s.depth, s.up)
        finally:
            for fd in files:
                os.close(fd)
        if self.settings["copy"] == "in":
            self.heap = Package.touched(s.up)
        if self.settings["copy"] == "out":
            self.clone = Package.touched(s.down)
        self._send(b"agreed")
        _, files = self._expect(b"agreed")
        for fd in files:
            os.close(fd)

    def receive(self) -> Optional[tuple[Job, Package]]:
        self.start = time.monotonic_ns()
        self._wait()
        order = self.inbox.take()
        if order is None:
            return None
        if len(order) < ORDER.size:
            raise Fault("message is malformed")
        round, client, weight, flags, model, self.handle = ORDER.unpack_from(order)
        tail = order[ORDER.size:]
        if tail != self.tail:  # most are like the one before
            self.fields = fields(tail)
            self.tail = tail
        device, config, rows, receipt = self.fields
        if flags > TIMED or rows:
            raise Fault("a job without a model, or whose model's lengths vary: not in Python")
        package = self.models.at(model)
        self.job = Job(round, client, weight, device, config, flags == TIMED)
        self.received = len(order)
        self.came = time.monotonic_ns()
        if self.clone:
            copy(self.session, self.clone, package, range(len(self.session.down)), self.job)
            package = self.clone
        package.receipt = receipt
        return self.job, package

    def reserve(self) -> Package:
        self.update = self.updates.at(self.handle)
        package = self.heap or self.update
        package.receipt = b""  # that of an update before
        return package

    def submit(self, package: Package) -> None:
        if self.heap:
            copy(self.session, self.update, self.heap, range(len(self.session.up)), self.job)
        # The handle comes back as it was sent. No lengths vary, so there are no rows.
        result = self.handle + struct.pack("<II", 0, len(package.receipt)) + package.receipt
        if len(result) > len(self.outbox.room):
            raise Fault(f"receipt of {len(package.receipt)} bytes does not fit: the limit is "
                        f"{len(self.outbox.room) - len(self.handle) - 8}")
        self.outbox.room[:len(result)] = result
        self.outbox.post(len(result))
        self._record(len(result))

    def _record(self, sent: int) -> None:
        """Records a job when its update is gone: the server wakes up meanwhile."""
        rec, layout = self.session.recorder, self.session.down
        rec.add("wait", self.start, self.came, self.job)
        rec.count("wire.received", self.received)
        rec.count("handle.tensors", len(layout))
        rec.count("handle.bytes", layout.nbytes)
        rec.count("wire.sent", sent)

    def close(self, cause: Optional[str]) -> None:
        if cause is not None:
            try:
                self.link.settimeout(1)  # the server may not read
                self.link.send(b"r" + cause.encode()[:4095])
            except OSError:
                pass
        self.link.close()

    def _wait(self) -> None:
        """Waits for the next job. The link's end says that the server is gone."""
        looks = 0
        while True:
            if self.spins:
                while not self.inbox.changed() and looks < 10_000:
                    looks += 1
                    if looks % 64 == 0:
                        os.sched_yield()
            if (self.inbox.changed() or not self.spins) and self.inbox.sleep():
                return
            looks = 0
            try:
                self._receive(socket.MSG_DONTWAIT)
            except BlockingIOError:
                continue
            except Fault as e:
                if not self.inbox.changed():  # what came before the end still counts
                    raise Fault(f"the peer is gone: {e}") from None

    def _introduce(self) -> None:
        """Shows the secret, and says who this is: package driver's hello."""
        s = self.session
        others = [f":{k}={v}" for k, v in self.settings.items() if v != SETTINGS[k][0]]
        variant = s.transport + "".join(others)
        hello = json.dumps({"protocol": 1, "variant": variant, "lane": s.lane,
                            "down": f"{s.down.digest:016x}", "up": f"{s.up.digest:016x}"}).encode()
        self._send(s.secret.encode() + struct.pack(">H", len(hello)) + hello)
        answer = self.link.recv(4096)
        s.recorder.count("wire.received", len(answer))
        if len(answer) < 2:
            raise Fault("the peer has closed the connection")
        if answer[2:]:
            raise Fault("refused: " + answer[2:].decode(errors="replace"))

    def _send(self, packet: bytes) -> None:
        self.session.recorder.count("wire.sent", len(packet))
        self.link.send(packet)

    def _receive(self, flags: int = 0) -> tuple[bytes, list[int]]:
        """The next packet of the link, and its descriptors."""
        fds = array.array("i")
        room = socket.CMSG_SPACE(256 * fds.itemsize)  # more than the kernel sends
        packet, control, flags, _ = self.link.recvmsg(4096, room, flags | socket.MSG_CMSG_CLOEXEC)
        self.session.recorder.count("wire.received", len(packet))
        for level, kind, data in control:
            if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
                fds.frombytes(data[:len(data) // fds.itemsize * fds.itemsize])
        why = None
        if flags & (socket.MSG_TRUNC | socket.MSG_CTRUNC):
            why = "packet is too large, or its descriptors were cut off: too many open files?"
        elif not packet:
            why = "the peer has closed the connection"
        elif packet[:1] == b"r":
            why = packet[1:].decode(errors="replace")
        if why:
            for fd in fds:
                os.close(fd)
            raise Fault(why)
        return packet, list(fds)

    def _expect(self, start: bytes) -> tuple[bytes, list[int]]:
        """The packet with which the server goes on: a letter, or more."""
        packet, files = self._receive()
        if packet[:len(start)] != start:
            for fd in files:
                os.close(fd)
            raise Fault("message is malformed")
        return packet[len(start):], files
