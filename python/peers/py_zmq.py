"""ZeroMQ: a header and a frame per tensor, which is sent from the tensor's own memory.

The server binds a ROUTER socket, and each worker connects a DEALER socket. A message has a header
in JSON, with round, client, names, types and shapes, and a frame per tensor. Each frame is sent
with send(copy=False, track=True) and SNDMORE. ZeroMQ's thread reads the tensor's memory later, so
that it may only be written again when all trackers are done. The server waits for them at the end
of a round, and a worker before it trains again. A reader's arrays are the memory of its frames.

It is a known error to wait for the last frame alone, whose tracker send_multipart returns
(vllm#50053, #53217). Frames below 64 KiB are copied, so that their trackers are always done.

copy=yes copies all frames, on both sides. network=unix has a socket in a private folder, and
network=tcp one on 127.0.0.1. Workers have random identities, and the server ignores any other.

The worker function is the stock one, by ipcbench_worker.arithmetic: C through ctypes, or numpy.
"""

import json
import os
from multiprocessing import util

import numpy as np
import zmq

import common


def send(socket, to, job, model, copy):
    """Sends a message, and returns a tracker of all its frames that are not copied."""
    specs = [[name, a.dtype.str, a.shape] for name, a in model.items()]
    socket.send_multipart([*to, json.dumps([*job, specs]).encode()], zmq.SNDMORE if specs else 0)
    arrays, trackers = list(model.values()), []
    for i, a in enumerate(arrays):
        more = zmq.SNDMORE if i + 1 < len(arrays) else 0
        frame = a.reshape(-1).view(np.uint8)
        if copy:
            socket.send(frame, more)
        else:
            trackers.append(socket.send(frame, more, copy=False, track=True))
    return zmq.MessageTracker(*trackers)


def parse(header, frames):
    *job, specs = json.loads(bytes(header))
    arrays = (np.frombuffer(memoryview(f), dtype).reshape(shape)
              for f, (_, dtype, shape) in zip(frames, specs))
    return common.Job(*job), dict(zip((name for name, _, _ in specs), arrays))


class Server(common.Server):
    def __init__(self, session):
        super().__init__(session)
        self.copy = session.setting["copy"] == "yes"
        self.names = [session.name().encode() for _ in range(session.workers)]
        self.socket = zmq.Context.instance().socket(zmq.ROUTER)
        self.socket.router_mandatory = True
        if session.setting["network"] == "tcp":
            self.socket.bind("tcp://127.0.0.1:*")
        else:  # relative, because a socket's path has at most 107 bytes
            self.socket.bind(f"ipc://{os.path.relpath(util.get_temp_dir())}/socket")
        self.trackers = []

    def arguments(self, n):
        return self.socket.last_endpoint, self.names[n], self.copy

    def receive(self):
        """Waits for a message from any worker."""
        while True:
            name, *frames = self.socket.recv_multipart(copy=self.copy)
            if bytes(name) in self.names:
                return self.names.index(bytes(name)), frames

    def ready(self):
        for _ in self.names:
            self.receive()  # which says that a worker is connected

    def dispatch(self, n, job):
        self.trackers.append(send(self.socket, [self.names[n]], job, self.model, self.copy))

    def collect(self):
        n, (header, *frames) = self.receive()
        return n, parse(header, frames)[1]

    def finish(self):
        for tracker in self.trackers:
            tracker.wait()
        self.trackers.clear()


def work(worker, address, name, copy):
    socket = zmq.Context.instance().socket(zmq.DEALER)
    socket.identity = name
    socket.connect(address)
    socket.send(b"")
    while True:
        header, *frames = socket.recv_multipart(copy=copy)
        job, model = parse(header, frames)
        send(socket, [], job, worker.train(job, model), copy).wait()


if __name__ == "__main__":
    common.main(Server, work, copy="no", network="unix")
