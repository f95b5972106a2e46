"""torch.distributed: send and recv over gloo, torch's backend for processors.

Server and workers are one process group; the server is rank 0. They meet through a FileStore in a
private folder. To begin, the server sends a worker the round and the client as a tensor of two
numbers, and then the model. The worker sends the client back the same way, and the update; the
server waits for such a head from any rank. Names and shapes are known on both sides, and each end
keeps the tensors into which it receives. Tensors travel as bytes, because gloo has no bf16 in all
releases. Send ends when the bytes are in the socket, so that the memory may then be written again.

tensors=each sends one tensor after another. tensors=flat copies all into one, as
_flatten_dense_tensors does, and sends that; the reader's tensors are views of it.

gloo uses TCP, on the loopback interface only. It checks no one who connects to its ports: another
user of this machine could disturb a run, so measure where you trust all users.

The worker function is the stock one, by ipcbench_worker.arithmetic: C through ctypes, or numpy.
"""

import os
from multiprocessing import util

import numpy as np
import torch
from torch import distributed

import common
from ipcbench_worker.layout import Package

HEAD, DATA = 0, 1  # tags


def join(rank, size, folder):
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    store = distributed.FileStore(os.path.join(folder, "store"), size)
    distributed.init_process_group("gloo", store=store, rank=rank, world_size=size)


class Memory:
    """The tensors of a model or update, as bytes: each, or all in one."""

    def __init__(self, layout, flat):
        block = torch.zeros(max(1, layout.size), dtype=torch.uint8)
        self.package = Package.over(layout, block.numpy())
        self.tensors = [block] if flat else [torch.from_numpy(d) for d in self.package.data]

    def copy(self, model):
        for name, view in self.package.views.items():
            view[...] = model[name]
        return self.tensors


def parts(model):
    return [torch.from_numpy(a.reshape(-1).view(np.uint8)) for a in model.values()]


def send(rank, job, tensors):
    distributed.send(torch.tensor(job), rank, tag=HEAD)
    for t in tensors:
        if len(t):
            distributed.send(t, rank, tag=DATA)


def head(rank=None):
    """Waits for a message, and returns its sender and job."""
    job = torch.zeros(2, dtype=torch.int64)
    return distributed.recv(job, rank, tag=HEAD), common.Job(*job.tolist())


def receive(rank, memory):
    for t in memory.tensors:
        if len(t):
            distributed.recv(t, rank, tag=DATA)
    return memory.package.views


class Server(common.Server):
    def __init__(self, session):
        super().__init__(session)
        self.flat, self.folder = session.setting["tensors"] == "flat", util.get_temp_dir()
        self.copied = Memory(session.down, True) if self.flat else None
        self.updates = {c["id"]: Memory(session.up, self.flat) for c in session.clients}

    def arguments(self, n):
        return n + 1, self.session.workers + 1, self.folder, self.flat

    def ready(self):
        join(0, self.session.workers + 1, self.folder)

    def publish(self, model):
        self.tensors = self.copied.copy(model) if self.flat else parts(model)

    def dispatch(self, n, job):
        send(n + 1, job, self.tensors)

    def collect(self):
        rank, job = head()
        return rank - 1, receive(rank, self.updates[job.client])


def work(worker, rank, size, folder, flat):
    join(rank, size, folder)
    model, copied = Memory(worker.down, flat), Memory(worker.up, True) if flat else None
    while True:
        _, job = head(0)
        update = worker.train(job, receive(0, model))
        send(0, job, copied.copy(update) if flat else parts(update))


if __name__ == "__main__":
    common.main(Server, work, tensors="each")
