"""The lanes of grpc-tensor, grpc-batch and grpc-stream, with grpcio.

transports/batched/federation.proto defines the protocol. Package transports/batched has the
worker in Go, which behaves the same.

With marshal=generated, protobuf objects hold whole messages, at the cost that users of generated
code pay. With marshal=inplace, generated code handles everything except tensor data. gRPC's
windows and buffers keep their defaults in both, because no option that was tried gained anything.

Copies of a tensor in this process: grpcio makes three when receiving (a piece per slice, a
bytearray of the pieces, bytes of the bytearray) and one when sending. The code here makes one of
each, which are counted: into the tensor's place, and from pieces to a message. marshal=generated
adds two each way: the protobuf object's own, and the bytes object that Python gets from it.

grpcio's sockets are not accessible. wire.sent and wire.received therefore count messages with
their prefix of 5 bytes, without HTTP/2 frames, which are below 0.1 % of a model. With
conn=per-call, the time to connect is part of the call.
"""

from __future__ import annotations

import hashlib
import math
import random
import time
from typing import Callable, Iterator, Optional

import grpc

from . import federation_pb2 as pb
from .layout import Package
from .messages import Catalog, Piece, decoded, difference, field, one_line, read, written
from .session import Fault, Job, Session
from .wire import RECEIPT, Tally, now, size

SERVICE = "/ipcbench.federation.v1.Federation/"
FETCH = {
    "grpc-tensor": "GetAggregatedTensor",
    "grpc-batch": "GetAggregatedTensors",
    "grpc-stream": "StreamAggregatedTensors",
}
MODEL, UPDATE = "model", "trained"  # tags of tensors

PARK = 3600.0  # seconds that a request for a task waits before the lane asks again
LEAVE = 1.0  # most seconds of the last call
ATTEMPTS, FIRST_WAIT, LONGEST_WAIT = 8, 0.02, 2.0  # if a call's connection breaks; in seconds

MOST = (1 << 31) - 1  # bytes of a protobuf message
HEADER_ROOM = 4 << 10  # bytes reserved in a message for all fields except tensors
FRAME, PREFIX = 16 << 10, 5  # bytes of an HTTP/2 frame, and of gRPC's prefix to a message


class CallError(Fault):
    """A failed call that is not repeated any more."""

    def __init__(self, method: str, error: grpc.RpcError, attempts: int, limit: float):
        self.code = error.code()
        prefix = "" if attempts == 1 else f"{attempts} attempts: "
        if self.code is grpc.StatusCode.DEADLINE_EXCEEDED:
            prefix += f"no answer within {limit:g} s: "
        super().__init__(f"{method}: {prefix}{self.code.name}: {error.details()}")


