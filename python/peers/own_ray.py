"""Ray's own object store: each model is put anew for each client, as in Flower's simulation.

It is untested: Ray was not available where it was written. It does with Ray what the row py-store
imitates, after framework/py/flwr/simulation/ray_transport/ray_actor.py at 77068b8. The server puts
the model and calls an actor with it; Ray puts the update, and the server gets it. Both read views
of Ray's memory. Left out are Flower's messages, its ClientApp and its pool of actors, and Ray's
dashboard and statistics of use. puts=round puts the model once per round for all clients.

The worker function is the stock one, by ipcbench_worker.arithmetic: C through ctypes, or numpy.
"""

import atexit
import os
import sys
import tempfile

import ray

import common
from ipcbench_worker.meter import memory


class Server(common.Server):
    starts_workers = True  # as actors, since Ray starts the processes that map its memory

    def __init__(self, session):
        super().__init__(session)
        os.environ.update(PYTHONPATH=os.pathsep.join(sys.path), RAY_USAGE_STATS_ENABLED="0")
        atexit.register(ray.shutdown)  # which ends Ray's processes
        ray.init(address="local", num_cpus=session.workers, include_dashboard=False,
                 log_to_driver=False, _temp_dir=tempfile.gettempdir())
        actor = ray.remote(num_cpus=1)(Trainer)
        self.actors = [actor.remote(session.settings(n)) for n in range(session.workers)]
        self.calls, self.anew = {}, session.setting["puts"] == "client"

    def publish(self, model):
        self.model = model if self.anew else ray.put(model)

    def dispatch(self, n, job):
        model = ray.put(self.model) if self.anew else self.model
        self.calls[self.actors[n].train.remote(job, model)] = n

    def collect(self):
        (call,), _ = ray.wait(list(self.calls))
        n = self.calls.pop(call)
        update, row, peak = ray.get(call)
        self.log.append(row)
        self.peaks[n] = max(self.peaks[n], peak)
        return n, update


class Trainer:
    def __init__(self, settings):
        self.worker = common.Worker(*settings)

    def train(self, job, model):
        return self.worker.train(job, model), self.worker.log.pop(), memory()["peak_rss_bytes"]


if __name__ == "__main__":
    common.main(Server, None, puts="client")
