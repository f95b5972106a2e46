"""The control socket between the server and a worker process.

trainer/message.go documents the messages and their order. A frame is a length in four bytes,
big-endian, and a JSON object with one key, the type. Messages are checked before use.
"""

from __future__ import annotations

import json
import os
import socket
import struct
import threading

DESCRIPTOR = 3
PROTOCOL = 4
SHORT, LONG = 512 << 10, 1 << 30  # most bytes of a message after the assignment, and until it

# The messages that the server may send, with the types of their fields. "?" marks optional fields.
# What workers in Python do not support is refused before they start: see Features in bench/session.
MESSAGES = {
    "hello": {"protocol": int, "build": str},
    "assign": {
        "process": int, "lanes": list, "total_lanes": int, "clients": int, "depth": int,
        "transport": str, "?settings": dict, "down": list, "up": list,
        "addr": str, "secret": str, "?trust": dict, "func": str, "?func_config": str,
        "samples": int, "window": str, "pings": int, "?pages": str,
    },
    "ping": {},
    "poke": {},
    "mark": {"window": str, "round": int},
    "stop": {"below": int},
}
TENSOR = {"name": str, "dtype": str, "?shape": list, "?var": bool}


class Protocol(Exception):
    """A message that the server must not send."""


def check(what: str, got: object, fields: dict[str, type]) -> None:
    if type(got) is not dict:
        raise Protocol(f"{what} must be an object")
    for name, kind in fields.items():
        value = got.get(name.lstrip("?"))
        if type(value) is not kind and not (value is None and name[0] == "?"):
            raise Protocol(f"{what}: {name.lstrip('?')} must be of type {kind.__name__}")
    for name in got:
        if name not in fields and "?" + name not in fields:
            raise Protocol(f"{what} has an unknown field {name[:40]!r}")


def parse(text: bytes) -> tuple[str, dict]:
    """Checks a message, and returns its type and its body."""
    try:
        m = json.loads(text)
    except ValueError as e:  # also if text is not UTF-8
        raise Protocol(str(e)) from None
    except RecursionError:
        raise Protocol("JSON is nested too deeply") from None
    if type(m) is not dict or len(m) != 1:
        raise Protocol("must be one object with one key, the type")
    (kind, body), = m.items()
    if kind not in MESSAGES:
        raise Protocol(f"unknown type of message {kind[:40]!r}")
    check(kind, body, MESSAGES[kind])
    if kind == "assign":
        for spec in body["down"] + body["up"]:
            check("a tensor", spec, TENSOR)
            if any(type(n) is not int or n < 0 for n in spec.get("shape") or ()):
                raise Protocol("invalid shape of a tensor")
        lanes = body["lanes"]
        if any(type(n) is not int or not 0 <= n < body["total_lanes"] for n in lanes) or len(lanes) != 1 \
                or min(body["clients"], body["samples"], body["pings"]) < 0 or body["depth"] < 1:
            raise Protocol("assignment with invalid numbers")
        if set(body.get("trust") or {}) - {"insecure"}:  # on a link, it allows other hosts
            raise Protocol("assignment with TLS")
        if any(type(v) is not str for v in (body.get("settings") or {}).values()):
            raise Protocol("the value of a setting must be a string")
    if kind in ("assign", "mark") and body["window"] not in ("", "cold", "timed"):
        raise Protocol(f"unknown window {body['window'][:40]!r}")
    return kind, body


class Control:
    """This process's end of the socket. Any thread may send, but only one may receive."""

    def __init__(self, build: str):
        self._socket = socket.socket(fileno=DESCRIPTOR)
        os.set_inheritable(DESCRIPTOR, False)
        # The server always reads: if it has not read a message within 10 s, send fails.
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", 10, 0))
        self._lock = threading.Lock()
        # A worker function may fork while another thread sends: the child's copy of the lock
        # would stay locked.
        os.register_at_fork(before=self._lock.acquire, after_in_parent=self._lock.release,
                            after_in_child=self._lock.release)
        self._limit = LONG
        own = {"protocol": PROTOCOL, "build": build}
        self.send("hello", own)
        if (m := self.receive()) != ("hello", own):
            raise Protocol(f"the server sent {m[0]} {json.dumps(m[1])[:200]}, must be hello {own}")

    def send(self, kind: str, body: dict) -> None:
        text = json.dumps({kind: body}, separators=(",", ":")).encode()
        with self._lock:
            self._socket.sendall(struct.pack(">I", len(text)) + text)

    def receive(self) -> tuple[str, dict]:
        """The next message. Raises EOFError at the end of the socket."""
        n, = struct.unpack(">I", self._read(4))
        if n > self._limit:
            raise Protocol(f"message of {n} bytes, must be at most {self._limit}")
        kind, body = parse(self._read(n))
        if kind == "assign":
            self._limit = SHORT
        return kind, body

    def _read(self, n: int) -> bytes:
        got = bytearray()  # grows with the bytes received, whatever length was announced
        while len(got) < n:
            part = self._socket.recv(min(n - len(got), 1 << 20))
            if not part:
                raise EOFError("the control socket has ended")
            got += part
        return bytes(got)
