"""The lanes of http and http-shm; package transports/http documents the protocol.

Tensors are received from the socket into their places, and sent from there. With http-shm, the
model is read and the update written in memory that the server shares: see http_shared.py.
"""

from __future__ import annotations

import json
import re
from base64 import b64decode, b64encode
from typing import Optional
from urllib.parse import quote

from .exchange import GOODBYE, JSON, RAW, TEXT, Client, Refused, digits
from .http_shared import Shared
from .layout import Layout, Package
from .session import Fault, Job, Session
from .wire import RECEIPT, now, size

GONE = 410  # the session is over
MOST_IDS = 1 << 16  # in one batch
CAUSE = 1000  # most bytes of the cause sent when a lane is given up
ENTRY = 256  # bytes counted for each cached tensor in addition to its id and data


class Lane:
    calls = True  # the transport makes calls, so ping can time an empty one

    def __init__(self, session: Session):
        s, self.session, self.recorder = session.settings, session, session.recorder
        self.batch = int(s["batch"]) or MOST_IDS
        self.json = s.get("body") == "json"
        self.clones = s.get("copy") == "out"
        self.client = Client(session, s.get("conn") == "per-request")
        self.cache = Cache(self, size(s["cache-size"]) if s.get("cache") == "on" else 0)
        self.down, self.up = Manifest(session.down), Manifest(session.up)
        self.path = f"lanes/{session.lane}"
        self.shared: Optional[Shared] = None
        self._model = self._update = None  # memory for tensors that are not shared, if needed
        self.job: Optional[Job] = None
        self.handle = ""  # of the job's update, if it is in the lane's slab

    # Methods that the session calls.

    def dial(self) -> None:
        """Joins the session as this lane, and proves to the server that it is local, if it is."""
        down, up = self.session.down.digest, self.session.up.digest
        answer = self._json("POST", f"{self.path}?down={down:x}&up={up:x}", "join")
        self.shared = Shared(self.session, answer if self.session.transport == "http-shm" else {})
        if self.shared.updates is not None:
            try:
                self._do("POST", self.path + "/local", "prove")
                if self.clones or self.session.settings.get("missing", "0") != "0":
                    self.model()
                return
            except Refused:
                self.shared.give_up()  # the server did not find the challenge: it is not local
        self.model(), self.update()  # allocates both, since a lane that is not local needs them

    def ping(self) -> None:
        self._do("GET", "ping", "ping")

    def receive(self) -> Optional[tuple[Job, Package]]:
        self.client.job = None
        try:
            a = self._json("GET", f"jobs/{self.session.lane}", "jobs", parks=True)
        except Refused as e:
            if e.status == GONE:
                return None
            raise
        try:
            name, self.handle = a["model"], a.get("update", "")
            if not re.fullmatch("[A-Za-z0-9_-][A-Za-z0-9_.-]*", name):
                raise ValueError(f"invalid model name {name[:100]!r}")
            config, receipt = b64decode(a.get("config") or ""), b64decode(a.get("receipt") or "")
            job = Job(int(a["round"]), int(a["client"]), float(a["weight"]),
                      str(a.get("device", "")), config, bool(a.get("timed")))
        except (KeyError, TypeError, ValueError) as e:
            raise Fault(f"the answer to a request for a job: {e!r}") from None
        self.job = job
        self.client.claim(job)
        if a.get("drain"):
            self.cache.drain()
        try:
            model, rest = self.shared.model(a, self.model)
            found = list(self.shared.handles)
            if self.clones and found:
                model = self.shared.clone(self.model(), model, job)
            fetched = self._fetch(name, rest, model)
        except Fault as e:
            raise Fault(f"round {job.round}, client {job.client}: fetch the model: {e}") from None
        model.receipt = receipt
        self._count("handle", found)
        self._count("body", fetched)
        return job, model

    def reserve(self) -> Package:
        package = self.shared.update(self.handle) if self.handle else self.update()
        package.receipt = b""  # had the previous update's receipt
        return package

    def submit(self, package: Package) -> None:
        self.shared.unchanged()
        fields = {"Job-Round": self.job.round, "Job-Client": self.job.client,
                  "Cache-Tensors": len(self.cache.tensors), "Cache-Bytes": self.cache.bytes}
        if len(package.receipt) > RECEIPT:
            raise Fault(f"receipt of {len(package.receipt)} bytes, must be at most {RECEIPT}")
        if self.json:
            start = now()
            body = [as_json({"receipt": base64(package.receipt),
                             "tensors": self.up.to_json(package)})]
            self.recorder.add("encode", start, now(), self.job)
            self._do("POST", f"results/{self.session.lane}", "results", fields, JSON, body)
            return
        body = [package.receipt]
        if self.handle:
            fields.update({"Update-Handle": self.handle, "Table-Bytes": 0})
        else:
            fields["Table-Bytes"] = len(self.up.text)
            body += [self.up.text, *package.data]
        fields["Receipt-Bytes"] = len(package.receipt)
        self._do("POST", f"results/{self.session.lane}", "results", fields, RAW, body)

    def close(self, cause: Optional[str]) -> None:
        if cause is not None and self.client.open:
            why, self.client.limit = quote(cause.encode()[:CAUSE], safe=""), GOODBYE
            try:
                self._do("DELETE", f"{self.path}?cause={why}", "leave")
            except Fault:
                pass  # the server is gone
        self.client.close()
        if self.shared is not None:
            self.shared.close()

    # The lane's own memory.

    def model(self) -> Package:
        if self._model is None:
            self._model = Package.touched(self.session.down)
        return self._model

    def update(self) -> Package:
        if self._update is None:
            self._update = Package.touched(self.session.up)
        return self._update

    # Requests.

    def _do(self, method: str, path: str, name: str, fields: dict = {}, kind: str = "",
            body: list = [], **more) -> dict[str, str]:
        return self.client.do(method, "/v1/" + path, name, fields, kind, body, **more)

    def _json(self, *request, **more) -> dict:
        self._do(*request, **more)
        return parsed(request[2], self.client.body(4 * RECEIPT), dict)

    def _count(self, how: str, tensors) -> None:
        self.recorder.count(how + ".tensors", len(tensors))
        self.recorder.count(how + ".bytes", sum(self.session.down.sizes[i] for i in tensors))

    # Tensors from the store.

    def _fetch(self, model: str, which: list[int], to: Package) -> list[int]:
        """Fetches tensors of a model into their places; returns the ones that were not cached."""
        which = [i for i in which if not self.cache.get(f"{model}.{i}", to.data[i])]
        for at in range(0, len(which), self.batch):
            some = which[at:at + self.batch]
            ids = [f"{model}.{i}" for i in some]
            if self.json:
                self._fetch_json(ids, some, to)
            else:
                self._fetch_raw(ids, some, to)
            for id, i in zip(ids, some):
                self.cache.put(id, to.data[i])
        return which

    def _fetch_raw(self, ids: list[str], which: list[int], to: Package) -> None:
        body = "".join(id + "\n" for id in ids).encode()
        head = self._do("POST", "batch", "batch", {}, TEXT, [body])
        start, count, table = now(), head.get("tensor-count"), head.get("table-bytes", "")
        if count != str(len(which)):
            raise Fault(f"the answer to a batch has {str(count)[:20]} tensors, must be {len(which)}")
        n, want = self.client.left, sum(self.session.down.sizes[i] for i in which)
        if not digits(table) or int(table) > 2 * len(self.down.text) or int(table) != n - want:
            raise Fault(f"the answer to a batch has {n} bytes with a table of {table[:20]!r},"
                        f" must be {want} and a table")
        self.down.check(which, self.client.read(int(table)))
        self.client.into([memoryview(to.data[i]) for i in which])
        self.recorder.add("read", start, now(), self.job)

    def _fetch_json(self, ids: list[str], which: list[int], to: Package) -> None:
        self._do("POST", "batch", "batch", {}, JSON, [as_json({"shard_ids": ids})])
        want = sum(self.session.down.sizes[i] for i in which)
        text = self.client.body((2 << 20) + 2 * want + 2048 * len(which))
        start = now()
        tensors = parsed("batch", text, list)
        if len(tensors) != len(which):
            raise Fault(f"the answer to a batch has {len(tensors)} tensors, must be {len(which)}")
        for i, t in zip(which, tensors):
            try:
                data = b64decode(t.pop("data"), validate=True)
                same = t.pop("type") == "tensor"
            except (KeyError, ValueError, TypeError, AttributeError):
                raise Fault(f"tensor {self.down.named(i)}: malformed tensor in JSON") from None
            self.down.expect(i, {**t, "bytes": len(data)} if same else t)
            memoryview(to.data[i])[:] = data
        self.recorder.count("copied", want)
        self.recorder.add("decode", start, now(), self.job)


