"""A stand-in for Ray's object store: each model is put anew for each client, in shared memory.

In Flower's simulation (framework/py/flwr/simulation/ray_transport/ray_actor.py at 77068b8) a
message is an argument of a call, so Ray puts its model once for each client, in the form of
python/ray/includes/serialization.pxi (0227f4e). A third process owns all objects. To put one, a
process pickles with protocol 5, asks for memory, copies the arrays into it, and says that it is
complete. To get one, a process maps it, and the arrays are read-only views. An object is freed
when no process has a reference to it. An update comes back in the same way.

The row is not ranked until it was compared with the row ray. Each object is a new memfd, whose
descriptor is passed; Ray takes memory from one block, whose pages it uses again. Ray copies arrays
above 1 MiB with six threads, and this row with one. Ray's calls by gRPC, in which small objects
travel, are left out. puts=round puts the model once per round for all clients.

The worker function is the stock one, by ipcbench_worker.arithmetic: C through ctypes, or numpy.
"""

import itertools
import mmap
import multiprocessing
import os
import pickle
import weakref
from multiprocessing import connection
from multiprocessing.reduction import recv_handle, send_handle

import common

common.lacks("Ray")  # so that the row is not ranked
GONE = "the process of the store has ended"


def store(server, *pipes):
    """The store's process, which ends when the server's end of its pipe is closed."""
    files, counts, numbers, pipes = {}, {}, itertools.count(), [server, *pipes]
    while True:
        for pipe in connection.wait(pipes):
            try:
                what, value, dropped = pipe.recv()
                for n in dropped:
                    counts[n] -= 1
                    if counts[n] == 0:
                        os.close(files.pop(n))
                if what == "create":
                    size, value = value, next(numbers)
                    files[value], counts[value] = os.memfd_create("py-store"), 0
                    os.ftruncate(files[value], size)
                pipe.send(value)
                if what != "seal":
                    counts[value] += 1
                    send_handle(pipe, files[value], None)
            except (EOFError, OSError):
                pipes.remove(pipe)
                if pipe is server:
                    return


class Store:
    """A process's end of its pipe to the store."""

    def __init__(self, pipe):
        self.pipe, self.dropped = pipe, []

    def ask(self, what, value):
        """Sends a request and what is no longer used. Returns an object and its descriptor."""
        try:
            self.pipe.send((what, value, [self.dropped.pop() for _ in self.dropped[:]]))
            return self.pipe.recv(), None if what == "seal" else recv_handle(self.pipe)
        except (EOFError, OSError) as e:
            raise RuntimeError(GONE) from e

    def put(self, value):
        """Stores a value, and returns its object's number, which is a reference to it."""
        buffers = []
        data = pickle.dumps(value, protocol=5, buffer_callback=buffers.append)
        parts = [buffer.raw() for buffer in buffers]
        sizes = [len(part) for part in parts]
        *places, end = itertools.accumulate(sizes, lambda at, n: at + -(-n // 64) * 64, initial=0)
        head = pickle.dumps((data, places, sizes)) + end.to_bytes(8, "little")
        n, file = self.ask("create", end + len(head))
        with mmap.mmap(file, 0) as memory:
            os.close(file)
            for at, part in zip([*places, end], [*parts, head]):
                memory[at:at + len(part)] = part
        self.ask("seal", n)
        return n

    def get(self, n):
        """Returns an object's value, whose arrays are read-only views of the store's memory."""
        _, file = self.ask("get", n)
        memory = mmap.mmap(file, 0, prot=mmap.PROT_READ)
        os.close(file)
        weakref.finalize(memory, self.dropped.append, n)  # when no array uses it
        view = memoryview(memory)
        data, places, sizes = pickle.loads(view[int.from_bytes(view[-8:], "little"):])
        return pickle.loads(data, buffers=[view[at:at + n] for at, n in zip(places, sizes)])


class Server(common.Piped):
    def __init__(self, session):
        super().__init__(session)
        context = multiprocessing.get_context("spawn")
        (mine, *self.ends), theirs = zip(*(context.Pipe() for _ in range(session.workers + 1)))
        self.process = context.Process(target=store, args=theirs, daemon=True)
        self.process.start()
        [pipe.close() for pipe in theirs]  # so that all processes notice the end of the store
        self.store, self.anew, self.sent = Store(mine), session.setting["puts"] == "client", {}

    def arguments(self, n):
        return self.theirs[n], self.ends[n]

    def publish(self, model):
        self.model = model if self.anew else self.store.put(model)

    def dispatch(self, n, job):
        self.sent[n] = self.store.put(self.model) if self.anew else self.model
        self.pipes[n].send((job, self.sent[n]))

    def collect(self):
        ready = connection.wait([*self.pipes, self.process.sentinel])
        if self.process.sentinel in ready:
            raise RuntimeError(GONE)
        n = self.pipes.index(ready[0])
        number = self.pipes[n].recv()
        update = self.store.get(number)
        self.store.dropped += [number, self.sent[n]] if self.anew else [number]
        return n, update

    def finish(self):
        if not self.anew:
            self.store.dropped.append(self.model)


def work(worker, pipe, end):
    objects = Store(end)
    while True:
        job, number = pipe.recv()
        pipe.send(objects.put(worker.train(job, objects.get(number))))


if __name__ == "__main__":
    common.main(Server, work, puts="client")
