"""BlazeFL's own process pool as a peer, from your installation of blazefl 3 (Python 3.14).

    ipcbench run --transport shm-slab,py-blazefl --peer blazefl='python3 examples/peers/blazefl.py'

The server hands ProcessPoolClientTrainer.local_process one flat tensor and all clients of a round,
as contrib/fedavg.py does. Workers train by ipcbench's arithmetic, so that every byte is proved.
BlazeFL's own averaging, data sets and random states are left out.
"""

import os
import queue
import sys
import threading
from dataclasses import dataclass

# instead of the folder of this file, in which import blazefl would find this file
sys.path[0] = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../python/peers")

import numpy as np

import common
from ipcbench_worker.meter import memory

try:
    if sys.version_info < (3, 14):
        raise ImportError(f"this is Python {sys.version.split()[0]}")
    import torch
    from blazefl.core import ProcessPoolClientTrainer
    from blazefl.core.utils import SHMHandle
    from torch import multiprocessing
except ImportError as e:
    sys.exit(f"blazefl.py needs Python 3.14 and blazefl 3 (pip install blazefl): {e}")


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
        self.manager = multiprocessing.Manager()
        self.stop_event = self.manager.Event()

    def get_client_config(self, cid):
        return self.session.settings(cid), common.Job(self.round, cid)

    def prepare_uplink_package_buffer(self):
        return Uplink(torch.zeros(self.session.up.nbytes // 4, dtype=torch.float32))

    def convert_buffer_to_uplink(self, buffer):
        return buffer

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

    def __init__(self, session):
        super().__init__(session)
        kinds = {s.dtype for layout in (session.down, session.up) for s in layout.specs}
        if kinds != {"f32"} or len(session.clients) > session.workers:
            raise ValueError("BlazeFL's flat tensor carries f32 alone, and this peer needs as many "
                             "workers as clients: choose --model cnn or histology and --workers")
        self.trainer, self.done = Trainer(session), queue.SimpleQueue()

    def publish(self, model):
        self.payload, self.jobs = Downlink(flatten(model)), {}

    def dispatch(self, n, job):
        self.jobs[job.client], self.trainer.round = n, job.round
        if len(self.jobs) == len(self.session.clients):
            self.thread = threading.Thread(target=self.process)
            self.thread.start()

    def process(self):
        try:
            self.trainer.local_process(self.payload, list(self.jobs))
            for uplink in self.trainer.cache:
                self.done.put(uplink)
            self.trainer.cache.clear()
        except BaseException as e:
            self.done.put(e)

    def collect(self):
        up = self.done.get()
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
