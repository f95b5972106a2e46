"""A client of ipcbench serve --transport http-shm: http_shm_client.py CONTACT [LANE].

It is on the server's machine, and does what a client of http does, but for tensors that lie
in files of the server.
"""

import mmap
import struct

import http_client

HEADER = 4096  # bytes of a slab's file before its memory


class Client(http_client.Client):
    def join(self):
        answer = super().join()
        if "challenge" not in answer:  # nothing lies in files
            return
        self.models = self.mapped(answer["models"], mmap.PROT_READ)
        self.updates = self.mapped(answer["updates"], mmap.PROT_READ | mmap.PROT_WRITE)
        at = HEADER + answer.get("offset", 0)
        self.updates[at:at + 16] = bytes.fromhex(answer["challenge"])
        self.ask("POST", f"lanes/{self.lane}/local")

    def mapped(self, slab, access):
        with open(slab["path"], "r+b" if access & mmap.PROT_WRITE else "rb") as file:
            memory = mmap.mmap(file.fileno(), 0, prot=access)
        if memory[16:32].hex() != slab["nonce"]:
            raise SystemExit(slab["path"] + " is another file: the server is on another machine")
        return memory

    def model(self, job):
        model = [None] * len(self.session["tensors"])
        self.read = []  # where each generation stands, and what it has to be
        for run in job.get("runs", []):
            offset, _, generation, _ = struct.unpack("<QQQI", bytes.fromhex(run["handle"]))
            for t in range(run["first"], run["first"] + run["count"]):
                at, size = HEADER + offset, self.session["tensors"][t]["bytes"]
                if self.generation(at) == generation:
                    model[t] = self.models[at:at + size]
                    self.read.append((at, generation))
                offset, generation = offset + max(-(-size // 64), 1) * 64 + 64, generation + 1
        missing = [t for t, data in enumerate(model) if data is None]
        for t, data in zip(missing, self.fetch(job, missing) if missing else []):
            model[t] = data
        return model

    def generation(self, at):
        return struct.unpack_from("<Q", self.models, at - 64)[0]

    def send(self, job, update):
        if any(self.generation(at) != generation for at, generation in self.read):
            raise SystemExit("the model has changed while it was read")
        if "update" not in job:
            return super().send(job, update)
        at = HEADER + struct.unpack_from("<Q", bytes.fromhex(job["update"]))[0]
        for data in update:
            self.updates[at:at + len(data)] = data
            at += -(-len(data) // 64) * 64
        self.results(job, b"", Table_Bytes=0, Update_Handle=job["update"])


if __name__ == "__main__":
    Client().run()
