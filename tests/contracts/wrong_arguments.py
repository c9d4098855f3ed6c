"""Calls of all public functions and classes with arguments that they do not take, and what is said then.

`python tests/contracts/wrong_arguments.py` makes every call, and prints those that end raw. They set what belongs to the process and
leave blocks open, so tests run this as a process of its own.
"""

import contextlib
import contextvars
import inspect
import io
import json
import random
import sys
import types
import warnings
from collections import Counter

import numpy as np
import torch

import rfnb as rf
from rfnb.core.errors import parts_of
from rfnb.places.paths import PATHS

BATCH, FEAT, OUT, VOCAB = (
    rf.Dim(size, name=name) for size, name in ((2, "batch"), (4, "feat"), (6, "out"), (5, "vocab"))
)
TIME = rf.ragged_dim([3, 2], over=BATCH, name="time")
X = rf.zeros([BATCH, TIME, FEAT])
LINEAR = rf.Linear(FEAT, OUT)
with rf.record() as TRACE:
    LINEAR(X)


class Thing:
    """An object that has nothing."""


def function(*args, **kwargs):
    return None


WRONG = {
    "None": None, "int": 3, "str": "time", "list": [1, 2], "dict": {"a": 1}, "torch": torch.zeros(2, 3), "numpy": np.zeros((2, 3)),
    "Dim": rf.Dim(7, name="other"), "Tensor": X, "function": function, "object": Thing(), "class": Thing,
}  # fmt: skip
ALONG = {"axis", "spatial_dim", "in_spatial_dim", "query_spatial_dim", "key_value_spatial_dim", "reduce", "along"}
FEATURES = {"in_dim", "feat_dim", "feature_dim", "model_dim", "key_dim", "out_dim", "key_dim_total", "value_dim_total"}
# Not called: they open pages or servers, or change for good which backend an array belongs to.
LEFT_OUT = {"rf.explore", "rf.register_backend_by_tensor_type"}


def public():
    """(path, function or class): of rfnb, of its modules that are public by themselves, and of all documented places."""
    places = [("rf", rf, rf.__all__)]
    places += [(f"rf.{name}", getattr(rf, name), getattr(rf, name).__all__) for name in ("viz", "plot")]
    for path, names in PATHS.items():
        module = rf
        for part in path.split("."):
            module = getattr(module, part)
        places.append((f"rf.{path}", module, names.split()))
    seen = set()
    for place, module, names in places:
        for name in sorted(names):
            value = getattr(module, name, None)
            made = (
                isinstance(value, type)
                and not getattr(value, "_is_protocol", False)
                and not issubclass(value, BaseException)
            )
            if (
                (made or isinstance(value, types.FunctionType))
                and id(value) not in seen
                and f"{place}.{name}" not in LEFT_OUT
            ):
                seen.add(id(value))
                yield f"{place}.{name}", value


def likely(parameter):
    """A value that a parameter may take, by its name and type."""
    name, kind = parameter.name, str(parameter.annotation)
    if name in ALONG:
        return TIME
    if name in FEATURES:
        return FEAT
    for word, value in (
        ("Sequence[Dim]", [BATCH, FEAT]), ("Callable", function), ("Tensor", X), ("Dim", TIME), ("Trace", TRACE), ("Module", LINEAR),
        ("str", "float32" if name == "dtype" else "x"), ("int", 2), ("float", 0.5), ("bool", True),
    ):  # fmt: skip
        if word in kind:
            return value
    return X


def calls_of(path, value):
    """(what is wrong, the call)."""
    signature = inspect.signature(value)
    parameters = [each for each in signature.parameters.values() if each.kind is not each.VAR_KEYWORD]
    named = [each for each in parameters if each.kind not in (each.POSITIONAL_ONLY, each.VAR_POSITIONAL)]
    needed = {each.name: likely(each) for each in named if each.default is each.empty}
    first = [likely(each) for each in parameters if each.kind is each.POSITIONAL_ONLY and each.default is each.empty]
    yield "no arguments", lambda: value()
    yield "an unknown keyword", lambda: value(*first, **needed, no_such_keyword=1)
    for each in named:
        for kind, wrong in WRONG.items():
            yield f"{each.name}={kind}", lambda name=each.name, wrong=wrong: value(*first, **{**needed, name: wrong})


def verdict(error):
    """ "ours": the error has its parts; "said": a sentence that a `raise` of ours has made; "raw"."""
    if parts_of(error) is not None:
        return "ours"
    last = error.__traceback__
    while last.tb_next:
        last = last.tb_next
    code = last.tb_frame.f_code
    raised = "/rfnb/" in code.co_filename and code.co_code[last.tb_lasti] == RAISE
    return "said" if raised else "raw"


def made(path, value, share):
    """(what is wrong, how it ended, the error) of a share of the calls, always the same ones, with those that bring no values."""
    draw = random.Random(path)
    for what, call in calls_of(path, value):
        if "=" in what and draw.random() >= share:
            continue
        try:
            contextvars.copy_context().run(call)  # a block that it opens is of this context
            yield what, "fine", None
        except Exception as error:
            yield what, verdict(error), error
        finally:
            rf.set_default_device(None)
            rf.set_amp_policy(None)
            rf.set_default_float_dtype("float32")
            rf.select_backend_torch()


RAISE = next(code for name, code in __import__("dis").opmap.items() if name == "RAISE_VARARGS")


def main(share):
    """Make a share of all calls, and print those that end raw, and how many ended how."""
    ends = Counter()
    warnings.simplefilter("ignore")
    for path, value in public():
        with contextlib.redirect_stdout(io.StringIO()):  # views are drawn where they are shown
            found = list(made(path, value, share))
        for what, end, error in found:
            ends[end] += 1
            if end == "raw":
                print(path, what, type(error).__name__, str(error).partition("\n")[0], sep=" | ")
    print(json.dumps(ends))


if __name__ == "__main__":
    main(float(sys.argv[1]) if len(sys.argv) > 1 else 1.0)
