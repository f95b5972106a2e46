"""NVFlare 2.9.0 (September 2026): whole tensors, pulled by their reader over a WebSocket.

It imitates nvflare/fuel/f3 (drivers/aio_http_driver.py, streaming/byte_streamer.py, cacheable.py
and download_service.py) and app_common/np/np_downloader.py at f3b7c1b. A client has one WebSocket
of aiohttp, the default of provisioned projects. It asks for a task and pulls its tensors: a reply
has whole ones, each by numpy.savez, while they are smaller than 2 MiB together, and at least one of
any size. The first that does not fit is then ready for the next request, which is under way while
the reader loads a reply. The server pulls updates in the same way. Messages are cut into frames of
1 MiB. A sender keeps copies of frames until they are acknowledged, 16 at a time, and waits while
there are more than 64. The server copies the model once per round and serializes it per client.

Here requests for a task wait, so that no one polls, heads of frames are JSON instead of msgpack,
and one thread per connection handles frames. Left out are TLS, on by default, the server's parent
process, which passes frames on, and notes that all was received. The simulator uses TCP; tensors
of torch are safetensors. pull=SIZE changes the 2 MiB.

The worker function is the stock one, by ipcbench_worker.arithmetic: C through ctypes, or numpy.
"""

import asyncio
import functools
import io
import itertools
import json
import struct
import threading
from concurrent.futures import Future, ThreadPoolExecutor

import aiohttp
import numpy as np
from aiohttp import web

import common
from ipcbench_worker import wire

PREFIX = struct.Struct(">II8x")  # length of a frame, and of its head
CHUNK, WINDOW, ACK = 1 << 20, 64, 16  # bytes, chunks, chunks
LOOP = asyncio.new_event_loop()
run = functools.partial(asyncio.run_coroutine_threadsafe, loop=LOOP)
threading.Thread(target=LOOP.run_forever, daemon=True).start()


def between(parts, start, end):
    """Copies the bytes from start to end of a message that consists of these parts."""
    at = itertools.accumulate(map(len, parts), initial=0)
    return b"".join(memoryview(part)[max(0, start - offset):max(0, end - offset)]
                    for offset, part in zip(at, parts))


