"""The worker's end of shm-slab, documented in packages transports/shm and transports/internal/slab.

Model and updates are in memory that the server has created, in files without a name. The packages
of this lane are numpy views of the same pages, so no tensor is copied. Jobs and results pass
through one mailbox per direction, whose sequence number is a futex.
"""

from __future__ import annotations

import array
import ctypes
import errno
import fcntl
import json
import os
import platform
import socket
import stat
import struct
import time
from typing import Optional

import numpy as np

from .layout import Layout, Package, address
from .packages import Packages, copy
from .pages import shared
from .session import Fault, Job, Session, connect

# The transport's settings in order, with the default first. A variant's name has the others.
SETTINGS = {"wait": ("block", "spin"), "copy": ("off", "in", "out")}

SEALS = 0x2 | 0x4  # F_SEAL_SHRINK, F_SEAL_GROW: access to a file that shrank raises SIGBUS


def mapped(what: str, fd: int, size: int, write: bool):
    """Maps a file that the server has sent, which must have this size and be sealed."""
    st = os.fstat(fd)
    if not stat.S_ISREG(st.st_mode) or st.st_size != size:
        raise Fault(f"{what}: {size} bytes announced, {st.st_size} found")
    try:
        sealed = fcntl.fcntl(fd, 1034)  # F_GET_SEALS
    except OSError:  # not a memfd
        sealed = 0
    if sealed & SEALS != SEALS:
        raise Fault(f"{what}: its size is not sealed")
    return shared(fd, size, write)


# Constants of futex(2), which Python does not define.
FUTEX = {"x86_64": 202, "aarch64": 98}.get(platform.machine())
WAIT, WAKE_OP = 0, 5
ADD, NEVER = 1 << 28, 0xFFF  # add to the word; a second wake needs an old value of -1
_syscall = ctypes.CDLL(None, use_errno=True).syscall
_syscall.restype = ctypes.c_long
_syscall.argtypes = [ctypes.c_long, ctypes.c_void_p, ctypes.c_int, ctypes.c_uint32,
                     ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint32]
_slice = (ctypes.c_long * 2)(0, 100_000_000)  # longest sleep: 100 ms
_SLICE = ctypes.addressof(_slice)

OVER = 0xFFFFFFFF  # the sequence number after the session's end
LENGTH, MESSAGE = 64, 128  # offsets in a mailbox; the sequence number is at 0
SPARE = 256 << 10


class Mailbox:
    """One direction of a lane: it holds at most one message."""

    def __init__(self, memory):
        self.words = memoryview(memory).cast("I")
        self.room = memoryview(memory)[MESSAGE:]
        self.address = address(np.frombuffer(memory, np.uint8))
        self.number = 0  # sequence number of the last message

    @staticmethod
    def size(layout: Layout) -> int:
        return MESSAGE + SPARE + 64 * len(layout)

    def following(self) -> int:
        return self.number + 1 if self.number + 1 < OVER else 0

    def post(self, n: int) -> None:
        """Publishes the first n bytes of room as the next message, and wakes the server.

        The kernel increments the sequence number and wakes in one call. Its addition orders the
        stores before it, which no store in Python does.
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
        """Waits for a message for at most 100 ms, and returns whether there is one. The kernel
        compares the sequence number with a barrier, so that the message's bytes are visible."""
        if _syscall(FUTEX, self.address, WAIT, self.number, _SLICE, None, 0) < 0:
            e = ctypes.get_errno()
            if e not in (errno.EAGAIN, errno.EINTR, errno.ETIMEDOUT):
                raise OSError(e, "futex: wait")
            return e == errno.EAGAIN
        return self.changed()

    def take(self) -> Optional[bytes]:
        """A copy of the message that has arrived, or None if the session has ended. The number
        and the length are read once, because the server could change them."""
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
TIMED = 1  # the flag of a job in a timed round; 2: there is no model


