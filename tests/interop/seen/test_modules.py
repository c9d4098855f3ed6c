"""The calls of torch modules as events: with values, compared by rf.diff, with what raises, and whatever else is done with a model."""

from __future__ import annotations

import contextvars
import copy
import io
import sys
import threading
import warnings

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

import rfnb as rf
from rfnb.interop.torch_module import pt_module_to_rf_module, rf_module_to_pt_module


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(1)


class Model(nn.Module):
    """Embedding, LSTM, a residual that is changed in place, a product."""

    def __init__(self):
        super().__init__()
        self.embedding, self.lstm = nn.Embedding(11, 8), nn.LSTM(8, 8, batch_first=True)
        self.act, self.out = nn.ReLU(inplace=True), nn.Linear(8, 5)

    def forward(self, ids):
        x = self.embedding(ids)
        x = x + self.lstm(x)[0]
        return self.out(self.act(x))


def ids():
    return torch.randint(0, 11, (3, 7), generator=torch.Generator().manual_seed(1))


def wrapped(model):
    return [name for name, module in model.named_modules() if "forward" in vars(module)]


def paths(trace):
    return [event.path for event in trace.select(kind="module")]


def test_events_say_class_inputs_and_outputs():
    model = Model()
    with rf.record(model=model) as trace:
        model(ids())
    (event,) = trace.modules["lstm"]
    assert event.values["module"] == "LSTM" and [name for name, _ in event.values["inputs"]] == ["input"]
    assert [name for name, _ in event.values["outputs"]] == ["0", "1.0", "1.1"]
    assert [dim.short_repr() for dim in event.values["outputs"][1][1].dims] == ["layer=1", "batch=3", "feature=8"]
    assert paths(trace) == ["embedding", "lstm", "act", "out", ""]


def test_a_call_that_raises_says_so():
    model = Model()
    with rf.record(model=model) as trace, pytest.raises(IndexError):
        model(ids() + 11)
    assert [(event.path, event.values["raised"]) for event in trace.select(kind="module")] == [
        ("embedding", "IndexError"),
        ("", "IndexError"),
    ]
    assert not wrapped(model)


def test_values_are_those_that_were_returned_also_if_they_are_changed_later():
    model = Model()
    sums = {}
    model.embedding.register_forward_hook(lambda module, args, result: sums.__setitem__("embedding", result.clone()))
    model.lstm.register_forward_hook(lambda module, args, result: sums.__setitem__("lstm", result[0].clone()))
    with rf.record(model=model, values=True) as trace:
        out = model(ids())
        with torch.no_grad():
            out.zero_()
    for path in ("embedding", "lstm"):
        assert torch.equal(trace.modules[path][0].values["outputs"][0][1].raw_tensor, sums[path])
    assert trace.modules["out"][0].values["outputs"][0][1].raw_tensor.abs().sum() > 0


def test_a_result_that_is_returned_again_is_kept_once():
    model = nn.Sequential(nn.Identity(), nn.Linear(4, 4), nn.Identity())
    with rf.record(model=model, values=True) as trace:
        model(torch.randn(3, 4))
    kept = {trace.modules[path][0].values["outputs"][0][1].raw_tensor.data_ptr() for path in ("1", "2")}
    assert len(kept) == 1


def test_two_checkpoints_differ_first_where_their_weights_do():
    model, other = Model(), Model()
    other.load_state_dict(model.state_dict())
    with torch.no_grad():
        other.lstm.weight_hh_l0[0, 0] += 0.5
    traces = []
    for each in (model, other):
        with rf.record(model=each, kinds="module", values=True) as trace:
            each(ids())
        traces.append(trace)
    assert rf.diff(traces[0], traces[0]).same
    found = rf.diff(*traces)
    assert found.first.path == "lstm" and "embedding" not in {row.path for row in found.rows if row.differs}


