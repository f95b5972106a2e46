"""JSON over HTTP with base64 for bytes, and one connection per request, as in AReaL.

A worker asks for its next job and gets the model as JSON: a tensor is its data type, shape and
base64 text, a third longer than its bytes. The update is posted in the same way. requests.get
and requests.post open a connection each time; the server is the standard library's.

The worker function is the stock one, by ipcbench_worker.arithmetic: C through ctypes, or numpy.
"""

import base64
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import requests

import common


def to_json(model):
    return {name: {"dtype": str(a.dtype), "shape": a.shape, "data": base64.b64encode(a).decode()}
            for name, a in model.items()}


def to_model(tensors):
    return {name: np.frombuffer(base64.b64decode(t["data"]), t["dtype"]).reshape(t["shape"])
            for name, t in tensors.items()}


class Handler(BaseHTTPRequestHandler):
    disable_nagle_algorithm = True  # the default of other servers

    def do_GET(self):
        row = self.server.row
        job = row.take(self.path[1:])
        body = json.dumps({"job": job, "model": to_json(row.model)}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.row.give(self.path[1:], to_model(body["update"]))
        self.send_response(204)
        self.end_headers()

    def log_message(self, format, *args):
        pass


class Server(common.Asked):
    handler = Handler

    def __init__(self, session):
        super().__init__(session)
        self.http = ThreadingHTTPServer(("127.0.0.1", 0), self.handler)
        self.http.row = self
        threading.Thread(target=self.http.serve_forever, daemon=True).start()

    def arguments(self, n):
        return (f"http://127.0.0.1:{self.http.server_port}/{self.names[n]}",)


def work(worker, url):
    while True:
        answer = requests.get(url).json()
        update = worker.train(common.Job(*answer["job"]), to_model(answer["model"]))
        requests.post(url, json={"update": to_json(update)}).raise_for_status()


if __name__ == "__main__":
    common.main(Server, work)
