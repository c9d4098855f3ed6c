"""Counts the calls of Python functions in an op, a step or a recording, cold or warm: a script, since "cold" needs its own process.

Counts do not depend on the machine. They are what a newcomer steps through with a debugger, and most of the time of small ops.
"""

import json
import sys

import rfnb as rf


def calls(fn):
    """The number of Python functions that `fn()` calls, itself among them."""
    seen = []
    sys.setprofile(lambda frame, event, arg: seen.append(None) if event == "call" else None)
    try:
        fn()
    finally:
        sys.setprofile(None)
    return len(seen)


def warm(fn):
    for _ in range(4):
        fn()
    return calls(fn)


def static():
    a, b, c = (rf.Dim(size, name=name) for size, name in ((3, "a"), (4, "b"), (5, "c")))
    return b, rf.random_normal([a, b]), rf.random_normal([b, c])


def ragged(*lengths):
    batch, feature = rf.Dim(len(lengths), name="batch"), rf.Dim(4, name="feature")
    time = rf.Dim(rf.convert_to_tensor(list(lengths), dims=[batch], dtype="int32"), name="time")
    return batch, time, feature, rf.random_normal([batch, time, feature], feature_dim=feature)


def loop_of(cell, x, batch, axis):
    def run():
        loop = rf.Loop(axis=axis)
        loop.state.s = cell.default_initial_state(batch_dims=[batch])
        for _ in loop:
            y, loop.state.s = cell(loop.unstack(x), state=loop.state.s, spatial_dim=rf.single_step_dim)
            out = loop.stack(y)
        return out

    return run


def counts():
    found = {}
    *_, x = ragged(2, 3)
    (x + 1).numpy()  # what a process does once
    b, p, q = static()
    found["cold reduce_mean, static"] = calls(lambda: rf.reduce_mean(p, axis=b))
    found["cold matmul, static"] = calls(lambda: rf.matmul(p, q, reduce=b))
    batch, time, feature, x = ragged(5, 3, 4)
    found["cold reduce_mean, ragged"] = calls(lambda: rf.reduce_mean(x, axis=time))
    for lengths in ((4, 5, 2), (2, 6, 1)):
        batch, time, feature, x = ragged(*lengths)
        found["reduce_mean, new batch"] = calls(lambda time=time, x=x: rf.reduce_mean(x, axis=time))
    found["warm reduce_mean, ragged"] = warm(lambda: rf.reduce_mean(x, axis=time))
    found["warm matmul, static"] = warm(lambda: rf.matmul(p, q, reduce=b))
    out_dim = rf.Dim(5, name="out")
    cell, steps = rf.LSTM(feature, out_dim), (7, 14)
    axes = [rf.Dim(size, name="step") for size in steps]
    short, long = (warm(loop_of(cell, rf.random_normal([batch, axis, feature]), batch, axis)) for axis in axes)
    found["step of for, LSTM"] = (long - short) / (steps[1] - steps[0])
    layers = {"hidden": {"class": "linear", "activation": "relu", "n_out": 8, "from": "data"},
              "output": {"class": "softmax", "n_out": 5, "from": "hidden"}}  # fmt: skip
    net = rf.net_from_dict(layers, {"data": {"dim_tags": [batch, time, feature], "dtype": "float32"}})
    found["warm net of two layers"] = warm(lambda: net({"data": x}))
    heads = rf.Dim(2, name="heads")
    attention = rf.SelfAttention(
        in_dim=feature, proj_dim=feature, key_dim_total=feature, value_dim_total=feature, num_heads=heads
    )
    found["attention"] = warm(lambda: attention(x, axis=time))
    with rf.record():
        found["recorded attention"] = warm(lambda: attention(x, axis=time))
    return found


if __name__ == "__main__":
    print(json.dumps(counts()))
