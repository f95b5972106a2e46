"""A client of ipcbench serve --transport shm-slab: slab_client.py CONTACT [LANE]."""

import ctypes
import json
import mmap
import os
import platform
import socket
import struct
import time

import worker

FUTEX = {"x86_64": 202, "aarch64": 98}[platform.machine()]  # the number of the system call
OVER = (1 << 32) - 1

session = worker.join()
server = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
server.connect(session["where"])
hello = json.dumps({
    "protocol": 1, "variant": session["transport"], "lane": session["lane"],
    "down": session["digest"], "up": session["digest"],
}).encode()
server.send(session["secret"].encode() + struct.pack(">H", len(hello)) + hello)
answer = server.recv(4096)
if len(answer) != 2:
    raise SystemExit(answer[2:].decode() or "the server has hung up")

welcome, files, _, _ = socket.recv_fds(server, 4096, 4)
assert welcome[:1] == b"w" and len(files) == 4


def mapped(file, access):
    memory = mmap.mmap(file, os.fstat(file).st_size, prot=access)
    os.close(file)
    return memory


down, models = mapped(files[0], mmap.PROT_READ), mapped(files[2], mmap.PROT_READ)
up, updates = (mapped(file, mmap.PROT_READ | mmap.PROT_WRITE) for file in (files[1], files[3]))
server.send(b"agreed")
assert server.recv(4096) == b"agreed"
server.setblocking(False)


def gone():
    """Whether the server has closed its end."""
    try:
        return server.recv(4096)[:1] in (b"", b"r")
    except BlockingIOError:
        return False


def places(offset):
    """Yields where the tensors of a package lie."""
    for t in session["tensors"]:
        yield slice(offset, offset + t["bytes"])
        offset += -(-t["bytes"] // 64) * 64


# Numbers are read and written as a whole.
inbox, outbox = memoryview(down).cast("I"), memoryview(up).cast("I")
bell = ctypes.addressof(ctypes.c_uint32.from_buffer(up))
read = 0
while True:
    while inbox[0] == read:
        time.sleep(0.0005)  # or a wait with futex(2)
        if gone():
            raise SystemExit("the server is gone")
    read = inbox[0]
    if read == OVER:
        break
    message = down[128:128 + inbox[16]]
    round, client, _, _ = struct.unpack_from("<qqdB", message)
    offset = struct.unpack_from("<Q", message, 25)[0]
    handle = message[53:53 + 28]
    model = [models[place] for place in places(offset)]
    update = worker.train(model, session, round, client)
    for place, data in zip(places(struct.unpack_from("<Q", handle)[0]), update):
        updates[place] = data
    result = handle + struct.pack("<II", 0, 0)  # no rows, no receipt
    up[128:128 + len(result)] = result
    outbox[16] = len(result)
    outbox[0] = (outbox[0] + 1) % OVER
    ctypes.CDLL(None).syscall(FUTEX, ctypes.c_void_p(bell), 1, 1, None, None, 0)
server.close()
