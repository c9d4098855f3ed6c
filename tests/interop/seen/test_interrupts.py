"""An interrupt at any instruction of what patches a model of torch, or sets something for a with-block: all is as it was, in the model, its
classes and its copies.

RFNB_SEED=7 interrupts at other instructions, RFNB_INTERRUPTS=400 at more of them, RFNB_ALL=1 at all of them.
"""

import contextlib
import copy
import io
import os
import pickle
import warnings
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from interrupting import Interrupts, instructions
from seed import ALL, SEED
from torch import nn
from torch.nn import functional as F
from torch.nn.utils import clip_grad
from torch.optim.swa_utils import AveragedModel

import rfnb as rf
from rfnb.interop.seen import attach, calls, function_calls, generate, replacements, snapshot
from rfnb.interop.seen.replacements import InPlace
from rfnb.interop.watch.watch import _watched
from rfnb.nn.run import run_ctx
from rfnb.trace import probe

SETTINGS = function_calls._in_model, function_calls._unheard, function_calls._running, snapshot.attached
HITS = 10**9 if ALL else int(os.environ.get("RFNB_INTERRUPTS", "60"))
ALSO = (contextlib.__file__,)


class Own(nn.Linear):
    """A module that has a forward of its own."""

    def __init__(self):
        super().__init__(4, 4)
        self.forward = lambda x: nn.Linear.forward(self, x) + 1


def model():
    torch.manual_seed(1)
    layer = nn.TransformerEncoderLayer(4, 2, 8, batch_first=True)
    return nn.Sequential(nn.TransformerEncoder(layer, 1, enable_nested_tensor=False), Own(), nn.Linear(4, 2)).eval()


MODEL, X = model(), torch.randn(2, 3, 4)
OPTIMIZER = torch.optim.SGD(MODEL.parameters(), lr=0.0)
EXPECTED = MODEL(X)


def state():
    """The state that may be left behind."""
    kinds = {type(module) for module in MODEL.modules()}
    tables = [
        attach._forwards,
        function_calls._replaced,
        generate._replaced,
        *(replaced for replaced, _ in function_calls._others),
    ]
    return {
        "instances": [{key: id(value) for key, value in vars(module).items() if callable(value)} for module in MODEL.modules()],
        "classes": {kind: kind.__dict__.get("forward") for kind in kinds}, "modes": [module.training for module in MODEL.modules()],
        "hooks": [len(module._forward_hooks) + len(module._forward_pre_hooks) for module in MODEL.modules()],
        "steps": len(OPTIMIZER._optimizer_step_pre_hooks) + len(OPTIMIZER._optimizer_step_post_hooks),
        "clipping": clip_grad._clip_grads_with_norm_, "functional": [F.relu, torch.relu, torch.Tensor.relu],
        "functions": [getattr(owner, name) for owner, name in function_calls._handlers], "tables": [len(table._put) for table in tables],
        "methods": len(replacements.methods._put), "recordings": len(probe._open), "listeners": probe._listeners.get(),
        "place": probe.trace_context.place,
        "names": attach._names.get(), "run": rf.get_run_ctx(), "flags": run_ctx._flags.get(), "dtype": rf.get_default_float_dtype(),
        "device": rf.get_default_device(), "backward": torch.autograd.backward, "gradients": torch.is_grad_enabled(),
        "running": [variable.get() for variable in (calls._current, *SETTINGS)], "function modes": torch._C._len_torch_function_stack(),
    }  # fmt: skip


def recorded():
    with rf.record(model=MODEL, values=True, graph=True):
        MODEL(X)


def twice():
    with rf.record(model=MODEL), rf.record(model=MODEL[0], kinds="attention"):
        MODEL(X)


def watched():
    MODEL.train()
    try:
        with rf.watch(MODEL, OPTIMIZER, activations=2, updates=2) as watch:
            for _ in range(2):
                MODEL(X).sum().backward()
                OPTIMIZER.step()
                watch.log(loss=1.0)
    finally:
        MODEL.eval()
        MODEL.zero_grad()


def debugged():
    with rf.debug():
        rf.relu(rf.zeros([rf.Dim(3, name="a")]))


class Layer(rf.Module):
    """A layer of rf that is used as one of torch."""

    def __init__(self, in_dim):
        super().__init__()
        self.linear = rf.Linear(in_dim, rf.Dim(2, name="out"))

    def __call__(self, x):
        return self.linear(x)


LAYER = rf.as_torch(Layer(rf.Dim(4, name="in")), inputs="batch time in")


def as_torch():
    LAYER(X).sum().backward()
    LAYER.zero_grad()


CTX = rf.get_run_ctx()


def settings():
    with rf.set_default_float_dtype_ctx("float64"), rf.set_default_device_ctx("cpu"), CTX.train_flag_ctx(True):
        rf.zeros([])


RUNS = {
    "record": recorded,
    "record twice": twice,
    "settings": settings,
    "watch": watched,
    "debug": debugged,
    "as_torch": as_torch,
}


