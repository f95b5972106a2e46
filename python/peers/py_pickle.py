"""Pickle over a pipe: multiprocessing's default for any object.

A worker is a process with a multiprocessing.Pipe. conn.send pickles a dict of numpy arrays with
the default protocol: every array becomes a bytes object inside the pickle, which is then
written to the pipe; conn.recv does the reverse. So each byte is copied four times in user space
and twice by the kernel.

The worker function is the stock one, by ipcbench_worker.arithmetic: C through ctypes, or numpy.
"""

import common


class Server(common.Piped):
    def dispatch(self, n, job):
        self.pipes[n].send((job, self.model))

    def collect(self):
        n = self.waiting()
        return n, self.pipes[n].recv()


def work(worker, pipe):
    while True:
        job, model = pipe.recv()
        pipe.send(worker.train(job, model))


if __name__ == "__main__":
    common.main(Server, work)
