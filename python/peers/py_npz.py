"""numpy.savez through files, as many scripts pass models to another process.

The server writes the model into an archive once per round. A worker loads it and saves its update
into another archive. Pipes carry the signals. The files are in a new folder of the current one.

The worker function is the stock one, by ipcbench_worker.arithmetic: C through ctypes, or numpy.
"""

import os
import tempfile

import numpy as np

import common


def save(path, model):
    # By number, because an archive's files have its arrays' names, in which "/" makes a folder.
    np.savez(path, *model.values())


def load(path, layout):
    with np.load(path) as archive:
        return {s.name: archive[f"arr_{i}"] for i, s in enumerate(layout.specs)}


class Server(common.Piped):
    def __init__(self, session):
        super().__init__(session)
        self.folder = tempfile.TemporaryDirectory(prefix="py-npz-", dir=os.getcwd())

    def arguments(self, n):
        return self.theirs[n], self.folder.name

    def publish(self, model):
        save(os.path.join(self.folder.name, "model.npz"), model)

    def dispatch(self, n, job):
        self.pipes[n].send(job)

    def collect(self):
        n = self.waiting()
        return n, load(self.pipes[n].recv(), self.session.up)


def work(worker, pipe, folder):
    path = os.path.join(folder, f"update-{worker.n}.npz")
    while True:
        job = pipe.recv()
        save(path, worker.train(job, load(os.path.join(folder, "model.npz"), worker.down)))
        pipe.send(path)


if __name__ == "__main__":
    common.main(Server, work)
