"""Flower 1.43 (November 2026): objects of 5 MiB over HTTP, through a third process.

It imitates framework/py/flwr: common/record/array.py, supercore/inflatable/, the SuperLink's
in-memory object store and supernode/fleet_http_client.py. A tensor is numpy.save's bytes in
chunks of 5 MiB. Each chunk, and each list of chunks, is an object with its SHA-256 as its name,
which a POST with a protobuf body takes to the SuperLink, two at a time; the SuperLink computes
the name again and stores the object. The reader fetches the objects in the same way. An object
that the SuperLink has is not sent again.

Here a message is announced when its objects are stored, and its reader waits for it, so that no
one polls, and a SuperNode trains itself instead of starting a ClientApp. chunk=SIZE and pulls=N
change the 5 MiB and the two at a time.

The worker function is the stock one, by ipcbench_worker.arithmetic: C through ctypes, or numpy.
"""

import hashlib
import http.client
import io
import json
import multiprocessing
import queue
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np

import common
import exchange_pb2 as pb
import serving
from ipcbench_worker import wire


def add(objects, kind, body):
    content = b"%s %d\0" % (kind, len(body)) + body
    name = hashlib.sha256(content).hexdigest()
    objects[name] = content
    return name


def body_of(content):
    return memoryview(content)[content.index(b"\0") + 1:]


def deflate(model, chunk):
    """Returns the name of the root, and all objects by name."""
    objects, arrays = {}, {}
    for name, array in model.items():
        file = io.BytesIO()
        np.save(file, array, allow_pickle=False)
        data = file.getvalue()
        parts = [add(objects, b"ArrayChunk", data[at:at + chunk])
                 for at in range(0, len(data), chunk)]
        arrays[name] = add(objects, b"Array", json.dumps(parts).encode())
    return add(objects, b"ArrayRecord", json.dumps(arrays).encode()), objects


def inflate(root, objects):
    model = {}
    for name, array in json.loads(bytes(body_of(objects[root]))).items():
        parts = json.loads(bytes(body_of(objects[array])))
        data = b"".join(body_of(objects[p]) for p in parts)
        model[name] = np.load(io.BytesIO(data), allow_pickle=False)
    return model


class Handler(serving.Handler):
    """The SuperLink. Addressees are random names, so no other program can guess them."""

    protocol_version = "HTTP/1.1"
    objects: dict = {}
    mail: dict = {}
    guard = threading.Lock()

    def do_POST(self):
        if self.path not in CALLS:
            return self.send_error(404)
        method = getattr(self, self.path[1:].replace("-", "_"))
        self.answer(method(self.body()).SerializeToString())

    def box(self, name):
        with self.guard:
            return self.mail.setdefault(name, queue.SimpleQueue())

    def push_object(self, request):
        object = pb.Object.FromString(request)
        if hashlib.sha256(object.content).hexdigest() != object.name:
            raise ValueError("the name of an object is not its hash")
        self.objects[object.name] = object.content
        return pb.Accepted()

    def pull_object(self, request):
        name = pb.Object.FromString(request).name
        return pb.Object(name=name, content=self.objects[name])

    def push_message(self, request):
        message = pb.Message.FromString(request)
        self.box(message.to).put(message)
        return pb.Accepted()

    def pull_message(self, request):
        return self.box(pb.Message.FromString(request).to).get()

    def missing(self, request):
        return pb.Names(names=[n for n in pb.Names.FromString(request).names
                               if n not in self.objects])

    def confirm(self, request):
        for name in pb.Names.FromString(request).names:
            self.objects.pop(name, None)
        return pb.Accepted()


CALLS = ["/push-object", "/pull-object", "/push-message", "/pull-message", "/missing", "/confirm"]


def superlink(pipe):
    pipe.send(serving.start(Handler).server_port)
    threading.Event().wait()  # until the server ends this process


class Link:
    """A connection per thread to the SuperLink."""

    def __init__(self, port, setting):
        self.port, self.local = port, threading.local()
        self.chunk = wire.size(setting["chunk"])
        self.pool = ThreadPoolExecutor(int(setting["pulls"]))

    def post(self, path, request, answer=pb.Accepted):
        if not hasattr(self.local, "http"):
            self.local.http = http.client.HTTPConnection("127.0.0.1", self.port)
        self.local.http.request("POST", "/" + path, request.SerializeToString())
        response = self.local.http.getresponse()
        body = response.read()
        if response.status != 200:
            raise RuntimeError(f"POST /{path}: {response.status}")
        return answer.FromString(body)

    def push(self, model):
        """Stores a model's objects, and returns the name of the root and all names."""
        root, objects = deflate(model, self.chunk)
        missing = self.post("missing", pb.Names(names=list(objects)), pb.Names).names
        list(self.pool.map(lambda n: self.post(
            "push-object", pb.Object(name=n, content=objects[n])), missing))
        return root, list(objects)

    def pull(self, message):
        """Fetches the objects of a message."""
        names = list(message.objects)
        got = self.pool.map(lambda n: self.post(
            "pull-object", pb.Object(name=n), pb.Object).content, names)
        return inflate(message.root, dict(zip(names, got)))

    def receive(self, name):
        return self.post("pull-message", pb.Message(to=name), pb.Message)


class Server(common.Asked):
    def __init__(self, session):
        super().__init__(session)
        context = multiprocessing.get_context("spawn")
        pipe, theirs = context.Pipe()
        context.Process(target=superlink, args=(theirs,), daemon=True).start()
        self.port = pipe.recv()
        self.link, self.held, self.own = Link(self.port, session.setting), [], session.name()

    def arguments(self, n):
        return self.port, self.session.setting, self.names[n], self.own

    def publish(self, model):
        before = self.held
        self.root, self.held = self.link.push(model)
        self.link.post("confirm", pb.Names(names=set(before) - set(self.held)))

    def dispatch(self, n, job):
        message = pb.Message(to=self.names[n], round=job.round, client=job.client, root=self.root)
        message.objects.extend(self.held)
        self.link.post("push-message", message)

    def collect(self):
        message = self.link.receive(self.own)
        update = self.link.pull(message)
        self.link.post("confirm", pb.Names(names=set(message.objects) - set(self.held)))
        return self.names.index(message.sender), update


def work(worker, port, setting, name, server):
    link = Link(port, setting)
    while True:
        message = link.receive(name)
        update = worker.train(common.Job(message.round, message.client), link.pull(message))
        root, objects = link.push(update)
        link.post("push-message", pb.Message(to=server, sender=name, root=root, objects=objects))


if __name__ == "__main__":
    common.main(Server, work, chunk="5MiB", pulls="2")
