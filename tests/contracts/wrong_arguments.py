"""Calls of all public functions and classes, and of the methods of what users have, with arguments that they do not take, and what is
said then.

`python tests/contracts/wrong_arguments.py` makes every call, and prints those that end raw, and those that are accepted although the
argument is of no type of its annotation; `... 0.1 methods` a tenth of those of methods. They set what belongs to the process and leave
blocks open, so tests run this as a process of its own.
"""

import contextlib
import contextvars
import inspect
import io
import json
import random
import sys
import tempfile
import types
import warnings
from collections import Counter

import numpy as np
import torch

import rfnb as rf
from rfnb.core.argument_types import fits, hints_of
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
    "None": None, "int": 3, "str": "time", "no dim": "nowhere", "list": [1, 2], "dict": {"a": 1}, "torch": torch.zeros(2, 3),
    "numpy": np.zeros((2, 3)), "Dim": rf.Dim(7, name="other"), "Tensor": X, "function": function, "object": Thing(), "class": Thing,
}  # fmt: skip
ALONG = {"axis", "spatial_dim", "in_spatial_dim", "query_spatial_dim", "key_value_spatial_dim", "reduce", "along"}
FEATURES = {"in_dim", "feat_dim", "feature_dim", "model_dim", "key_dim", "out_dim", "key_dim_total", "value_dim_total"}
# Not called: they open pages or servers, change for good which backend an array belongs to, or wait for who steps a run.
LEFT_OUT = {"rf.explore", "rf.register_backend_by_tensor_type", "Run.wait"}


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


def history():
    """The record of a search of two steps."""
    with rf.record() as trace:
        rf.beam_search(
            lambda label, state: (rf.zeros([*label.dims, VOCAB]), state),
            batch=BATCH,
            max_seq_len=2,
            beam_size=2,
            axis=VOCAB,
        )
    return next(iter(trace.beams.values()))


def in_a_step():
    """A loop in its first step."""
    loop = rf.Loop(axis=TIME)
    loop.state.h = rf.zeros([BATCH, FEAT])
    next(iter(loop))
    return loop


def held():
    """A run that waits before its third step."""

    def sums():
        loop = rf.Loop(axis=TIME, name="sums")
        loop.state.h = rf.zeros([BATCH, FEAT])
        for _ in loop:
            loop.state.h = loop.state.h + loop.unstack(X)
        return loop.state.h

    for run in RUNS:
        run.stop()
    RUNS[:] = [rf.run(sums, paused=True)]
    RUNS[0].wait()
    return RUNS[0].step(2)


def ctc_alignment():
    logits, words = rf.zeros([BATCH, TIME, VOCAB]), rf.Dim(2, name="words")
    return rf.ctc_forced_align(
        logits=logits, targets=rf.ones([BATCH, words], dtype="int32", sparse_dim=VOCAB), input_spatial_dim=TIME,
        targets_spatial_dim=words, blank_index=0,
    )  # fmt: skip


def ngram_lm():
    with tempfile.NamedTemporaryFile("w", suffix=".arpa") as file:
        file.write("\\data\\\nngram 1=3\n\n\\1-grams:\n-1 <s>\n-1 </s>\n-1 a\n\n\\end\\\n")
        file.flush()
        return rf.NGramLM(file.name, ["</s>", "a"])


RUNS = []  # that is not stopped yet

# What users have in hand, made anew where a call has changed it.
INSTANCES = {
    "Tensor": lambda: rf.zeros([BATCH, TIME, FEAT]), "Tensor of a static shape": lambda: rf.zeros([BATCH, FEAT]),
    "Tensor of labels": lambda: rf.zeros([BATCH, TIME], dtype="int32", sparse_dim=VOCAB), "scalar": lambda: rf.constant(1.0),
    "Dim": lambda: rf.Dim(3, name="static"), "ragged Dim": lambda: rf.ragged_dim([3, 2], over=BATCH, name="ragged"),
    "Parameter": lambda: rf.Parameter([FEAT, OUT]), "TensorDict": lambda: rf.TensorDict({"x": rf.zeros([BATCH, rf.Dim(3)])}),
    "Loop": lambda: rf.Loop(axis=TIME), "Loop in a step": in_a_step, "TensorArray": lambda: rf.TensorArray.unstack(X, axis=TIME),
    "State": lambda: rf.State(h=rf.zeros([BATCH, FEAT])), "Trace": lambda: TRACE, "BeamHistory": history,
    "CtcAlignment": ctc_alignment, "RunCtx": lambda: rf.RunCtx(stage="train_step", train_flag=True),
    "Loss": lambda: rf.Loss(rf.zeros([BATCH]), "ce"), "Diff": lambda: rf.diff(TRACE, TRACE), "Run": held,
    "Position": lambda: held().at, "Tree": lambda: held().tree(), "Module": lambda: rf.Sequential([rf.Linear(FEAT, OUT)]),
    "Linear": lambda: rf.Linear(FEAT, OUT), "LSTM": lambda: rf.LSTM(FEAT, OUT), "ModuleList": lambda: rf.ModuleList(rf.Linear(FEAT, OUT)),
    "SelfAttention": lambda: rf.SelfAttention(FEAT, FEAT, key_dim_total=FEAT, value_dim_total=FEAT, num_heads=2),
    "TransformerDecoder": lambda: rf.TransformerDecoder(FEAT, VOCAB, rf.Dim(8, name="model"), num_layers=1, num_heads=2),
    "LongAttention": lambda: rf.LongAttention(torch.zeros(3, 5, 4), torch.zeros(3, 7, 4)),
    "View": lambda: rf.viz.attention(np.eye(2, dtype=np.float32)),
    "NGramLM": ngram_lm, "RemovableHandle": lambda: rf.Linear(FEAT, OUT).register_forward_hook(function),
    "StateValue": lambda: held().at.states["h"], "Debug": lambda: rf.debug(beams=True),
    "Normal": lambda: rf.init.Normal(1.0), "Alignment": lambda: rf.align(["a"], ["b"]),
}  # fmt: skip