class Manifest:
    """Descriptions of a layout's tensors, one line of JSON per tensor."""

    def __init__(self, layout: Layout):
        self.layout = layout
        self.all = [{"dtype": s.dtype, "shape": list(s.shape), "bytes": s.nbytes}
                    for s in layout.specs]
        self.lines = [as_json(m) for m in self.all]
        self.text = b"".join(line + b"\n" for line in self.lines)

    def check(self, which: list[int], text: bytearray) -> None:
        """Checks the received description of these tensors."""
        lines = bytes(text).split(b"\n")
        if len(lines) != len(which) + 1 or lines.pop():
            raise Fault(f"a table of {len(lines) - 1} tensors, must be {len(which)}")
        for i, line in zip(which, lines):
            if line != self.lines[i]:
                self.expect(i, parsed("table", line, dict))

    def expect(self, i: int, got: dict) -> None:
        if got != self.all[i]:
            raise Fault(f"tensor {self.named(i)} is {str(got)[:200]}, must be {self.all[i]}")

    def named(self, i: int) -> str:
        return f"{i} ({self.layout.specs[i].name})"

    def to_json(self, package: Package) -> list[dict]:
        return [{"type": "tensor", "dtype": m["dtype"], "shape": m["shape"], "data": base64(data)}
                for m, data in zip(self.all, package.data)]


