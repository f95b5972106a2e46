"""verl 0.9.1 (September 2026): buckets of tensors in shared memory, announced over ZeroMQ.

It imitates verl/workers/rollout/vllm_rollout/bucketed_weight_transfer.py, read at commit 1dda039b9
(August 2026), as it works on devices without CUDA IPC. For each model, the sender binds a new REQ
socket on ipc and calls the reader, which connects a REP socket. The sender makes a new segment of
the bucket's size and sends its name by send_pyobj. It copies tensors into the segment until the
next does not fit, and sends their names, shapes, types and offsets by send_pyobj. The reader copies
each tensor once, which stands for .to(device), and answers with an empty message; then the next
bucket is filled. After the last one, both close socket and segment.

In verl, a trainer sends models to rollout workers. Here the server sends a model to a worker, and
the worker sends the update in the same way. The server sends to one worker at a time; verl has a
sender per rank. Only the pages of the model are touched in the segment of 2048 MiB. It has no name
in /dev/shm, which a killed run would leave: the reader opens it as /proc/PID/fd/N. A reader keeps
the arrays into which it copies, as .to(device) has a cache of memory. Left out are Ray, which calls
the reader, loading the weights, and gc.collect().

bucket=SIZE is verl's update_weights_bucket_megabytes. A larger tensor is refused, as in verl.
keep=on makes the segment once. overlap=on fills one bucket while another is read (verl#5619).

The worker function is the stock one, by ipcbench_worker.arithmetic: C through ctypes, or numpy.
"""

import mmap
import os
from multiprocessing import util

import numpy as np
import zmq

import common
from ipcbench_worker import wire
from ipcbench_worker.layout import Package


class End:
    """One end between the server and a worker: it sends what it has, and reads into arrays."""

    def __init__(self, pipe, setting, folder):
        self.pipe, self.setting, self.folder = pipe, setting, folder
        self.bucket, self.buckets = wire.size(setting["bucket"]), 1 + (setting["overlap"] == "on")
        self.segment = self.other = None  # the other end's segment

    def send(self, job, model):
        path = f"{self.folder}/{os.getpid()}-{job.round}-{job.client}"
        with zmq.Context.instance().socket(zmq.REQ) as socket:
            socket.bind("ipc://" + path)
            self.pipe.send((job, path))
            if not self.segment:
                self.file = os.memfd_create("py-verl")
                os.ftruncate(self.file, self.bucket * self.buckets)
                self.segment = mmap.mmap(self.file, 0)
            socket.send_pyobj(f"/proc/{os.getpid()}/fd/{self.file}")
            socket.recv()
            for n, (tensors, last) in enumerate(self.fill(model)):
                if n and self.buckets > 1:
                    socket.recv()  # the answer to the bucket before
                socket.send_pyobj((tensors, last))
                if last or self.buckets == 1:
                    socket.recv()
        os.remove(path)
        if self.setting["keep"] == "off":
            self.segment = self.segment.close()
            os.close(self.file)

    def fill(self, model):
        """Copies tensors into buckets. Yields what each holds, and whether it is the last."""
        tensors, start, at = {}, 0, 0
        for name, a in model.items():
            if a.nbytes > self.bucket:
                raise ValueError(f"tensor {name!r} has {a.nbytes} bytes, which do not fit in "
                                 f"bucket={self.setting['bucket']}: raise it")
            if at + a.nbytes > self.bucket:
                yield tensors, False
                tensors, start, at = {}, (start + self.bucket) % len(self.segment), 0
            tensors[name] = {"shape": a.shape, "dtype": a.dtype.str, "offset": start + at}
            np.ndarray(buffer=self.segment, **tensors[name])[...] = a
            at += a.nbytes
        yield tensors, True

    def read(self, path, model):
        with zmq.Context.instance().socket(zmq.REP) as socket:
            socket.connect("ipc://" + path)
            name, last = socket.recv_pyobj(), False
            if not self.other:
                with open(name, "r+b") as f:
                    self.other = mmap.mmap(f.fileno(), 0)
            while not last:
                socket.send(b"")
                tensors, last = socket.recv_pyobj()
                for name, place in tensors.items():
                    model[name][...] = np.ndarray(buffer=self.other, **place)
            socket.send(b"")
        if self.setting["keep"] == "off":
            self.other = self.other.close()


class Server(common.Piped):
    def __init__(self, session):
        super().__init__(session)
        self.folder = os.path.relpath(util.get_temp_dir())  # a socket's path has at most 107 bytes
        self.ends = [End(pipe, session.setting, self.folder) for pipe in self.pipes]
        self.updates = {c["id"]: Package.alloc(session.up).views for c in session.clients}

    def arguments(self, n):
        return self.theirs[n], self.session.setting, self.folder

    def dispatch(self, n, job):
        self.ends[n].send(job, self.model)

    def collect(self):
        n = self.waiting()
        job, path = self.pipes[n].recv()
        self.ends[n].read(path, self.updates[job.client])
        return n, self.updates[job.client]


def work(worker, *arguments):
    end, model = End(*arguments), Package.alloc(worker.down).views
    while True:
        job, path = end.pipe.recv()
        end.read(path, model)
        end.send(job, worker.train(job, model))


if __name__ == "__main__":
    common.main(Server, work, bucket="2GiB", keep="off", overlap="off")
