"""What every client of ipcbench serve has to do: docs/protocol.md in Python's standard library."""

import json
import math
import sys

GOLDEN, WORD = 0x9E3779B97F4A7C15, (1 << 64) - 1
TYPES = {  # bytes of an element, and the bits of it that change
    "f16": (2, 0x03FF), "bf16": (2, 0x007F), "f32": (4, 0x007FFFFF), "f64": (8, (1 << 52) - 1),
    "i8": (1, 0xFF), "i16": (2, 0xFFFF), "i32": (4, 0xFFFFFFFF), "i64": (8, WORD),
    "u8": (1, 0xFF), "bool": (1, 1),
}


def join():
    """Reads the contact in the file of the first argument; a lane may be the second one."""
    with open(sys.argv[1]) as file:
        contact = json.loads(file.readline())["contact"]
    with open(contact["address_file"]) as file:
        address, contact["secret"] = file.read().strip().split("#")
    contact["network"], contact["where"] = address.split(":", 1)
    contact["lane"] = int(sys.argv[2]) if len(sys.argv) > 2 else 0
    for tensor in contact["tensors"]:
        tensor.setdefault("shape", [])
        tensor["bytes"] = math.prod(tensor["shape"]) * TYPES[tensor["dtype"]][0]
    return contact


def mix(*parts):
    h = 0
    for v in parts:
        h = h + GOLDEN + v & WORD
        h = (h ^ h >> 30) * 0xBF58476D1CE4E5B9 & WORD
        h = (h ^ h >> 27) * 0x94D049BB133111EB & WORD
        h ^= h >> 31
    return h


def train(model, session, round, client):
    """Returns the update that a client makes of the model, both as a list of bytes."""
    update = []
    for t, data in enumerate(model):
        size, mask = TYPES[session["tensors"][t]["dtype"]]
        mask = int.from_bytes(mask.to_bytes(size, "little") * (8 // size), "little")
        s, words = mix(session["seed"], round, client, t), []
        for i in range((len(data) + 7) // 8):
            x = (s + i) * GOLDEN & WORD
            w = int.from_bytes(data[8 * i:8 * i + 8], "little") ^ (x ^ x >> 32) & mask
            words.append(w.to_bytes(8, "little"))
        update.append(b"".join(words)[:len(data)])
    return update
