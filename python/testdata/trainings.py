"""Good and bad examples of user functions. The main program prints the outcome of each."""

import sys

import numpy as np

NO_FUNCTION = 3


def good(model, update, job):
    assert (job.round, job.client, job.weight, job.device, job.lane) == (3, 2, 1.5, "cpu", 1)
    assert job.stopped() and list(model) == list(update) and len(model) == 7 and "w" in model
    assert model["w"].shape == (70000, 2)
    assert model["w"].dtype == np.float32 and model["bf16"].dtype == np.uint16
    assert not model["w"].flags.writeable and update["w"].flags.writeable
    for name in model:
        update[name] = model[name]
    assert (update["w"] == model["w"]).all()
    update["w"][0] = np.nan  # a NaN that computations return, unlike the mark


def one_missing(model, update, job):
    for name in model:
        update[name] = model[name]
    update["w"].view(np.uint32)[69999, 1] = MARK


def half(model, update, job):
    for name in ("w", "bf16"):
        update[name] = model[name]


def no_number(model, update, job):
    for name in list(model)[:-1]:
        update[name] = model[name]


def adds(model, update, job):
    with np.errstate(invalid="ignore"):
        update["w"] += 1


def nothing(model, update, job):
    pass


def returns(model, update, job):
    return {"w": model["w"]}


def raises(model, update, job):
    inner(job)


def inner(job):
    raise ValueError(f"no data for client {job.client}")


def leaves(model, update, job):
    sys.exit()


def writes_model(model, update, job):
    model["w"][0] = 1


def misspells(model, update, job):
    update["W"] = 1


def two(model, update):
    pass


if __name__ == "__main__":
    from ipcbench_worker import function
    from ipcbench_worker.layout import Layout, Package
    from ipcbench_worker.session import Fault, Job, Session

    MARK = function._MARKS["f32"]
    layout = Layout.of({"name": n, "dtype": d, "shape": s} for n, d, s in [
        ("w", "f32", [70000, 2]), ("bf16", "bf16", [3]), ("f16", "f16", [3]), ("f64", "f64", []),
        ("empty", "f64", [0]), ("flags", "bool", [3]), ("steps", "i64", [2])])
    session = Session("shm-slab", {}, 1, 2, "", "", layout, layout, None, 4)
    for name in sys.argv[1:]:
        model, update = Package.alloc(layout), Package.alloc(layout)
        for data in model.data:
            data[:] = 1
        try:
            train = function.Function(name, session)
            sys.modules["trainings"].MARK = MARK
            received = train.begin(model, update)
            train(Job(3, 2, 1.5, "cpu", b"", False), model, update)
            sent = train.end(update)
            print("sent", received != sent)
        except Fault as e:
            print(repr(str(e)))
