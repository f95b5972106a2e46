"""BlazeFL 3.0.0 (April 2026): a new pool of processes per round, and shared memory.

It imitates src/blazefl/core/client_trainer.py and core/utils.py, and the flat tensors of
contrib/fedavg.py. The server copies the model into one flat tensor, moves that to shared memory,
makes a buffer per client there, and starts the pool. torch passes descriptors of this memory to
the processes, which copy their updates into the buffers.

Here a client is handed over when a process is free, instead of all at once. A worker trains on
the flat tensor itself, and tensors may have any data type. pool=kept starts the pool once.
share=names is torch's sharing strategy file_system: processes open files in /dev/shm instead of
getting descriptors. Python's resource tracker, another process, removes those of a killed run.

The worker function is the stock one, by ipcbench_worker.arithmetic on numpy's view of the
tensors: C through ctypes, or numpy.
"""

import atexit
import multiprocessing
import os
import queue
from multiprocessing import resource_tracker

import numpy as np
import torch
import torch.multiprocessing  # lets multiprocessing pass tensors as descriptors

import common
from ipcbench_worker.meter import memory

if [int(n) for n in torch.__version__.split(".")[:2]] < [2, 8]:
    common.lacks("torch 2.8")


def flatten(model, layout, flat):
    for a, at in zip(model.values(), layout.offsets):
        flat[at:at + a.nbytes].copy_(torch.from_numpy(a.reshape(-1).view(np.uint8)))


def views(flat, layout):
    data = flat.numpy()
    return {s.name: data[at:at + n].view(s.type.numpy).reshape(s.shape)
            for s, at, n in zip(layout.specs, layout.offsets, layout.sizes)}


class Server(common.Server):
    starts_workers = True

    def __init__(self, session):
        super().__init__(session)
        self.done, self.pool, self.tracked = queue.SimpleQueue(), None, set()
        if session.setting["share"] == "names":
            torch.multiprocessing.set_sharing_strategy("file_system")
            atexit.register(self.free)

    def track(self):
        """Tells the resource tracker all names. torch_shm_manager removes them only after 2 s."""
        names = {"/" + n for n in os.listdir("/dev/shm") if n.startswith(f"torch_{os.getpid()}_")}
        for name in names ^ self.tracked:
            tell = resource_tracker.register if name in names else resource_tracker.unregister
            tell(name, "shared_memory")
        self.tracked = names

    def free(self):
        self.flat = self.buffers = None
        self.track()

    def publish(self, model):
        self.flat = torch.empty(self.session.down.size, dtype=torch.uint8)
        flatten(model, self.session.down, self.flat)
        self.flat.share_memory_()
        size = self.session.up.size
        self.buffers = {c["id"]: torch.zeros(size, dtype=torch.uint8).share_memory_()
                        for c in self.session.clients}
        self.track()
        if self.pool is None:  # the default of Python 3.14
            self.pool = multiprocessing.get_context("forkserver").Pool(self.session.workers)
            self.complete = common.members(self.pool)

    def dispatch(self, n, job):
        arguments = (self.session.settings(n), job, self.flat, self.buffers[job.client])
        self.pool.apply_async(train, arguments, callback=lambda ended: self.done.put((n, ended)),
                              error_callback=lambda error: self.done.put((n, error)))

    def collect(self):
        while True:
            try:
                n, ended = self.done.get(timeout=0.5)
                break
            except queue.Empty:
                self.complete()
        if isinstance(ended, BaseException):
            raise ended
        row, peak = ended
        self.log.append(row)
        self.peaks[n] = max(self.peaks[n], peak)
        return n, views(self.buffers[row[1]], self.session.up)

    def finish(self):
        self.complete()
        if self.session.setting["pool"] == "new":
            self.pool.close()
            self.pool.join()
            self.pool = None


trainer = None  # of a process of the pool


def train(settings, job, flat, buffer):
    global trainer
    if trainer is None:
        trainer = common.Worker(*settings)
    flatten(trainer.train(job, views(flat, trainer.down)), trainer.up, buffer)
    return trainer.log.pop(), memory()["peak_rss_bytes"]


def work(worker):
    """Is never called: the server starts the workers."""


if __name__ == "__main__":
    common.main(Server, work, pool="new", share="descriptors")
