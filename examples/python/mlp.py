"""A small network in numpy that learns a curve. Each client generates its own data.

    python3 mlp.py mlp.safetensors     writes the model's first values
"""

import sys
from functools import lru_cache

import numpy as np

import model_file

FEATURES, HIDDEN, SAMPLES, BATCH, RATE = 32, 256, 512, 64, 0.02


def first():
    """The model's first values, as arrays by name."""
    rng = np.random.default_rng(0)
    return {
        "hidden.weight": rng.normal(0, FEATURES ** -0.5, (FEATURES, HIDDEN)).astype(np.float32),
        "hidden.bias": np.zeros(HIDDEN, np.float32),
        "out.weight": rng.normal(0, HIDDEN ** -0.5, (HIDDEN, 1)).astype(np.float32),
        "out.bias": np.zeros(1, np.float32),
    }


@lru_cache  # a worker trains many clients, each of them many times
def data(client):
    rng = np.random.default_rng(client)
    x = rng.normal(size=(SAMPLES, FEATURES)).astype(np.float32)
    return x, np.sin(x[:, :1] + x[:, 1:2]).astype(np.float32)


def train(model, update, job):
    """Trains a client for one epoch, and writes the resulting weights to update."""
    x, y = data(job.client)
    w1, b1 = model["hidden.weight"].copy(), model["hidden.bias"].copy()  # the model is read-only
    w2, b2 = model["out.weight"].copy(), model["out.bias"].copy()
    for at in range(0, SAMPLES, BATCH):
        if job.stopped():
            break
        xs, ys = x[at:at + BATCH], y[at:at + BATCH]
        h = np.tanh(xs @ w1 + b1)
        error = (h @ w2 + b2 - ys) / len(xs)
        back = error @ w2.T * (1 - h * h)
        w1 -= RATE * xs.T @ back
        b1 -= RATE * back.sum(0)
        w2 -= RATE * h.T @ error
        b2 -= RATE * error.sum(0)
    update["hidden.weight"], update["hidden.bias"] = w1, b1  # copies to the memory they are sent from
    update["out.weight"], update["out.bias"] = w2, b2


if __name__ == "__main__":
    model_file.save(sys.argv[1], first())
