"""The control socket between the server and a worker process.

trainer/message.go says what is sent when. A frame is its length in four bytes, the highest
first, and a JSON object with one key, the type. What comes is checked before it is used.
"""

from __future__ import annotations

import json
import os
import socket
import struct
import threading

DESCRIPTOR = 3
PROTOCOL = 4
SHORT, LONG = 512 << 10, 1 << 30  # how long a message may be: any but an assignment, and that

# What the server may send, and of what type it is. A field with a "?" may be absent.
MESSAGES = {
    "hello": {"protocol": int, "build": str},
    "assign": {
        "process": int, "lanes": list, "total_lanes": int, "clients": int, "depth": int,
        "transport": str, "?settings": dict, "down": list, "up": list,
        "addr": str, "secret": str, "?trust": dict, "func": str, "?func_config": str,
        "samples": int, "window": str, "pings": int, "?profiling": dict,
    },
    "ping": {},
    "poke": {},
    "mark": {"window": str, "round": int},
    "stop": {"below": int},
}
TENSOR = {"name": str, "dtype": str, "?shape": list, "?var": bool}


class Protocol(Exception):
    """A message that the server may not send."""


def check(what: str, got: object, fields: dict[str, type]) -> None:
    if type(got) is not dict:
        raise Protocol(f"{what} is no object")
    for name, kind in fields.items():
        value = got.get(name.lstrip("?"))
        if type(value) is not kind and not (value is None and name[0] == "?"):
            raise Protocol(f"{what}: {name.lstrip('?')} is no {kind.__name__}")
    for name in got:
        if name not in fields and "?" + name not in fields:
            raise Protocol(f"{what} has a field {name[:40]!r} that is unknown")


def parse(text: bytes) -> tuple[str, dict]:
    """The type of a message, and what it says."""
    try:
        m = json.loads(text)
    except ValueError as e:  # also of what is no UTF-8
        raise Protocol(str(e)) from None
    except RecursionError:
        raise Protocol("objects in objects without end") from None
    if type(m) is not dict or len(m) != 1:
        raise Protocol("want one object with one key, which is the type")
    (kind, body), = m.items()
    if kind not in MESSAGES:
        raise Protocol(f"a message of type {kind[:40]!r}")
    check(kind, body, MESSAGES[kind])
    if kind == "assign":
        for spec in body["down"] + body["up"]:
            check("a tensor", spec, TENSOR)
            if any(type(n) is not int or n < 0 for n in spec.get("shape") or ()):
                raise Protocol("a shape that is none")
        lanes = body["lanes"]
        if any(type(n) is not int or not 0 <= n < body["total_lanes"] for n in lanes) or not lanes \
                or min(body["clients"], body["samples"], body["pings"]) < 0 or body["depth"] < 1:
            raise Protocol("an assignment with numbers that no server gives")
        if any(type(v) is not str for v in (body.get("settings") or {}).values()):
            raise Protocol("a setting that is no text")
    if kind in ("assign", "mark") and body["window"] not in ("", "cold", "timed"):
        raise Protocol("a window that is none")
    return kind, body


class Control:
    """This end of the socket. Any thread may send, one receives."""

    def __init__(self, build: str):
        self._socket = socket.socket(fileno=DESCRIPTOR)
        os.set_inheritable(DESCRIPTOR, False)
        # The server reads all the time: a message that it does not take in 10 s is the end.
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", 10, 0))
        self._lock = threading.Lock()
        self._limit = LONG
        own = {"protocol": PROTOCOL, "build": build}
        self.send("hello", own)
        if (m := self.receive()) != ("hello", own):
            raise Protocol(f"the server speaks {m[0]} {json.dumps(m[1])[:200]}, this process {own}")

    def send(self, kind: str, body: dict) -> None:
        text = json.dumps({kind: body}, separators=(",", ":")).encode()
        with self._lock:
            self._socket.sendall(struct.pack(">I", len(text)) + text)

    def receive(self) -> tuple[str, dict]:
        """The next message. EOFError is the end of the socket."""
        n, = struct.unpack(">I", self._read(4))
        if n > self._limit:
            raise Protocol(f"a message of {n} bytes: want at most {self._limit}")
        kind, body = parse(self._read(n))
        if kind == "assign":
            self._limit = SHORT
        return kind, body

    def _read(self, n: int) -> bytes:
        got = bytearray()  # grows with what comes, and not with what was claimed
        while len(got) < n:
            part = self._socket.recv(min(n - len(got), 1 << 20))
            if not part:
                raise EOFError("the control socket has ended")
            got += part
        return bytes(got)
