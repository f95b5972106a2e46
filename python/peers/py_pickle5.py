"""Pickle protocol 5 over a pipe, with buffers out of band (PEP 574).

A callback gets the memory of each numpy array, which is sent over the pipe as it is; the pickle
contains only the rest. Torch tensors do not support that: they pickle their bytes in band with
any protocol. The counter buffers.out_of_band is one per array in each pickle.

The worker function is the stock one, by ipcbench_worker.arithmetic: C through ctypes, or numpy.
"""

import pickle

import common


def send(pipe, job, model, count):
    buffers = []
    head = pickle.dumps((job, model), protocol=5, buffer_callback=buffers.append)
    count("pickles", 1)
    count("buffers.out_of_band", len(buffers))
    pipe.send((len(buffers), head))
    for buffer in buffers:
        pipe.send_bytes(buffer.raw())


def receive(pipe):
    n, head = pipe.recv()
    return pickle.loads(head, buffers=[pipe.recv_bytes() for _ in range(n)])


class Server(common.Piped):
    def dispatch(self, n, job):
        send(self.pipes[n], job, self.model, self.count)

    def collect(self):
        n = self.waiting()
        return n, receive(self.pipes[n])[1]


def work(worker, pipe):
    while True:
        job, model = receive(pipe)
        send(pipe, job, worker.train(job, model), worker.count)


if __name__ == "__main__":
    common.main(Server, work)
