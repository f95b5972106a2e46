"""A worker in Python whose functions are those of the conformance suite: see funcs in rounds.go."""

import os
import signal
import sys
import time

sys.path.insert(0, sys.argv[1])

from ipcbench_worker import __main__ as worker, arithmetic  # noqa: E402
from ipcbench_worker.functions import FUNCS  # noqa: E402

SEED = 42


def train(job, model, update):
    arithmetic.train(model, update, SEED, job.round, job.client)


def slow_first(job, model, update):
    if job.client == 0:
        time.sleep(0.02)
    train(job, model, update)


def fail(job, model, update):
    if job.client == 3:
        raise ArithmeticError("out of luck")
    train(job, model, update)


def wrong(job, model, update):
    train(job, model, update)
    if (job.round, job.client) == (1, 3):
        update.data[1][21] ^= 1


def exits(job, model, update):
    if (job.round, job.client) == (1, 3):
        os._exit(0)
    train(job, model, update)


def scribble(job, model, update):
    model.data[0][0] += 1


def hang(job, model, update):
    while True:
        pass


def signals(number):
    def function(job, model, update):
        if (job.round, job.client) == (1, 3):
            update.data[0][0] ^= 1  # in the middle of writing
            os.kill(os.getpid(), number)
        train(job, model, update)
    return function


functions = {"train": train, "slow-first": slow_first, "fail": fail, "wrong": wrong, "scribble": scribble,
             "exit": exits, "hang": hang, "stop": signals(signal.SIGSTOP), "kill": signals(signal.SIGKILL)}
FUNCS.update({name: lambda config, session, f=f: f for name, f in functions.items()})
worker.main()
