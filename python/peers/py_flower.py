"""Flower 1.43 (November 2026): objects of 5 MiB over HTTP, through a third process.

It imitates framework/py/flwr: common/record/array.py, supercore/inflatable/, the SuperLink's
in-memory object store, supernode/ and superexec/, as read in files of 1.39 to 1.43 and in
77068b8497 (1.30). A tensor is numpy.save's bytes in chunks of 5 MiB. Each chunk, and each list
of chunks, is an object with its SHA-256 as its name, which a POST with a protobuf body takes to
the SuperLink, two at a time; the SuperLink computes the name again and stores the object. The
reader fetches the objects in the same way. An object that the SuperLink has is not sent again.

Flower has more steps, which are settings. hops=3: a SuperNode, a process per worker, fetches the
objects of a message and stores them all. The worker, Flower's ClientApp, fetches them from the
SuperNode and takes its update there, whose objects the SuperNode takes to the SuperLink.
process=new: each message starts a new process, which fetches the model, trains and ends. It
imports numpy and this row instead of flwr, so it starts sooner. With hops=2, the worker itself
is the SuperNode. chunk=SIZE and pulls=N change the 5 MiB and the two at a time.

Left out: Flower's processes sleep up to 3 s between two looks for a message; here they wait for
it. A message is announced when its objects are stored, instead of before. Python's http.client
and http.server replace httpx, FastAPI and uvicorn; a SHA-256 in the SuperNode, the objects of
Message and RecordDict, and the tokens and signatures of calls are missing.

The worker function is the stock one, by ipcbench_worker.arithmetic: C through ctypes, or numpy.
"""

import collections
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
    """A SuperLink or SuperNode: the objects and messages of its process. Addressees are random
    names, so no other program can guess them."""

    protocol_version = "HTTP/1.1"
    objects: dict = {}
    needs: dict = collections.Counter()  # number of messages and models that need an object
    mail: dict = {}
    guard = threading.Lock()

    def do_POST(self):
        if self.path not in CALLS:
            return self.send_error(404)
        method = getattr(self, self.path[1:].replace("-", "_"))
        self.answer(method(self.body()).SerializeToString())

    @classmethod
    def box(cls, name):
        with cls.guard:
            return cls.mail.setdefault(name, queue.SimpleQueue())

    @classmethod
    def register(cls, names):
        """Notes a need of these objects, and returns the names that are not stored."""
        with cls.guard:
            cls.needs.update(names)
            return [name for name in names if name not in cls.objects]

    @classmethod
    def release(cls, names):
        """Ends a need of these objects, and removes each that nothing needs."""
        with cls.guard:
            cls.needs.subtract(names)
            for name in names:
                if cls.needs[name] <= 0:
                    del cls.needs[name]
                    cls.objects.pop(name, None)

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
        return pb.Names(names=self.register(pb.Names.FromString(request).names))

    def confirm(self, request):
        self.release(pb.Names.FromString(request).names)
        return pb.Accepted()


CALLS = ["/push-object", "/pull-object", "/push-message", "/pull-message", "/missing", "/confirm"]


def superlink(pipe):
    pipe.send(serving.start(Handler).server_port)
    common.end_after(pipe.recv)


def supernode(pipe, port, setting, name, server):
    threading.Thread(target=common.end_after, args=(pipe.recv,), daemon=True).start()
    pipe.send(serving.start(Handler).server_port)
    link = Link(port, setting)
    try:
        while True:
            message = link.receive(name)
            Handler.objects.update(link.fetch(Handler.register(message.objects)))
            Handler.box(name).put(message)
            reply = Handler.box(server).get()
            link.store({name: Handler.objects[name] for name in reply.objects})
            link.post("push-message", reply)
            Handler.release(reply.objects)
    except ConnectionError:
        pass  # the SuperLink has ended


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

    def store(self, objects):
        missing = self.post("missing", pb.Names(names=list(objects)), pb.Names).names
        list(self.pool.map(lambda n: self.post(
            "push-object", pb.Object(name=n, content=objects[n])), missing))

    def fetch(self, names):
        return dict(zip(names, self.pool.map(lambda n: self.post(
            "pull-object", pb.Object(name=n), pb.Object).content, names)))

    def push(self, model):
        """Stores a model's objects, and returns the name of the root and all names."""
        root, objects = deflate(model, self.chunk)
        self.store(objects)
        return root, list(objects)

    def pull(self, message):
        """Fetches the objects of a message."""
        return inflate(message.root, self.fetch(list(message.objects)))

    def release(self, names):
        self.post("confirm", pb.Names(names=names))

    def receive(self, name):
        return self.post("pull-message", pb.Message(to=name), pb.Message)


class Server(common.Asked):
    def __init__(self, session):
        super().__init__(session)
        self.held, self.address = [], session.name()
        self.pipes = []  # to the third processes, which end when this one ends
        self.port = self.start(superlink)
        self.link = Link(self.port, session.setting)

    def start(self, process, *arguments):
        """Starts a process that serves HTTP, and returns its port."""
        context = multiprocessing.get_context("spawn")
        pipe, theirs = context.Pipe()
        context.Process(
            target=process, args=(theirs, *arguments), daemon=True, name=process.__name__).start()
        theirs.close()
        self.pipes.append(pipe)
        return pipe.recv()

    def arguments(self, n):
        setting, port = self.session.setting, self.port
        if setting["hops"] == "3":
            port = self.start(supernode, port, setting, self.names[n], self.address)
        return port, setting, self.names[n], self.address, self.session.settings(n)

    def publish(self, model):
        before = self.held
        self.root, self.held = self.link.push(model)
        self.link.release(before)

    def dispatch(self, n, job):
        message = pb.Message(to=self.names[n], round=job.round, client=job.client, root=self.root)
        message.objects.extend(self.held)
        self.link.post("push-message", message)

    def collect(self):
        message = self.link.receive(self.address)
        update = self.link.pull(message)
        self.link.release(message.objects)
        return self.names.index(message.sender), update


def work(worker, port, setting, name, server, settings):
    link = Link(port, setting)
    while True:
        message = link.receive(name)
        if setting["process"] == "new":
            order = settings, port, setting, server, message.SerializeToString()
            worker.log.append(common.in_new_process(__file__, order))
        else:
            carry_out(worker, link, setting, server, message)


def carry_out(worker, link, setting, server, message):
    """Trains a message's client, and sends the update."""
    model = link.pull(message)
    if setting["hops"] == "3":  # its SuperNode has the objects for this message alone
        link.release(message.objects)
    update = worker.train(common.Job(message.round, message.client), model)
    root, objects = link.push(update)
    link.post("push-message", pb.Message(
        to=server, sender=message.to, root=root, objects=objects))


def clientapp(settings, port, setting, server, message):
    """Carries out a message in a new process, and returns the log of its training."""
    worker = common.Worker(*settings)
    carry_out(worker, Link(port, setting), setting, server, pb.Message.FromString(message))
    return worker.log.pop()


if __name__ == "__main__":
    common.main(Server, work, clientapp, chunk="5MiB", pulls="2", hops="2", process="kept")
