"""Torch's queues, as BlazeFL's process pool used them.

torch.multiprocessing does not pickle a tensor's data: it moves the tensor to shared memory,
passes a file descriptor, and the receiver maps it. The model is moved once per round, and every
worker maps the same memory. An update is moved when it is put into the queue, into a new
segment per tensor, so it is written twice.

The worker function is the stock one, by ipcbench_worker.arithmetic on numpy's view of the
tensors: C through ctypes, or numpy.
"""

import torch.multiprocessing as mp

import common
from torched import to_numpy, to_torch


class Server(common.Server):
    def __init__(self, session):
        super().__init__(session)
        context = mp.get_context("spawn")
        self.jobs = [context.SimpleQueue() for _ in range(session.workers)]
        self.updates = context.SimpleQueue()

    def arguments(self, n):
        return self.jobs[n], self.updates

    def publish(self, model):
        self.shared = {name: t.clone().share_memory_() for name, t in to_torch(model).items()}

    def dispatch(self, n, job):
        self.jobs[n].put((job, self.shared))

    def collect(self):
        n, update = self.updates.get()
        return n, to_numpy(update)


def work(worker, jobs, updates):
    while True:
        job, model = jobs.get()
        update = to_torch(worker.train(job, to_numpy(model)))
        updates.put((worker.n, update))


if __name__ == "__main__":
    common.main(Server, work)
