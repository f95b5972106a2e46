"""Blocks of memory that all processes map, and pipes for the rest, as with
multiprocessing.shared_memory and numpy.

The server copies the model into one block once per round. Each client's update has a block of its
own, in which it is trained. Arrays are views of the blocks; pipes carry only the numbers of rounds
and clients. The blocks have no names: pipes pass their descriptors once, so that a killed run
leaves nothing behind, and so that their size is not limited by /dev/shm. After that, they are the
same memory as blocks of multiprocessing.shared_memory.

The worker function is the stock one, by ipcbench_worker.arithmetic: C through ctypes, or numpy.
"""

import mmap
import os
from multiprocessing.reduction import recv_handle, send_handle

import common
from ipcbench_worker.layout import Package


def over(layout, file):
    """Maps a block, and closes its descriptor."""
    block = mmap.mmap(file, max(1, layout.size))
    os.close(file)
    return Package.over(layout, block).views


class Server(common.Piped):
    def ready(self):
        layouts = [self.session.down] + [self.session.up] * len(self.session.clients)
        files = [os.memfd_create("py-shm") for _ in layouts]
        for layout, file in zip(layouts, files):
            os.ftruncate(file, max(1, layout.size))
        for n, pipe in enumerate(self.pipes):  # in turn, because few descriptors may be under way
            for file in files:
                send_handle(pipe, file, self.session.processes[n].pid)
            pipe.recv()
        self.shared, *self.updates = [over(layout, file) for layout, file in zip(layouts, files)]
        self.doing = {}

    def arguments(self, n):
        return self.theirs[n], len(self.session.clients)

    def publish(self, model):
        for name, view in self.shared.items():
            view[...] = model[name]

    def dispatch(self, n, job):
        self.doing[n] = job.client
        self.pipes[n].send(job)

    def collect(self):
        n = self.waiting()
        self.pipes[n].recv()
        return n, self.updates[self.doing[n]]


def work(worker, pipe, clients):
    model, *updates = [over(layout, recv_handle(pipe)) for layout in [worker.down] + [worker.up] * clients]
    pipe.send(None)
    while True:
        job = pipe.recv()
        worker.train(job, model, updates[job.client])
        pipe.send(None)


if __name__ == "__main__":
    common.main(Server, work)
