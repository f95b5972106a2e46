"""BlazeFL 3.0.0 (April 2026): its own code, a new pool of processes per round, shared memory.

It imports the package blazefl that this Python has. Read at commit 484ee5ac (May 2026). What runs
of it: ProcessPoolClientTrainer.local_process moves one flat tensor and a buffer per client to
shared memory, whose descriptors torch passes; it starts the pool, which inherits nothing; the
processes train all clients of the round and return SHMHandles, which it replaces by the buffers.
A multiprocessing.Manager, a third process, holds its Event.

Here the server makes the flat tensor, and a worker copies its update into the buffer, as in
contrib/fedavg.py. Left out: BlazeFL's own averaging, data sets and random states. A round has all
clients at once, so there are as many workers; and the flat tensor carries f32 alone.

The worker function is the stock one, by ipcbench_worker.arithmetic on numpy's view of the
tensors: C through ctypes, or numpy.
"""

import queue
import threading
from dataclasses import dataclass

import torch
from blazefl.core import ProcessPoolClientTrainer
from blazefl.core.utils import SHMHandle
from torch import multiprocessing

import common
from ipcbench_worker.meter import memory


@dataclass
class Downlink:
    flat: torch.Tensor


@dataclass
class Uplink:
    flat: object  # a tensor, or a handle
    row: tuple = (0,) * 5  # of the log: round, client and times; BlazeFL asks for one length
    peak: int = 0


def flatten(model):
    return torch.cat([torch.from_numpy(a.reshape(-1)) for a in model.values()])


def views(flat, layout):
    data, model, at = flat.numpy(), {}, 0
    for s in layout.specs:
        n = s.nbytes // s.type.size
        model[s.name], at = data[at:at + n].reshape(s.shape), at + n
    return model


trainer = None  # of a process of the pool


class Trainer(ProcessPoolClientTrainer):
    def __init__(self, session):
        self.session, self.num_parallels = session, session.workers
        self.device, self.device_count, self.cache = "cpu", 0, []
        self.done = queue.SimpleQueue()  # packages, or an error
        self.manager = multiprocessing.Manager()
        self.stop_event = self.manager.Event()

    def get_client_config(self, cid):
        return self.session.settings(cid), common.Job(self.round, cid)

    def prepare_uplink_package_buffer(self):
        return Uplink(torch.zeros(self.session.up.nbytes // 4, dtype=torch.float32))

    def convert_buffer_to_uplink(self, buffer):
        return buffer

    def progress_fn(self, jobs):
        """Returns the jobs when they have ended, because local_process waits for ever for a job
        whose process was killed, or then for the end of the pool."""
        complete = common.members(jobs[0]._pool)
        try:
            for job in jobs:
                while not job.ready():
                    job.wait(0.5)
                    complete()
                yield job
            complete()
        except RuntimeError as e:
            self.done.put(e)
            raise

    @staticmethod
    def worker(config, payload, device, stop_event, *, shm_buffer=None):
        global trainer
        settings, job = config
        if trainer is None:
            trainer = common.Worker(*settings)
        update = trainer.train(job, views(payload.flat, trainer.down))
        shm_buffer.flat.copy_(flatten(update))
        return Uplink(SHMHandle(), trainer.log.pop(), memory()["peak_rss_bytes"])


class Server(common.Server):
    starts_workers = True

    @staticmethod
    def refusal(work, cell):
        clients = len(work["clients"])
        if clients > cell["workers"]:
            return f"BlazeFL trains all clients of a round at once: choose --workers {clients}"
        if {t["dtype"] for t in [*work["down"], *(work.get("up") or [])]} != {"f32"}:
            return "BlazeFL's flat tensor carries f32 alone: choose --model cnn or histology"
        return ""

    def __init__(self, session):
        super().__init__(session)
        self.trainer = Trainer(session)

    def publish(self, model):
        self.payload, self.jobs = Downlink(flatten(model)), {}

    def dispatch(self, n, job):
        self.jobs[job.client], self.trainer.round = n, job.round
        if len(self.jobs) == len(self.session.clients):
            self.thread = threading.Thread(target=self.process, daemon=True)
            self.thread.start()

    def process(self):
        try:
            self.trainer.local_process(self.payload, list(self.jobs))
            for uplink in self.trainer.cache:
                self.trainer.done.put(uplink)
            self.trainer.cache.clear()
        except BaseException as e:
            self.trainer.done.put(e)

    def collect(self):
        up = self.trainer.done.get()
        if isinstance(up, BaseException):
            raise up
        n = self.jobs[up.row[1]]
        self.log.append(up.row)
        self.peaks[n] = max(self.peaks[n], up.peak)
        return n, views(up.flat, self.session.up)

    def finish(self):
        self.thread.join()


if __name__ == "__main__":
    common.main(Server, lambda worker: None)
