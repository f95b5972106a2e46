"""Bytes over HTTP on one connection.

A body is the tensors' bytes one after another; a header holds the job, and both ends know the
tensors' names, data types and shapes. A requests.Session keeps its connection.

The worker function is the stock one, by ipcbench_worker.arithmetic: C through ctypes, or numpy.
"""

import numpy as np
import requests

import common
import serving


def to_model(layout, body):
    model, at = {}, 0
    for spec, size in zip(layout.specs, layout.sizes):
        array = np.frombuffer(body, np.uint8, size, at)
        model[spec.name] = array.view(spec.type.numpy).reshape(spec.shape)
        at += size
    return model


class Handler(serving.Handler):
    protocol_version = "HTTP/1.1"  # keeps connections open

    def do_GET(self):
        row = self.server.row
        job = row.take(self.path[1:])
        self.answer(*row.model.values(), **{"X-Job": f"{job.round} {job.client}"})

    def do_POST(self):
        row = self.server.row
        row.give(self.path[1:], to_model(row.session.up, self.body()))
        self.answer()


class Server(common.Asked):
    def __init__(self, session):
        super().__init__(session)
        self.http = serving.start(Handler)
        self.http.row = self

    def arguments(self, n):
        return (f"http://127.0.0.1:{self.http.server_port}/{self.names[n]}",)


def work(worker, url):
    session = requests.Session()
    while True:
        answer = session.get(url)
        job = common.Job(*map(int, answer.headers["X-Job"].split()))
        update = worker.train(job, to_model(worker.down, answer.content))
        session.post(url, data=b"".join(a.tobytes() for a in update.values())).raise_for_status()


if __name__ == "__main__":
    common.main(Server, work)
