import json, multiprocessing, sys, time
import numpy as np
from ipcbench_worker import arithmetic
from ipcbench_worker.layout import Layout, Package

now = time.monotonic_ns

def work(pipe, layout, seed):
    update = Package.alloc(layout)
    while True:
        round, client, *tensors = pipe.recv()
        began = now()
        arithmetic.train(Package.of(layout, tensors), update, seed, round, client)
        pipe.send((began, now(), update.data))

def measure(work_of, cell, block):
    began, clients, layout = now(), work_of["clients"], Layout.of(work_of["down"])
    context = multiprocessing.get_context("spawn")
    pipe, theirs = context.Pipe()
    context.Process(target=work, args=(theirs, layout, block["seed"]), daemon=True).start()
    model, next, expected = (Package.alloc(layout) for _ in range(3))
    arithmetic.first(model, block["seed"])
    average = arithmetic.Average(layout)
    hashes, proofs, spawn = [], 0, now() - began
    times = {name + "_ns": [] for name in ("round", "train", "rtt", "down", "up")}

    def round(prove=False, timed=False):
        nonlocal model, next, proofs
        n, start = len(hashes), now()
        average.begin(next, sum(c["weight"] for c in clients))
        for c in clients:
            sent = now()
            pipe.send((n, c["id"], *model.data))
            began, done, data = pipe.recv()
            back = now()
            if prove:
                arithmetic.train(model, expected, block["seed"], n, c["id"])
                assert all(map(np.array_equal, data, expected.data)), (n, c)
            average.fold(Package(layout, data), c["weight"])
            if timed:
                for name, ns in ("train", done - began), ("rtt", back - sent), ("down", began - sent), ("up", back - began):
                    times[name + "_ns"].append(ns)
        average.finish()
        took, proofs = now() - start, proofs + prove
        model, next = next, model
        hashes.append(f"{arithmetic.hash(model):016x}")
        return took

    cold = round()
    took, warm, spent, rounds = cold + round(prove=block["verify"] != "last"), 0, 0, times["round_ns"]
    while warm < block["warmup"] or not block["rounds"] and took < block["warm_ns"] and warm < 1000:
        took, warm = took + round(), warm + 1
    while len(rounds) < block["rounds"] or not block["rounds"] and len(rounds) < 100 and (
            len(rounds) < least(block, rounds) or sum(rounds) < block["time_ns"]):
        if len(hashes) % {"last": 1 << 30, "sample": 8, "all": 2}[block["verify"]] == 0:
            round(prove=True)
        else:
            rounds.append(round(timed=True))
    round(prove=True)
    return hashes, {"spawn_ns": spawn, "cold": {"round_ns": cold}, "processes": [{}], **times,
                    "proof": {"rounds": proofs, "updates": proofs * len(clients)}}

def least(block, rounds):
    return 1 if sum(rounds) > 5e9 * len(rounds) else block.get("least_rounds") or 4

KNOWN = {"model", "down", "clients", "work", "variant", "workers", "lanes_per_process", "depth"}
BLOCK = {"seed", "rounds", "least_rounds", "time_ns", "warmup", "warm_ns", "verify", "spans", "round_limit_ns"}

def refusal(work_of, cell):
    unknown = sorted({*cell, *work_of} - KNOWN)
    return f"it does not support {unknown[0]}" if unknown else "it can have only one worker" if cell["workers"] > 1 else ""

def answer(order):
    if order["version"] != 2:
        return {"error": "it supports only version 2 of orders"}
    cells = [(order["works"][c["work"]], c) for c in order["cells"]]
    if "block" not in order:
        return {"refused": [refusal(*c) for c in cells]}
    if unknown := sorted(set(order["block"]) - BLOCK):
        return {"error": f"it does not support {unknown[0]}"}
    hashes, block = measure(*cells[0], order["block"])
    return {"hashes": hashes, "block": block}

if __name__ == "__main__":
    head = {"version": 2, "rules": 4, "software": {"python": sys.version.split()[0]}}
    print(json.dumps({**head, **answer(json.loads(sys.stdin.readline()))}))
