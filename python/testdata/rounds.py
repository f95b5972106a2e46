"""Computes the models of the rounds on stdin, and prints their running hashes for a Go test."""

import json
import sys

from ipcbench_worker import arithmetic
from ipcbench_worker.layout import Layout, Package, layout_of


def models(rounds):
    down = Layout.of(rounds["down"])
    up = layout_of(rounds["up"], down)
    model, next, update, average = (Package.alloc(of) for of in (down, down, up, up))
    arithmetic.first(model, rounds["seed"])
    fold = arithmetic.Average(up)
    for round in range(rounds["rounds"]):
        yield arithmetic.hashes(model)
        mean = next if up == down else average
        fold.begin(mean, sum(rounds["weights"]))
        for client, weight in enumerate(rounds["weights"]):
            arithmetic.train(model, update, rounds["seed"], round, client)
            fold.fold(update, weight)
        fold.finish()
        if mean is average:
            arithmetic.advance(next, model, average)
        model, next = next, model
    yield arithmetic.hashes(model)


cases = json.load(sys.stdin)
json.dump({"kernel": arithmetic.KERNEL,
           "hashes": [[[f"{h:016x}" for h in hashes] for hashes in models(c)] for c in cases],
           "digests": [f"{Layout.of(c['down']).digest:016x}" for c in cases]}, sys.stdout)