def test_half_precision_differs_within_its_own_precision():
    model = Model()
    half = copy.deepcopy(model).bfloat16()
    traces = []
    for each in (model, half):
        with rf.record(model=each, kinds="module", values=True) as trace:
            each(ids())
        traces.append(trace)
    found = rf.diff(*traces)
    assert found.dtypes
    assert rf.diff(*traces, tolerance=0.1).same


def test_flow_draws_the_calls_of_modules():
    model = Model()
    with rf.record(model=model, ops=True) as trace:
        model(ids())
    text = rf.viz.flow(trace).text()
    assert "lstm" in text and "embedding" in text
    by_path = {event.path: event.values for event in trace.select(kind="module")}
    assert by_path["embedding"]["writes"] == by_path["lstm"]["reads"][:1]  # the same tensor


# -- nothing changes ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [{}, {"values": True}, {"ops": True}, {"kinds": "states"}])
def test_results_gradients_and_random_numbers_are_the_same(options):
    def run(model):
        torch.manual_seed(3)
        out = nn.functional.dropout(model(ids()), 0.3)
        out.square().sum().backward()
        return [out, torch.get_rng_state(), *(parameter.grad for parameter in model.parameters())]

    model = Model()
    plain = run(model)
    model.zero_grad()
    state = list(model.state_dict())
    with rf.record(model=model, **options):
        seen = run(model)
        assert list(model.state_dict()) == state
    for a, b in zip(plain, seen):
        assert torch.equal(a, b)
    assert not wrapped(model)


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_values_are_those_of_the_call_where_a_caller_changes_them_and_returns_them_again(mode):
    class Adds(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = nn.Identity()

        def forward(self, x):
            return self.inner(x + 1).add_(10)

    model = Adds()
    with rf.record(model=model, values=True) as trace, mode():
        model(torch.zeros(2))
    made = {event.path: event.values["outputs"][0][1].raw_tensor.tolist() for event in trace.events}
    assert made == {"inner": [1, 1], "": [11, 11]}


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode, lambda: torch.autocast("cpu", torch.bfloat16)])
def test_in_modes_of_torch(mode):
    model = Model()
    with mode():
        plain = model(ids())
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            with rf.record(model=model, values=True) as trace:
                seen = model(ids())
    assert torch.equal(plain, seen) and set(trace.states["lstm"]) > {"h", "c"}


def test_hooks_of_the_user_run_once_and_see_what_they_did():
    model, seen = Model(), []
    model.out.register_forward_hook(lambda module, args, result: seen.append(result) or result * 2)
    model.out.register_forward_pre_hook(lambda module, args: (args[0] + 1,))
    plain = model(ids())
    with rf.record(model=model, values=True) as trace:
        result = model(ids())
    assert len(seen) == 2 and torch.equal(result, plain)
    assert torch.equal(trace.modules["out"][0].values["outputs"][0][1].raw_tensor, seen[1])


