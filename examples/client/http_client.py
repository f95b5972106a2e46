"""A client of ipcbench serve --transport http: http_client.py CONTACT [LANE]."""

import http.client
import json
import socket

import worker


class Client:
    def __init__(self):
        self.session = worker.join()
        self.lane = self.session["lane"]
        if self.session["network"] == "tcp":
            self.connection = http.client.HTTPConnection(self.session["where"])
        else:
            self.connection = http.client.HTTPConnection("ipcbench")
            self.connection.sock = socket.socket(socket.AF_UNIX)
            self.connection.sock.connect(self.session["where"])

    def ask(self, method, path, body=b"", **fields):
        """Returns an answer and its body. It ends the program if the server refuses."""
        headers = {name.replace("_", "-"): str(value) for name, value in fields.items()}
        headers["Authorization"] = "Bearer " + self.session["secret"]
        self.connection.request(method, "/v1/" + path, body, headers)
        answer = self.connection.getresponse()
        data = answer.read()
        if answer.status >= 400 and answer.status != 410:
            raise SystemExit(json.loads(data)["error"])
        return answer, data

    def join(self):
        digest = self.session["digest"]
        _, data = self.ask("POST", f"lanes/{self.lane}?down={digest}&up={digest}")
        return json.loads(data)

    def fetch(self, job, which):
        """Returns those tensors of the job's model."""
        answer, data = self.ask("POST", "batch", "".join(f"{job['model']}.{t}\n" for t in which))
        at, model = int(answer.getheader("Table-Bytes")), []
        for t in which:
            size = self.session["tensors"][t]["bytes"]
            model.append(data[at:at + size])
            at += size
        return model

    def model(self, job):
        return self.fetch(job, range(len(self.session["tensors"])))

    def send(self, job, update):
        keys = ("dtype", "shape", "bytes")
        lines = [json.dumps({key: t[key] for key in keys}) + "\n" for t in self.session["tensors"]]
        table = "".join(lines).encode()
        self.results(job, table + b"".join(update), Table_Bytes=len(table))

    def results(self, job, body, **fields):
        fields.update(Job_Round=job["round"], Job_Client=job["client"])
        self.ask("POST", f"results/{self.lane}", body,
                 Receipt_Bytes=0, Cache_Tensors=0, Cache_Bytes=0, **fields)

    def run(self):
        self.join()
        while True:
            answer, data = self.ask("GET", f"jobs/{self.lane}")
            if answer.status == 410:  # the session is over
                return
            job = json.loads(data)
            model = self.model(job)
            self.send(job, worker.train(model, self.session, job["round"], job["client"]))


if __name__ == "__main__":
    Client().run()
