"""multiprocessing.shared_memory and numpy: blocks that all processes map, and pipes for the rest.

The server copies the model into one block once per round. Each client's update has a block of its
own, in which it is trained. Arrays are views of the blocks; pipes carry only the numbers of rounds
and clients. Once all workers have opened the blocks, their names are unlinked, so that a killed
run leaves nothing behind.

The worker function is the stock one, by ipcbench_worker.arithmetic: C through ctypes, or numpy.
"""

from multiprocessing.shared_memory import SharedMemory

import common
from ipcbench_worker.layout import Package


class Server(common.Piped):
    def __init__(self, session):
        super().__init__(session)
        layouts = [session.down] + [session.up] * len(session.clients)
        self.blocks = [SharedMemory(create=True, size=max(1, of.size)) for of in layouts]
        packages = [Package.over(of, b.buf) for of, b in zip(layouts, self.blocks)]
        self.shared, *self.updates = (p.views for p in packages)
        self.doing = {}

    def arguments(self, n):
        return self.theirs[n], [b.name for b in self.blocks]

    def ready(self):
        for pipe in self.pipes:
            pipe.recv()
        for b in self.blocks:
            b.unlink()

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


def work(worker, pipe, names):
    blocks = [SharedMemory(name) for name in names]
    model = Package.over(worker.down, blocks[0].buf).views
    updates = [Package.over(worker.up, b.buf).views for b in blocks[1:]]
    pipe.send(None)
    while True:
        job = pipe.recv()
        worker.train(job, model, updates[job.client])
        pipe.send(None)


if __name__ == "__main__":
    common.main(Server, work)