class Cell:
    """One end of a connection. A request names the method that answers it. That returns the head
    and the parts of the reply."""

    def __init__(self, socket, pull, row=None, name=""):
        self.socket, self.most, self.row, self.name = socket, wire.size(pull), row, name
        self.frames, self.threads = ThreadPoolExecutor(1), ThreadPoolExecutor(8)
        self.numbers, self.replies, self.sources = itertools.count(), {}, {}
        self.sent, self.received, self.changed, self.error = {}, {}, threading.Condition(), None

    async def read(self):
        async for message in self.socket:
            self.frames.submit(self.guard, self.process, message.data)
        self.frames.submit(self.guard, self.process, b"")

    def guard(self, method, argument):
        """Calls a method. If it fails, ends all waiting for the other end."""
        try:
            method(argument)
        except Exception as e:
            with self.changed:
                self.error = e
                self.changed.notify_all()
            if self.row:
                self.row.updates.put(e)
            while self.replies:
                self.replies.popitem()[1].set_exception(e)

    def frame(self, head, payload=b""):
        head = json.dumps(head).encode()
        prefix = PREFIX.pack(PREFIX.size + len(head) + len(payload), len(head))
        run(self.socket.send_bytes(b"".join((prefix, head, payload))))  # if it fails, read ends

    def send(self, head, *parts):
        number, size = next(self.numbers), sum(map(len, parts))
        kept = self.sent[number] = []  # until acknowledged
        for at in range(0, max(1, size), CHUNK):
            chunk = between(parts, at, at + CHUNK)
            with self.changed:
                self.changed.wait_for(lambda: self.error or len(kept) <= WINDOW)
                if self.error:
                    raise self.error
                kept.append(chunk)
            self.frame({**head, "stream": number, "final": at + CHUNK >= size}, chunk)

    def process(self, frame):
        if not frame:
            raise EOFError("a connection has ended")
        size = PREFIX.size + PREFIX.unpack_from(frame)[1]
        head = json.loads(frame[PREFIX.size:size])
        number, final = head["stream"], head["final"]
        if "ack" in head:
            with self.changed:
                del self.sent[number][:head["ack"]]
                self.changed.notify_all()
            if final:
                del self.sent[number]
            return
        chunks = self.received.setdefault(number, [])
        chunks.append(frame[size:])
        if final or len(chunks) % ACK == 0:
            self.frame({"stream": number, "ack": (len(chunks) - 1) % ACK + 1, "final": final})
        if final:
            del self.received[number]
            if "reply" in head:
                self.replies.pop(head["reply"]).set_result((head, chunks))
            else:
                self.threads.submit(self.guard, self.handle, head)

    def request(self, method, **head):
        number = next(self.numbers)
        reply = self.replies[number] = Future()
        self.send({"method": method, "request": number, **head})
        return reply

    def handle(self, head):
        answer, *parts = getattr(self, head["method"])(head)
        self.send({"reply": head["request"], **answer}, *parts)

    def task(self, _):
        return {"job": self.row.take(self.name), **self.offer(self.row.model)},

    def update(self, head):
        self.row.give(self.name, self.pull(head))
        return {},

    def offer(self, model):
        number = next(self.numbers)
        self.sources[number] = list(model.values()), {}
        return {"source": number, "names": list(model)}

    def produce(self, head):
        """Returns the next arrays, serialized. The first that does not fit stays in ready."""
        (arrays, ready), items, size = self.sources[head["source"]], [], 0
        for n in range(head["start"], len(arrays)):
            if n not in ready:
                np.savez(file := io.BytesIO(), **{f"T{n}": arrays[n]})
                ready[n] = file.getvalue()
            size += len(ready[n])
            if items and size >= self.most:
                break
            items.append(ready.pop(n))
        if not items:
            del self.sources[head["source"]]
        return {"items": len(items)}, struct.pack(f">{len(items)}Q", *map(len, items)), *items

    def pull(self, offer):
        arrays, source = [], offer["source"]
        reply = self.request("produce", source=source, start=0)
        while True:
            head, chunks = reply.result()
            count, at = head["items"], 8 * head["items"]
            if not count:
                return dict(zip(offer["names"], arrays))
            reply = self.request("produce", source=source, start=len(arrays) + count)
            for size in struct.unpack(f">{count}Q", between(chunks, 0, at)):
                with np.load(io.BytesIO(between(chunks, at, at + size))) as file:
                    arrays += file.values()
                at += size


class Server(common.Asked):
    def __init__(self, session):
        super().__init__(session)
        self.port, self.pull = run(self.listen()).result(), session.setting["pull"]

    async def listen(self):
        server = await LOOP.create_server(web.Server(self.connected), "127.0.0.1", 0)
        return server.sockets[0].getsockname()[1]

    async def connected(self, request):
        name = request.headers.get("Authorization")
        if name not in self.names:
            raise web.HTTPForbidden()
        socket = web.WebSocketResponse(max_msg_size=0)
        await socket.prepare(request)
        await Cell(socket, self.pull, self, name).read()
        return socket

    def arguments(self, n):
        return f"http://127.0.0.1:{self.port}", self.names[n], self.pull

    def publish(self, model):
        self.model = {name: array.copy() for name, array in model.items()}


async def connect(url, name):
    session = aiohttp.ClientSession()
    return session, await session.ws_connect(url, headers={"Authorization": name}, max_msg_size=0)


def work(worker, url, name, pull):
    session, socket = run(connect(url, name)).result()
    cell = Cell(socket, pull)
    run(cell.read())
    while True:
        task, _ = cell.request("task").result()
        update = worker.train(common.Job(*task["job"]), cell.pull(task))
        cell.request("update", **cell.offer(update)).result()


if __name__ == "__main__":
    common.main(Server, work, pull="2MiB")
