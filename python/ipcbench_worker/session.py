"""What a lane knows of its session, and how it reaches the session's server."""

from __future__ import annotations

import errno
import socket
import time
from dataclasses import dataclass

from .layout import Layout
from .recorder import Recorder


class Fault(Exception):
    """Why a lane cannot go on. Its text says everything: nobody needs to see a traceback."""


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
    receive()             waits for a job and returns it with its model, lent and read-only;
                          or returns None: the server has shut down
    reserve()             returns the package where the update goes, every byte of it
    submit(package)       sends the update
    ping()                makes an empty call, in a transport that makes calls
    close(cause)          gives the lane up, and tells the server why, unless cause is None
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
    below: int = 0  # worker functions of the rounds below should end early

    def stopped(self, job: Job) -> bool:
        """Whether the session asked the job's worker function to end early."""
        return job.round < self.below


PATIENCE = 60.0  # seconds, for a server that several hundred workers dial at once


def connect(session: Session) -> socket.socket:
    """A connection to the session's server, which does not yet know whose it is."""
    network, _, where = session.address.partition(":")
    if network == "tcp":
        host, _, port = where.rpartition(":")
        s = socket.create_connection((host.strip("[]"), int(port)), PATIENCE)
        s.settimeout(None)
        s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return s
    kinds = {"unix": socket.SOCK_STREAM, "unixpacket": socket.SOCK_SEQPACKET}
    if network not in kinds:
        raise Fault(f"address {session.address!r}: want unix:PATH or tcp:HOST:PORT")
    s = socket.socket(socket.AF_UNIX, kinds[network])
    s.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)  # as Go's workers
    end, wait = time.monotonic() + PATIENCE, 0.001
    while True:
        try:
            s.connect(where)
            return s
        except OSError as e:  # a full queue of a Unix socket does not wait for room
            if e.errno != errno.EAGAIN or time.monotonic() > end:
                s.close()
                raise
        time.sleep(wait)
        wait = min(2 * wait, 0.05)
