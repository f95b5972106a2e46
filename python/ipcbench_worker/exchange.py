"""HTTP/1.1 over one connection, one request at a time, like the client of package exchange.

Tensors are sent in one gathering write with the head of the request, and received into their
places. Only the kernel copies them, except for the first READ bytes of an answer, which may
arrive together with its head. Nothing limits the time of a message, because a network may be slow:
the server watches whether anything moves.
"""

from __future__ import annotations

import json
import socket
from typing import Optional

from .session import Fault, Job, Session, connect
from .wire import now

READ = 32 << 10  # most bytes of one read of an answer's head
MOST_HEAD = 16 << 10
MOST_PARTS = 1024  # of one gathering write or scattering read: IOV_MAX
MOST_PROBLEM = 16 << 20  # bytes of an error answer's body

GOODBYE = 1.0  # seconds to wait for the answer to a request that could not be sent

RAW, TEXT, JSON = "application/octet-stream", "text/plain", "application/json"


class Refused(Fault):
    """An answer that is an error."""

    def __init__(self, status: int, text: str):
        super().__init__(text)
        self.status = status


class Client:
    def __init__(self, session: Session, fresh: bool):
        self.session, self.recorder, self.fresh = session, session.recorder, fresh
        self.limit: Optional[float] = None  # seconds that the socket may wait in further requests
        self.job: Optional[Job] = None  # the job that requests are recorded for
        self._parked: list[tuple[str, int, int]] = []  # spans of the last request that parked
        self._socket: Optional[socket.socket] = None
        self._connected = False  # connected before: a kept connection is never replaced
        self._ahead = memoryview(b"")  # bytes of the body that were read with the head
        self.left = 0  # bytes of the last answer's body that the caller has not read
        self._request = ""

    def do(self, method: str, path: str, name: str, fields: dict = {}, kind: str = "",
           body: list = [], parks: bool = False) -> dict[str, str]:
        """Makes a request, which is counted as calls.NAME, and returns the answer's header
        fields. The caller must read all of the answer's body."""
        self._request = f"{method} {path.partition('?')[0]}"
        try:
            head = self._exchange(method, path, name, fields, kind, body, parks)
        except Refused:
            raise
        except (OSError, Fault) as e:
            self.close()
            raise self._fault(e) from None
        self._ended()
        return head

    def _exchange(self, method: str, path: str, name: str, fields: dict, kind: str, body: list,
                  parks: bool) -> dict[str, str]:
        if self.left:
            raise Fault("part of the previous answer was not read")
        if self._socket is None:
            self._connect()
        self.recorder.count("calls." + name, 1)
        start, sent = now(), None
        self._socket.settimeout(self.limit)
        try:
            self._send(method, path, fields, kind, body)
        except OSError as e:  # a server that rejects a request answers without reading on
            sent = e
            self._socket.settimeout(GOODBYE)
        self._lap("send", start, parks)
        head = self._head(parks)
        status = self._begin(head)
        if status // 100 != 2:
            raise self._refusal(status, head[""])
        if sent:
            raise sent
        return head

    def _connect(self) -> None:
        if self._connected and not self.fresh:
            raise Fault("the connection was closed")
        self._socket, self._connected, self._ahead = connect(self.session), True, memoryview(b"")

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    @property
    def open(self) -> bool:
        """Whether the next request may reach the server."""
        return self._socket is not None or self.fresh

    def claim(self, job: Job) -> None:
        """Records the last request that parked, and all later requests, for this job."""
        self.job = job
        for phase, start, end in self._parked:
            self.recorder.add(phase, start, end, job)

    def _lap(self, phase: str, start: int, parks: bool) -> None:
        if not parks:
            self.recorder.add(phase, start, now(), self.job)
            return
        if phase == "send":
            self._parked = []
        self._parked.append((phase, start, now()))

    # Requests.

    def _send(self, method: str, path: str, fields: dict, kind: str, body: list) -> None:
        """Writes head and body."""
        parts = [memoryview(b) for b in body if len(b)]
        length = sum(len(b) for b in parts)
        lines = [f"{method} {path} HTTP/1.1", "Host: ipcbench",
                 f"Authorization: Bearer {self.session.secret}"]
        if self.fresh:
            lines.append("Connection: close")
        if kind:
            lines.append(f"Content-Type: {kind}")
        if method != "GET":
            lines.append(f"Content-Length: {length}")
        lines += [f"{name}: {value}" for name, value in fields.items()]
        head = "\r\n".join(lines + ["", ""]).encode()
        parts.insert(0, memoryview(head))
        self.recorder.count("wire.sent", length + len(head))  # before sending, like driver.Counted
        while parts:
            advance(parts, self._socket.sendmsg(parts[:MOST_PARTS]))

    # Answers.

    def _head(self, parks: bool) -> dict[str, str]:
        """Reads the head of the answer. The status line is the field ""."""
        start, first, text = now(), True, bytes(self._ahead)
        while (end := text.find(b"\r\n\r\n")) < 0:
            if len(text) > MOST_HEAD:
                raise Fault("the head of the answer is too long")
            more = self._socket.recv(READ)
            if first:
                self._lap("wait", start, parks)
                first = False
            self._received(len(more))
            text += more
        self._ahead = memoryview(text)[end + 4:]
        lines = text[:end].decode("latin-1").split("\r\n")
        head = {"": lines[0]}
        for line in lines[1:]:
            name, _, value = line.partition(":")
            head[name.lower()] = value.strip()
        return head

    def _begin(self, head: dict[str, str]) -> int:
        """Returns the status, and sets left to the length of the answer's body."""
        version, _, status = head[""].partition(" ")
        code = status[:3]
        length = "0" if code == "204" else head.get("content-length", "")
        if version != "HTTP/1.1" or not code.isdigit() or code < "200":
            raise Fault(f"{head[''][:80]!r} is not the head of an answer")
        if not digits(length):
            raise Fault(f"answer {status[:80]} without a length")
        self.left = int(length)
        return int(code)

    def _refusal(self, status: int, line: str) -> Fault:
        """The error for an answer whose status is not 2xx."""
        text = line.partition(" ")[2]
        try:
            problem = json.loads(self.body(MOST_PROBLEM))
            text += f": {problem['error']}"
            if problem.get("missing"):
                text += f": {len(problem['missing'])} of the tensors are not in the store"
        except (ValueError, KeyError, TypeError):
            pass  # the body is not an error message of ipcbench
        return Refused(status, f"{self._request}: {text}")

    def body(self, most: int) -> bytearray:
        """Reads all of the answer's body, of at most that many bytes."""
        if self.left > most:
            self.close()
            raise Fault(f"{self._request}: answer of {self.left} bytes, must be at most {most}")
        return self.read(self.left)

    def read(self, n: int) -> bytearray:
        """Reads the next n bytes of the answer's body."""
        data = bytearray(n)
        self.into([memoryview(data)])
        return data

    def into(self, parts: list[memoryview]) -> None:
        """Fills parts, one after another, with the next bytes of the answer's body."""
        parts = [p for p in parts if len(p)]
        try:
            while parts:
                if len(self._ahead):
                    n = min(len(self._ahead), len(parts[0]))
                    parts[0][:n] = self._ahead[:n]
                    self._ahead = self._ahead[n:]
                else:
                    n = self._socket.recvmsg_into(parts[:MOST_PARTS])[0]
                    self._received(n)
                self.left -= n
                advance(parts, n)
        except OSError as e:
            self.close()
            raise self._fault(e) from None
        self._ended()

    def _ended(self) -> None:
        if not self.left and self.fresh:
            self.close()

    def _received(self, n: int) -> None:
        if n == 0:
            raise ConnectionResetError
        self.recorder.count("wire.received", n)

    def _fault(self, e: Exception) -> Fault:
        text = getattr(e, "strerror", None) or str(e)
        if isinstance(e, (ConnectionResetError, BrokenPipeError)):
            text = "the server has closed the connection"
        return Fault(f"{self._request}: {text}")


def advance(parts: list[memoryview], n: int) -> None:
    """Drops the first n bytes of parts."""
    k = 0
    while k < len(parts) and n >= len(parts[k]):
        n -= len(parts[k])
        k += 1
    del parts[:k]
    if n:
        parts[0] = parts[0][n:]


def digits(text: str) -> bool:
    """Whether text is a decimal number of fewer than 20 digits."""
    return text.isascii() and text.isdigit() and len(text) < 20
