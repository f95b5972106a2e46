"""The session as a lane sees it, and connections to the session's server."""

from __future__ import annotations

import errno
import socket
import time
from dataclasses import dataclass

from .layout import Layout
from .recorder import Recorder


class Fault(Exception):
    """An error that ends a lane. Its text is complete, so no traceback is shown with it."""


@dataclass
class Job:
    """One client's turn in one round."""

    round: int
    client: int
    weight: float
    device: str
    config: bytes
    timed: bool


@dataclass
class Session:
    """A session as one of its lanes sees it. A lane is a class with these methods:

    dial()                connects to the server
    receive()             waits for a job and returns it with its model, which is lent and
                          read-only, or returns None if the server has shut down
    reserve()             returns the package to write the update into, every byte of it
    submit(package)       sends the update
    ping()                makes an empty call, if the transport makes calls
    close(cause)          ends the lane, and sends cause to the server unless it is None
    """

    transport: str
    settings: dict[str, str]
    lane: int
    depth: int
    address: str  # unix:PATH, unixpacket:PATH or tcp:HOST:PORT
    secret: str
    down: Layout
    up: Layout
    recorder: Recorder
    below: int = 0  # worker functions of rounds before this one should end early

    def stopped(self, job: Job) -> bool:
        """Whether the job's worker function should end early."""
        return job.round < self.below


PATIENCE = 60.0  # seconds: several hundred workers may dial the server at the same time


def connect(session: Session) -> socket.socket:
    """A new connection to the session's server, which the caller must identify."""
    network, _, where = session.address.partition(":")
    if network == "tcp":
        host, _, port = where.rpartition(":")
        s = socket.create_connection((host.strip("[]"), int(port)), PATIENCE)
        s.settimeout(None)
        s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return s
    kinds = {"unix": socket.SOCK_STREAM, "unixpacket": socket.SOCK_SEQPACKET}
    if network not in kinds:
        raise Fault(f"address {session.address!r}: must be unix:PATH or tcp:HOST:PORT")
    s = socket.socket(socket.AF_UNIX, kinds[network])
    s.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)  # like Go's workers
    end, wait = time.monotonic() + PATIENCE, 0.001
    while True:
        try:
            s.connect(where)
            return s
        except OSError as e:  # connect does not wait if a Unix socket's queue is full
            if e.errno != errno.EAGAIN or time.monotonic() > end:
                s.close()
                raise
        time.sleep(wait)
        wait = min(2 * wait, 0.05)