@pytest.mark.parametrize("name", RUNS)
@pytest.mark.filterwarnings("ignore")
def test_an_interrupt_before_any_instruction_leaves_a_model_as_it_was(name):
    run = RUNS[name]
    for _ in range(3):  # what is made once is there
        run()
    before = state()
    seen = instructions(run, ALSO)
    ends = [
        at
        for at, file in enumerate(seen)
        if file.endswith(("core/block.py", "seen/replacements.py", "seen/in_place.py", "contextlib.py"))
    ]
    for numbers in (ends, range(len(seen))):
        stride = max(len(numbers) // HITS, 1)
        for at in numbers[SEED % stride :: stride]:
            interrupts = Interrupts(at, ALSO)
            interrupts.run(run)
            if name == "watch" and interrupts.place and interrupts.place.startswith(("Exit.__get__", "watch,")):
                # It watches already, since it may be used without `with`, and its with-block has not been entered yet.
                [watch.close() for each in list(_watched.values()) if (watch := each())]
            assert state() == before, interrupts.place
    assert torch.equal(MODEL(X), EXPECTED)
    with ThreadPoolExecutor(1) as pool:
        pool.submit(run).result()  # no lock is left behind


@pytest.mark.parametrize(
    "read",
    [
        lambda module: torch.fx.symbolic_trace(module),
        lambda module: torch.export.export(module, (X,)).module(),
        lambda module: torch.jit.trace(module, X),
        lambda module: torch.compile(module, backend="eager"),
        lambda module: torch.ao.quantization.quantize_dynamic(module, {nn.LSTM}),
    ],
    ids=["fx", "export", "jit.trace", "compile", "quantization"],
)
@pytest.mark.filterwarnings("ignore")
def test_what_reads_the_code_of_a_model_reads_it_while_it_is_recorded(read):
    module = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), Plain(4, 2)).eval()
    expected = module(X)
    with rf.record(model=module) as trace:
        made = read(module)
        count = len(trace.events)
        assert torch.equal(module(X), expected) and len(trace.events) > count
    assert torch.allclose(made(X), expected)
    assert not any(isinstance(vars(each).get("forward"), InPlace) for each in made.modules())


def ways(module):
    """A module, copied in every way that there is."""
    buffer, ema = io.BytesIO(), AveragedModel(module)
    torch.save(module, buffer)
    buffer.seek(0)
    ema.update_parameters(module)
    return {
        "deepcopy": copy.deepcopy(module), "copy": copy.copy(module), "pickle": pickle.loads(pickle.dumps(module)),
        "torch.save": torch.load(buffer, weights_only=False), "average": ema.module, "part": copy.deepcopy(module[0]),
    }  # fmt: skip


class Plain(nn.Linear):
    """A module of a class of the user."""


@pytest.mark.parametrize("around", ["record", "watch", "both"])
def test_copies_of_a_model_that_is_recorded_carry_nothing(around):
    module = nn.Sequential(nn.Sequential(Plain(4, 4), nn.ReLU()), nn.LSTM(4, 3, batch_first=True))
    expected, keys = module(X)[0], module.state_dict().keys()
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
    with contextlib.ExitStack() as stack:
        if around != "watch":
            trace = stack.enter_context(rf.record(model=module))
        if around != "record":
            stack.enter_context(rf.watch(module, optimizer))
        made = ways(module)
        module.to("cpu").share_memory()
        assert module.state_dict().keys() == keys
        count = len(trace.events) if around != "watch" else 0
        for name, each in made.items():
            if name not in ("part", "copy"):  # a shallow copy has the very modules
                assert torch.equal(each(X)[0], expected), name
        assert around == "watch" or len(trace.events) == count, "a copy is recorded"
    for name, each in {**made, "module": module}.items():
        assert [key for part in each.modules() for key in ("forward", "generate") if key in vars(part)] == [], name
    assert all(
        "forward" not in vars(kind) or kind.forward is kind.__dict__["forward"] for kind in (Plain, nn.Sequential)
    )
    assert "forward" not in vars(Plain)


def test_recordings_that_end_in_another_order_leave_nothing():
    module = nn.Sequential(Plain(4, 4), nn.ReLU())
    before = {kind: vars(kind).get("forward") for kind in (Plain, nn.Sequential, nn.ReLU)}
    for order in ((0, 1, 2), (0, 2, 1), (1, 0, 2), (1, 2, 0), (2, 0, 1), (2, 1, 0)):
        optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
        open_ = [rf.record(model=module), rf.watch(module, optimizer), rf.record(model=module[0])]
        for each in open_:
            each.__enter__()
        module(X)
        for number in order:
            open_[number].__exit__(None, None, None)
            module(X)
        assert {kind: vars(kind).get("forward") for kind in before} == before, order
        assert not any("forward" in vars(part) for part in module.modules()), order


def test_other_instances_of_a_class_are_not_recorded():
    module, other = Plain(4, 4), Plain(4, 4)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with rf.record(model=module) as trace:
            other(X)
            assert not trace.events
            module(X)
            assert [event.kind for event in trace.events] == ["module"]