def fields(b: bytes) -> tuple[str, bytes, bytes, bytes]:
    """Splits an order's tail into device, configuration, rows and receipt, each after its
    length."""
    found, at = [], 0
    for _ in range(4):
        end = at + 4 + int.from_bytes(b[at:at + 4], "little")
        found.append(b[at + 4:end])
        at = end
    if at != len(b):  # also if a field ends after b
        raise Fault("message is malformed")
    device, *others = found
    return (device.decode(errors="replace"), *others)


class Lane:
    calls = False  # the transport makes no calls, so there is no ping

    def __init__(self, session: Session):
        if FUTEX is None:
            raise Fault(f"Python workers need x86_64 or aarch64, not {platform.machine()}")
        self.session = session
        given = session.settings
        self.settings = {name: given.get(name, values[0]) for name, values in SETTINGS.items()}
        for name, value in self.settings.items():
            if value not in SETTINGS[name]:
                raise Fault(f"Python workers do not support {name}={value}")
        self.spins = self.settings["wait"] == "spin"
        self.heap: Optional[Package] = None  # with copy=in: the update, before it is copied
        self.clone: Optional[Package] = None  # with copy=out: a copy of the model
        self.tail: Optional[bytes] = None  # of the last order; its fields are in self.fields

    def dial(self) -> None:
        s = self.session
        self.link = connect(s)
        self._introduce()
        text, files = self._expect(b"w")
        try:
            if text or len(files) != 4:
                raise Fault(f"welcome with {len(files)} descriptors, must have 4")
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
        if tail != self.tail:  # in most orders it is the same
            self.fields = fields(tail)
            self.tail = tail
        device, config, rows, receipt = self.fields
        if flags > TIMED or rows:
            raise Fault("Python workers need a model in every job, without varying lengths")
        package = self.models.at(model)
        self.job = Job(round, client, weight, device, config, flags == TIMED)
        self.received = len(order)
        self.arrived = time.monotonic_ns()
        if self.clone:
            copy(self.session, self.clone, package, range(len(self.session.down)), self.job)
            package = self.clone
        package.receipt = receipt
        return self.job, package

    def reserve(self) -> Package:
        self.update = self.updates.at(self.handle)
        package = self.heap or self.update
        package.receipt = b""  # had the previous update's receipt
        return package

    def submit(self, package: Package) -> None:
        if self.heap:
            copy(self.session, self.update, self.heap, range(len(self.session.up)), self.job)
        # The result begins with the order's handle. No lengths vary, so there are no rows.
        result = self.handle + struct.pack("<II", 0, len(package.receipt)) + package.receipt
        if len(result) > len(self.outbox.room):
            raise Fault(f"receipt of {len(package.receipt)} bytes does not fit: the limit is "
                        f"{len(self.outbox.room) - len(self.handle) - 8}")
        self.outbox.room[:len(result)] = result
        self.outbox.post(len(result))
        self._record(len(result))

    def _record(self, sent: int) -> None:
        """Records a job after sending its update, while the server wakes up."""
        rec, layout = self.session.recorder, self.session.down
        rec.add("wait", self.start, self.arrived, self.job)
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
        try:  # a process that the function has forked and keeps holds the link, too
            self.link.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        self.link.close()

    def _wait(self) -> None:
        """Waits for the next job. If the link ends, the server is gone."""
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
                if not self.inbox.changed():  # otherwise a message arrived before the end
                    raise Fault(f"the peer is gone: {e}") from None

    def _introduce(self) -> None:
        """Sends the secret and package driver's hello, which identifies this lane."""
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
        room = socket.CMSG_SPACE(256 * fds.itemsize)  # more than the kernel passes
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
        """The rest of the next packet, which must begin with start, and its descriptors."""
        packet, files = self._receive()
        if packet[:len(start)] != start:
            for fd in files:
                os.close(fd)
            raise Fault("message is malformed")
        return packet[len(start):], files