def test_checkpointed_calls_are_seen_once():
    class Checkpointed(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = Model()

        def forward(self, ids):
            return checkpoint(self.inner, ids, use_reentrant=False)

    model = Checkpointed()
    with rf.record(model=model) as trace:
        model(ids()).sum().backward()
    assert paths(trace).count("inner.lstm") == 1
    assert trace.states.num_runs("inner.lstm") == 1


def test_a_wrapper_around_a_model_is_seen_through(monkeypatch):
    # The model is on the host: with an accelerator, which a simulated device is too, torch would want it there.
    monkeypatch.setattr(sys.modules["torch.nn.parallel.data_parallel"], "_get_available_device_type", lambda: None)
    model = nn.DataParallel(Model())
    with rf.record(model=model) as trace:
        model(ids())
    assert "module.lstm" in paths(trace)


def test_shared_modules_have_their_first_path_and_recursion_is_no_matter():
    class Twice(nn.Module):
        def __init__(self):
            super().__init__()
            self.first = nn.Linear(4, 4)
            self.second = self.first

        def forward(self, x, depth=2):
            return self(self.second(self.first(x)), depth - 1) if depth else x

    model = Twice()
    with rf.record(model=model, dims={"second": "batch inner"}) as trace:
        model(torch.randn(3, 4))
    assert paths(trace) == ["first"] * 4 + [""] * 3
    assert trace.modules["first"][0].values["outputs"][0][1].dims[1].name == "inner"


def test_forward_that_is_called_directly_is_seen():
    class Direct(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = nn.Linear(4, 4)

        def forward(self, x):
            return self.inner.forward(x)

    model = Direct()
    with rf.record(model=model) as trace:
        model(torch.randn(3, 4))
    assert paths(trace) == ["inner", ""]


def test_a_copy_that_is_made_meanwhile_is_a_plain_model():
    model = Model()
    with rf.record(model=model) as trace:
        other = copy.deepcopy(model)
        file = io.BytesIO()
        torch.save(model, file)
        file.seek(0)
        loaded = torch.load(file, weights_only=False)
        for each in (other, loaded):
            assert torch.equal(each(ids()), model(ids()))
    assert paths(trace).count("lstm") == 2
    other.out.weight.data.zero_()
    assert not torch.equal(other(ids()), model(ids()))


def test_modules_that_are_put_in_meanwhile_are_said():
    model = Model()
    with pytest.warns(UserWarning) as said, rf.record(model=model) as trace:
        model(ids())
        model.out = nn.Linear(8, 2)
        model.extra = nn.Identity()
        model(ids())
    assert [str(each.message) for each in said] == [
        "record: modules were added to the model during the recording; their calls are not in the trace.\n"
        "  modules  out, extra\n"
        "The modules of a model are collected when the recording begins. Add them before:\n"
        "    with rf.record(model=model) as trace: model(x)"
    ]
    assert len(trace.modules["out"]) == 1 and not wrapped(model)


def test_a_thread_that_does_not_record_goes_straight_through():
    model, results = Model(), {}
    with rf.record(model=model) as trace:
        plain = threading.Thread(target=lambda: results.__setitem__("plain", model(ids())))
        heard = threading.Thread(
            target=contextvars.copy_context().run, args=(lambda: results.__setitem__("heard", model(ids())),)
        )
        for thread in (plain, heard):
            thread.start()
            thread.join()
    assert torch.equal(results["plain"], results["heard"])
    assert paths(trace).count("lstm") == 1


def test_vmap_and_function_transforms_run_unseen():
    model = nn.Sequential(nn.Linear(4, 5), nn.Tanh())
    x = torch.randn(6, 3, 4)
    plain = torch.func.vmap(model)(x)
    with pytest.warns(UserWarning) as said, rf.record(model=model) as trace:
        seen = torch.func.vmap(model)(x)
        torch.func.functional_call(model, dict(model.named_parameters()), (x,))
        jacobian = torch.func.jacrev(model)(x[0, 0])
    assert [str(each.message) for each in said] == [
        "record: a call under torch.func (vmap, grad, jacrev, ...) is not recorded; it runs as usual.\n"
        "  module  the model\n"
        "Its tensors exist only inside the transform. Without it the same call is recorded:\n"
        "    with rf.record(model=model) as trace: model(x)"
    ]
    assert torch.equal(plain, seen) and jacobian.shape == (5, 4)
    assert paths(trace) == ["0", "1", ""]


def test_a_scripted_module_says_what_is_missing():
    model = Model()
    scripted = torch.jit.script(nn.Linear(4, 4))
    with pytest.warns(UserWarning) as said, rf.record(model={"model": model, "scripted": scripted}) as trace:
        model(ids())
        scripted(torch.randn(3, 4))
    assert [str(each.message) for each in said if "record" in str(each.message)] == [
        "record: this module cannot be recorded; the run continues, and the rest is recorded.\n"
        "  module  scripted, a RecursiveScriptModule\n"
        "Scripted code does not run in Python. Record the original module:\n"
        "    rf.record(model=module)    # before torch.jit.script(module)"
    ]
    assert "lstm" in "".join(paths(trace))


def test_a_compiled_module_says_which_one_to_record():
    compiled = torch.compile(nn.Sequential(nn.Linear(4, 4)), backend="eager")
    with pytest.warns(UserWarning) as said, rf.record(model=compiled) as trace:
        compiled(torch.randn(3, 4))
    assert [str(each.message) for each in said if "record" in str(each.message)] == [
        "record: this module cannot be recorded; the run continues, and the rest is recorded.\n"
        "  module  the model, a OptimizedModule\n"
        "torch.compile runs compiled code in its place. Record and call the module itself, which has the same weights:\n"
        "    with rf.record(model=model._orig_mod) as trace: model._orig_mod(x)"
    ]
    assert not trace.select(kind="module")
    with rf.record(model=compiled._orig_mod) as trace:
        compiled._orig_mod(torch.randn(3, 4))
    assert paths(trace) == ["0", ""]


def test_a_module_whose_compiled_code_is_called_is_seen_as_a_whole():
    """A part that was compiled before must not be left out, nor be compiled anew by each recording."""
    graphs = []

    def backend(graph, examples):
        graphs.append(graph)
        return graph.forward

    layer = nn.TransformerEncoderLayer(4, 2, 8, dropout=0.0, batch_first=True)
    model = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
    compiled, x = torch.compile(model, backend=backend), torch.randn(2, 3, 4)
    wanted = compiled(x)
    made = len(graphs)
    for _ in range(9):  # torch gives up after 8
        with rf.record(model=model) as trace:
            output = compiled(x)
        assert list(trace.attention) == ["layers.0.self_attn", "layers.1.self_attn"]
        torch.testing.assert_close(output, wanted)
    compiled(x)
    assert len(graphs) == made


def test_quantised_modules_say_what_is_missing():
    model = nn.Sequential(torch.ao.nn.quantized.dynamic.Linear(4, 5))
    with pytest.warns(UserWarning) as said, rf.record(model=model) as trace:
        model(torch.randn(3, 4))
    assert [str(each.message) for each in said if "record" in str(each.message)] == [
        "record: only the calls of quantised modules are recorded.\n"
        "  module  0, a Linear\n"
        "Their weights are integer codes: the trace has dims of inputs and outputs, but no states or gates. Record the original:\n"
        "    rf.record(model=model)"
    ]
    assert paths(trace) == ["0", ""]


def test_modules_of_rf_in_torch_and_of_torch_in_rf_are_seen():
    batch, feature, out = rf.Dim(3, name="batch"), rf.Dim(4, name="feature"), rf.Dim(5, name="out")

    class Inner(rf.Module):
        def __init__(self):
            self.linear = rf.Linear(feature, out)

        def __call__(self, x):
            return self.linear(x)

    class Outer(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.inner = nn.Linear(4, 4), rf_module_to_pt_module(Inner())

        def forward(self, x):
            return self.inner(rf.convert_to_tensor(self.first(x), dims=[batch, feature]))

    model = Outer()
    with rf.record(model=model) as trace:
        model(torch.randn(3, 4))
    assert {"first", "inner.linear"} <= set(paths(trace))

    class Around(rf.Module):
        def __init__(self):
            self.part = pt_module_to_rf_module(nn.Sequential(nn.Linear(4, 5), nn.Tanh()))

        def __call__(self, x):
            return rf.convert_to_tensor(self.part(x.raw_tensor), dims=[batch, out])

    around = Around()
    with rf.record(model=around) as trace:
        around(rf.convert_to_tensor(torch.randn(3, 4), dims=[batch, feature]))
    assert {"part.0", "part"} <= set(paths(trace))