def methods(instance):
    """(name, method) of all public methods of an instance that are of rfnb."""
    for name in dir(type(instance)):
        plain = inspect.getattr_static(type(instance), name)
        plain = getattr(plain, "__func__", plain)
        public = not name.startswith("_") or name == "__call__"
        if public and isinstance(plain, types.FunctionType) and plain.__module__.startswith("rfnb."):
            yield name


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


def hints_of_call(called):
    """The types of the parameters of a function, or of what a class is made with."""
    if isinstance(called, type):
        called = called.__new__ if called.__init__ is object.__init__ else called.__init__
    return hints_of(getattr(called, "__func__", called))


def calls_of(value):
    """(what is wrong, a function that makes the call of what it gets, the type that its argument is not of)."""
    signature = inspect.signature(value)
    parameters = [each for each in signature.parameters.values() if each.kind is not each.VAR_KEYWORD]
    named = [each for each in parameters if each.kind not in (each.POSITIONAL_ONLY, each.VAR_POSITIONAL)]
    needed = {each.name: likely(each) for each in named if each.default is each.empty}
    first = [likely(each) for each in parameters if each.kind is each.POSITIONAL_ONLY and each.default is each.empty]
    yield "no arguments", lambda called: called(), None
    yield "an unknown keyword", lambda called: called(*first, **needed, no_such_keyword=1), None
    hints = hints_of_call(value)
    for each in named:
        hint = hints.get(each.name, object)
        for kind, wrong in WRONG.items():
            given = {**needed, each.name: wrong}
            yield (
                f"{each.name}={kind}",
                lambda called, given=given: called(*first, **given),
                None if fits(wrong, hint) else hint,
            )


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


def made(path, value, share, of=lambda value: value, make=None):
    """(what is wrong, how it ended, the error) of a share of the calls, always the same ones, with those that bring no values. `value` is
    what is called, or what has it; that is made anew behind a call which may have changed it."""
    draw = random.Random(path)
    for what, call, not_of in calls_of(of(value)):
        if "=" in what and draw.random() >= share:
            continue
        try:
            contextvars.copy_context().run(call, of(value))  # a block that it opens is of this context
            yield what, "fine" if not_of is None else "accepted", not_of
            value = make() if make is not None else value
        except Exception as error:
            yield what, verdict(error), error
        finally:
            rf.set_default_device(None)
            rf.set_amp_policy(None)
            rf.set_default_float_dtype("float32")
            rf.select_backend_torch()


def made_of_methods(share):
    """(path, what is wrong, how it ended, the error) of calls of methods."""
    for name, make in INSTANCES.items():
        value = make()
        for method in methods(value):
            path = f"{name}.{method}"
            if path in LEFT_OUT:
                continue
            for end in made(path, value, share, of=lambda value, method=method: getattr(value, method), make=make):
                yield path, *end
            value = make()


def made_of_functions(share):
    """The same of functions and classes."""
    for path, value in public():
        for end in made(path, value, share):
            yield path, *end


RAISE = next(code for name, code in __import__("dis").opmap.items() if name == "RAISE_VARARGS")


def main(share="1.0", what="functions"):
    """Make a share of all calls, and print those that end raw, and how many ended how."""
    ends = Counter()
    warnings.simplefilter("ignore")
    with contextlib.redirect_stdout(io.StringIO()):  # views are drawn where they are shown
        found = list((made_of_methods if what == "methods" else made_of_functions)(float(share)))
    for path, wrong, end, error in found:
        ends[end] += 1
        if end == "raw" or end in SHOWN:
            print(path, wrong, type(error).__name__, str(error).partition("\n")[0], sep=" | ")
        elif end == "accepted":
            print(
                "accepted",
                path,
                wrong,
                str(error).replace("rfnb.core.dim.", "").replace("rfnb.core.tensor.", ""),
                sep=" | ",
            )
    print(json.dumps(ends))


SHOWN = ()
if __name__ == "__main__":
    main(*sys.argv[1:])