class Lane:
    calls = True  # the transport makes calls, so ping can time an empty one

    def __init__(self, session: Session):
        self.session, self.recorder, s = session, session.recorder, session.settings
        self.fetch = FETCH[session.transport]
        self.generated = s["marshal"] == "generated"
        self.per_call = s["conn"] == "per-call"
        self.chunk, self.limit = size(s["chunk"]), size(s["limit"])
        self.reports, self.deadline = int(s["reports"]), float(s["deadline"])
        self.cache, self.split = s["cache"] == "on", s.get("split") == "on"

        network, where = session.address.split(":", 1)
        self.target = session.address if network == "unix" else where
        self.metadata = [("authorization", "Bearer " + session.secret)]
        federation = hashlib.sha256(session.secret.encode()).hexdigest()[:16]
        me = f"lane-{session.lane}"
        self.header = pb.MessageHeader(sender=me, receiver="aggregator", federation_id=federation)
        self.reply = pb.MessageHeader(sender="aggregator", receiver=me, federation_id=federation)
        self.channel: Optional[grpc.Channel] = None  # None if every call has its own
        # With its last channel gRPC ends all its threads, which can take 10 s. This channel never
        # connects, and exists until the process ends.
        self.last = grpc.insecure_channel(self.target)

        self.down, self.up = Catalog(session.down, MODEL), Catalog(session.up, UPDATE)
        self.model, self.update = Package.touched(session.down), Package.touched(session.up)
        self.specs = [pb.TensorSpec(name=s.name, tags=[MODEL], require_lossless=True)
                      for s in session.down.specs]
        # Whether the model's memory holds each tensor, and for which client and model version.
        self.local = [False] * len(session.down)
        self.holds: tuple[int, int] = (-1, 0)
        self.job: Optional[Job] = None
        self.task: Optional[pb.Task] = None

    # Methods that the session calls.

    def dial(self) -> None:
        if not self.per_call:
            self.channel = self._connect()
        down, up = self.session.down.digest, self.session.up.digest
        request = pb.JoinRequest(header=self.header, model_digest=down, update_digest=up,
                                 worker=random.getrandbits(64))
        self._check(self._unary("Join", request, pb.JoinResponse).header)

    def ping(self) -> None:
        self._unary("Ping", pb.PingRequest(), pb.PingResponse)

    def receive(self) -> Optional[tuple[Job, Package]]:
        start, request = now(), pb.GetTasksRequest(header=self.header)
        while True:
            try:
                answer = self._unary("GetTasks", request, pb.GetTasksResponse, PARK)
                break
            except CallError as e:
                if e.code is not grpc.StatusCode.DEADLINE_EXCEEDED:
                    raise
        self._check(answer.header)
        if answer.quit:
            return None
        if not answer.HasField("task"):
            raise Fault("GetTasks: answer without a task")
        t = self.task = answer.task
        self.job = Job(t.round, t.client, t.weight, t.device, t.config, t.timed)
        self.recorder.add("wait", start, now(), self.job)
        if t.model_version == 0:
            raise Fault(f"round {t.round}, client {t.client}: a job without a model")
        try:
            self._fetch()
        except Fault as e:
            raise Fault(f"round {t.round}, client {t.client}: fetch the model: {e}") from None
        self.model.receipt = t.receipt
        return self.job, self.model

    def reserve(self) -> Package:
        self.update.receipt = b""  # had the previous update's receipt
        return self.update

    def submit(self, package: Package) -> None:
        for n in range(1, self.reports + 1):
            self._report(package, n)

    def close(self, cause: Optional[str]) -> None:
        if cause is not None:
            try:
                request = pb.LeaveRequest(header=self.header, cause=cause)
                self._unary("Leave", request, pb.LeaveResponse, LEAVE, attempts=1)
            except CallError:
                pass  # the server is gone
        if self.channel is not None:
            self.channel.close()

    # Calls.

    def _connect(self) -> grpc.Channel:
        options = [
            ("grpc.default_authority", "aggregator"),
            ("grpc.use_local_subchannel_pool", 1),  # otherwise channels share a connection
            ("grpc.enable_http_proxy", 0),
            ("grpc.enable_retries", 0),  # _call repeats calls itself, and counts that
            ("grpc.initial_reconnect_backoff_ms", 100),
            ("grpc.max_reconnect_backoff_ms", int(1000 * LONGEST_WAIT)),
            ("grpc.max_receive_message_length", min(self.limit + RECEIPT, MOST)),
            ("grpc.max_send_message_length", -1),
        ]
        self.recorder.count("connections.dialled", 1)
        return grpc.insecure_channel(self.target, options)

    def _call(self, method: str, do: Callable, limit: Optional[float] = None,
              attempts: int = ATTEMPTS):
        """Makes a call, do(channel, timeout), and repeats it if the connection broke."""
        limit = limit or self.deadline or math.inf
        until, wait = time.monotonic() + limit, FIRST_WAIT
        for n in range(1, attempts + 1):
            channel = self.channel or self._connect()
            try:
                return do(channel, None if limit == math.inf else max(0.0, until - time.monotonic()))
            except grpc.RpcError as e:
                left = until - time.monotonic()
                if e.code() is not grpc.StatusCode.UNAVAILABLE or n == attempts or left <= 0:
                    raise CallError(method, e, n, limit) from None
            finally:
                if channel is not self.channel:
                    channel.close()
            self.recorder.count("retries", 1)
            time.sleep(min(left, wait * random.uniform(0.5, 1)))
            wait = min(2 * wait, LONGEST_WAIT)

    def _unary(self, method: str, request, response, limit: Optional[float] = None,
               attempts: int = ATTEMPTS):
        def do(channel, timeout):
            return self._ask(channel, method, request, timeout)
        answer = self._call(method, do, limit, attempts)
        self.recorder.count("calls." + method, 1)
        return decoded(method, response, answer)

    def _ask(self, channel, method: str, request, timeout: Optional[float]) -> bytes:
        request = request.SerializeToString()
        self.recorder.count("wire.sent", PREFIX + len(request))
        answer = channel.unary_unary(SERVICE + method)(
            request, timeout=timeout, metadata=self.metadata)
        self.recorder.count("wire.received", PREFIX + len(answer))
        return answer

    def _check(self, header: pb.MessageHeader) -> None:
        if header != self.reply:
            raise Fault(f"answer with header {one_line(header)}, must be {one_line(self.reply)}")

    # Down.

    def _fetch(self) -> None:
        """Fetches the model's tensors except those that are local: received before a connection
        broke or, with cache=on, fetched before for the same client and model version."""
        key = (self.job.client, self.task.model_version)
        if not self.cache or self.holds != key:
            self.local = [False] * len(self.local)
        self.holds = key
        cached = sum(self.local)
        self.recorder.count("cache.hits", cached)
        tally, want = Tally(self.recorder), self._missing()
        try:
            for run in self._runs(want):
                self._call(self.fetch, lambda channel, left: self._take(channel, run, tally, left))
                self.recorder.count("calls." + self.fetch, 1)
        finally:
            tally.record(self.job)
        self.recorder.count("body.tensors", len(want))
        self.recorder.count("body.bytes", sum(self.session.down.sizes[i] for i in want))

    def _missing(self) -> list[int]:
        return [i for i, here in enumerate(self.local) if not here]

    def _runs(self, want: list[int]) -> Iterator[list[int]]:
        """Yields the tensors to request in each call: one, as many as fit in a message, or all."""
        if self.fetch == FETCH["grpc-tensor"]:
            yield from ([i] for i in want)
            return
        if not self.split:
            if want:
                yield want
            return
        run, n = [], HEADER_ROOM
        for i in want:
            more = self.down.room(i)
            if run and n + more > self.limit:
                yield run
                run, n = [], HEADER_ROOM
            run.append(i)
            n += more
        if run:
            yield run

    def _take(self, channel, run: list[int], tally: Tally, left: Optional[float]) -> None:
        round, common = self.task.round, {"header": self.header, "client": self.task.client}
        if self.fetch == FETCH["grpc-stream"]:
            run = self._missing()  # if a stream broke, the rest of its tensors
        for i in run:
            self.specs[i].round = round
        specs = [self.specs[i] for i in run]
        into, start = Assembly(self, run), now()
        if self.fetch == FETCH["grpc-tensor"]:
            request = pb.GetAggregatedTensorRequest(**common, spec=specs[0])
        else:
            request = pb.GetAggregatedTensorsRequest(**common, specs=specs)
        if self.fetch == FETCH["grpc-stream"]:
            request = request.SerializeToString()
            self.recorder.count("wire.sent", PREFIX + len(request))
            for message in channel.unary_stream(SERVICE + self.fetch)(
                    request, timeout=left, metadata=self.metadata):
                self.recorder.count("wire.received", PREFIX + len(message))
                tally.lap("read", start)
                into.message(message, tally)
                start = now()
        else:
            message = self._ask(channel, self.fetch, request, left)
            tally.lap("read", start)
            into.message(message, tally)
        into.finish()

    # Up.

    def _report(self, package: Package, n: int) -> None:
        """Sends report n of the current task. The last report contains the update."""
        out = False  # the whole report was sent at least once
        t, method = self.task, "SendLocalTaskResults"
        results = pb.TaskResults(task_id=t.id, round=t.round, client=t.client, report=n,
                                 reports=self.reports, receipt=package.receipt)

        def do(channel, timeout):
            nonlocal out
            tally, again, done = Tally(self.recorder), out, [0]

            def chunks():
                nonlocal out
                first, start = {"header": self.header, "results": results}, now()
                for pieces in self._chunks(package if n == self.reports else None):
                    message = written(first, pieces, self.generated)
                    self.recorder.count("copied", sum(len(data) for _, data in pieces))
                    self.recorder.count("wire.sent", PREFIX + len(message))
                    tally.lap("encode", start)
                    start = now()
                    yield message
                    tally.lap("send", start)
                    first, start = {}, now()
                if not out:  # before the answer, after which the round may be over
                    self.recorder.count("calls." + method, 1)
                out, done[0] = True, now()

            try:
                answer = channel.stream_unary(SERVICE + method)(
                    chunks(), timeout=timeout, metadata=self.metadata)
            except grpc.RpcError as e:
                if again and refused_as(e, b"DUPLICATE_RESULTS"):
                    return None  # the report arrived before, and only its answer was lost
                raise
            tally.lap("wait", done[0])
            tally.record(self.job)
            self.recorder.count("wire.received", PREFIX + len(answer))
            return answer

        answer = self._call(method, do)
        if answer is not None:
            self._check(decoded(method, pb.SendLocalTaskResultsResponse, answer).header)

    def _chunks(self, package: Optional[Package]) -> Iterator[list[Piece]]:
        """Cuts tensors into pieces, and yields the pieces of each message. A message is full with
        chunk bytes of tensor data, or with a quarter of that, at least FRAME, for the rest."""
        ready, room, extra = [], self.chunk, max(self.chunk // 4, FRAME)
        for i, data in enumerate(package.data if package else []):
            data, at = memoryview(data), 0
            while True:
                if extra <= 0 or room == 0 and at < len(data):
                    yield ready
                    ready, room, extra = [], self.chunk, max(self.chunk // 4, FRAME)
                piece = data[at:at + room]
                named = self.up(i, self.task.round, at)
                ready.append((named, piece))
                extra -= named.ByteSize() + field(len(piece)) - len(piece)
                room -= len(piece)
                at += len(piece)
                if at == len(data):
                    break
        yield ready

class Assembly:
    """Copies tensors, whole or in pieces, to their places in the model. Any piece except the
    expected next one is a Fault."""

    def __init__(self, lane: Lane, order: list[int]):
        self.lane, self.order = lane, order
        self.begun, self.count, self.got = False, 0, 0  # whole tensors, bytes of the next one

    def message(self, message: bytes, tally: Tally) -> None:
        start = now()
        header, pieces = read(message, self.lane.generated)
        if not self.begun:
            self.lane._check(header)
            self.begun = True
        for named, data in pieces:
            self._place(named, data)
        tally.lap("decode", start)

    def _place(self, named: pb.NamedTensor, data) -> None:
        if self.count == len(self.order):
            raise Fault(f"tensor {named.name[:200]!r} came after the last one")
        i, lane = self.order[self.count], self.lane
        want = lane.down(i, lane.task.round, self.got)
        if named != want:
            raise Fault(difference(named, want))
        place, end = lane.model.data[i], self.got + len(data)
        if end > len(place):
            raise Fault(f"tensor {named.name!r}: {len(data)} bytes from {self.got} on,"
                        f" but it has {len(place)}")
        memoryview(place)[self.got:end] = data
        lane.recorder.count("copied", len(data))
        self.got = end
        if end == len(place):
            lane.local[i] = True
            self.count, self.got = self.count + 1, 0

    def finish(self) -> None:
        if self.count < len(self.order):
            s = self.lane.session.down.specs[self.order[self.count]]
            raise Fault(f"{self.count} of {len(self.order)} tensors arrived, and {self.got} of"
                         f" {s.nbytes} bytes of {s.name!r}")


def refused_as(error: grpc.RpcError, reason: bytes) -> bool:
    """Whether the server rejected a call for that reason, which is in the trailing metadata."""
    metadata = dict(error.trailing_metadata() or ())
    return reason in metadata.get("grpc-status-details-bin", b"")
