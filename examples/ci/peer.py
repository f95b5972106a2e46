"""Measures how this project moves models: a server that sends a model to worker processes, and
gets their updates back. ipcbench measures two versions of this file in turn.

Replace send and receive, and what calls them, by your project's own code. common is ipcbench's:
docs/ci.md says where it comes from.
"""

import pickle

import common


def send(pipe, message):
    # Arrays become bytes inside the pickle.
    pipe.send_bytes(pickle.dumps(message, protocol=5))


def receive(pipe):
    return pickle.loads(pipe.recv_bytes())


class Server(common.Piped):
    def dispatch(self, n, job):
        send(self.pipes[n], (job, self.model))

    def collect(self):
        n = self.waiting()
        return n, receive(self.pipes[n])


def work(worker, pipe):
    while True:
        job, model = receive(pipe)
        send(pipe, worker.train(job, model))


if __name__ == "__main__":
    common.main(Server, work)