class Cache:
    """Keeps tensors that the lane fetched, each for one client, in at most limit bytes. The oldest
    are dropped first. With a limit of 0 it stays empty."""

    def __init__(self, lane: Lane, limit: int):
        self.lane, self.limit, self.bytes = lane, limit, 0
        self.tensors: dict[tuple[int, str], bytes] = {}

    def get(self, id: str, to) -> bool:
        data = self.tensors.get((self.lane.job.client, id))
        if data is None or len(data) != len(to):
            return False
        memoryview(to)[:] = data
        self.lane.recorder.count("cache.hits", 1)
        return True

    def put(self, id: str, data) -> None:
        key = (self.lane.job.client, id)
        if key in self.tensors or cost(id, data) > self.limit:
            return
        while self.bytes + cost(id, data) > self.limit:
            oldest = next(iter(self.tensors))
            self._grow(-cost(oldest[1], self.tensors.pop(oldest)))
        self.tensors[key] = bytes(data)
        self._grow(cost(id, data))

    def drain(self) -> None:
        self.tensors.clear()
        self._grow(-self.bytes)

    def _grow(self, n: int) -> None:
        self.bytes += n
        self.lane.recorder.count("cache.bytes", n)


def cost(id: str, data) -> int:
    return len(data) + len(id) + ENTRY


def as_json(value) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def base64(data) -> str:
    return b64encode(data).decode("ascii")


def parsed(what: str, text, kind: type):
    try:
        value = json.loads(text)
    except ValueError:
        value = None
    if not isinstance(value, kind):
        raise Fault(f"{what}: {bytes(text[:80])!r} is not a JSON {kind.__name__}")
    return value
