"""torch.export, torch.compile and torch.jit.trace of models of rfnb: the same values, and a model that is as it was before."""

import pytest
import torch
from asserting import raises_message

import rfnb as rf
from rfnb import Dim
from rfnb.nn.run import run_ctx

A, B, MODEL, VOCAB = Dim(3, name="a"), Dim(5, name="b"), Dim(8, name="model"), Dim(11, name="vocab")
IDS = rf.Tensor("ids", [Dim(None, name="batch"), Dim(None, name="time")], "int64", sparse_dim=VOCAB)


class Looped(rf.Module):
    """A recurrence that is written out as a loop."""

    def __init__(self, recorded):
        self.in_dim, self.recorded, self.cell = A, recorded, rf.Linear(A, A.copy(match_priority=1))

    def __call__(self, x: rf.Tensor, *, time: Dim) -> rf.Tensor:
        loop = rf.Loop(axis=time)
        loop.state.h = rf.zeros([*x.remaining_dims(time)])

        def step():
            new, _ = rf.replace_dim(self.cell(loop.unstack(x) + loop.state.h), in_dim=self.cell.out_dim, out_dim=A)
            loop.state.h = rf.tanh(new)
            return loop.stack(loop.state.h)

        if self.recorded:
            with loop:
                out = step()
            return out
        for _ in loop:
            out = step()
        return out


def floats(*shape):
    return lambda: torch.randn(2, 9, *shape)


def labels():
    return torch.randint(0, 11, (2, 9))


def attention():
    return rf.SelfAttention(MODEL, proj_dim=MODEL, key_dim_total=MODEL, value_dim_total=MODEL, num_heads=2)


def conformer():
    return rf.ConformerEncoder(A, MODEL, num_layers=1, num_heads=2, input_layer=None)


FEATURES = "batch time in_dim"
MODELS = {
    "linear": (lambda: rf.as_torch(rf.Linear(A, B), FEATURES), floats(3)),
    "layer norm": (lambda: rf.as_torch(rf.LayerNorm(A), FEATURES), floats(3)),
    "embedding": (lambda: rf.as_torch(rf.Embedding(VOCAB, MODEL), IDS), labels),
    "conv": (lambda: rf.as_torch(rf.Conv1d(A, B, 3, padding="same"), FEATURES), floats(3)),
    "batch norm": (lambda: rf.as_torch(rf.BatchNorm(A), FEATURES), floats(3)),
    "attention": (lambda: rf.as_torch(attention(), ["batch", "time", MODEL]), floats(8)),
    "lstm": (lambda: rf.as_torch(rf.LSTM(A, B), FEATURES), floats(3)),
    "transformer": (lambda: rf.as_torch(rf.TransformerEncoder(VOCAB, MODEL, num_layers=2, num_heads=2), IDS), labels),
    "conformer": (lambda: rf.as_torch(conformer(), ["batch", "time", A]), floats(3)),
    "loop": (lambda: rf.as_torch(Looped(False), FEATURES), floats(3)),
    "recorded loop": (lambda: rf.as_torch(Looped(True), FEATURES), floats(3)),
}


@pytest.fixture(autouse=True)
def fresh():
    rf.set_random_seed(1)
    torch.manual_seed(1)
    before = run_ctx._current.get()
    run_ctx._current.set(run_ctx._INIT)
    yield
    run_ctx._current.set(before)


def first(result):
    return result[0] if isinstance(result, tuple) else result


@pytest.mark.parametrize("name", MODELS)
def test_a_model_exports_with_its_parameters_and_is_as_it_was(name):
    make, data = MODELS[name]
    pt, x = make().eval(), data()
    program = torch.export.export(pt, (x,), strict=False)  # before any other call: what this one makes is not kept
    other = data()
    wanted = first(pt(other))
    assert type(wanted) is torch.Tensor
    torch.testing.assert_close(first(program.module()(other)), wanted)
    assert set(program.state_dict) == set(pt.state_dict())
    assert set(program.graph_signature.parameters) == {parameter for parameter, _ in pt.named_parameters()}
    assert wanted.requires_grad


def test_an_exported_program_is_stored_and_loaded(tmp_path):
    make, data = MODELS["transformer"]
    pt, x = make().eval(), data()
    torch.export.save(torch.export.export(pt, (x,), strict=False), tmp_path / "model.pt2")
    torch.testing.assert_close(torch.export.load(tmp_path / "model.pt2").module()(x), pt(x))


def test_a_program_is_for_the_sizes_that_it_was_exported_with():
    make, data = MODELS["linear"]
    with raises_message(
        ValueError,
        """
        as_torch: batch of an exported program has no size.
          axis  batch, marked as dynamic
        The sizes of dims are numbers of the program, so a program is for the sizes that it was exported with. Export one for each:
            torch.export.export(module, (x,), strict=False)    # without dynamic_shapes
        """,
    ):
        torch.export.export(make(), (data(),), dynamic_shapes={"args": ({0: torch.export.Dim("n")},)}, strict=False)
    program = torch.export.export(make(), (data(),), strict=False)
    with pytest.raises(AssertionError, match="Guard failed|expected"):
        program.module()(torch.randn(4, 9, 3))


LENGTHS_REFUSED = """
    as_torch: lengths in an exported or traced program.
      lengths  of time
    Lengths are numbers that the model reads on the host; the program would always have those of this call. Export it for
    whole arrays:
        torch.export.export(module, (x,), strict=False)
    """


@pytest.mark.filterwarnings("ignore")
def test_lengths_in_a_program_are_refused():
    make, data = MODELS["conv"]
    given = data(), torch.tensor([9, 4])
    with raises_message(ValueError, LENGTHS_REFUSED):
        torch.export.export(make(), given, strict=False)
    with raises_message(ValueError, LENGTHS_REFUSED):
        torch.jit.trace(make(), given)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ["linear", "transformer", "recorded loop"])
def test_a_trace_of_torch_computes_the_same_for_the_same_sizes(name):
    make, data = MODELS[name]
    pt = make().eval()
    # Without the comparison of two traces: in the second one plans and programs of loops are there already, so its graph is shorter.
    traced = torch.jit.trace(pt, (data(),), check_trace=False)
    x = data()
    torch.testing.assert_close(traced(x), pt(x))


@pytest.mark.filterwarnings("ignore")
def test_a_compiled_module_follows_lengths_sizes_and_eval():
    make, data = MODELS["lstm"]
    pt = make()
    torch._dynamo.reset()
    compiled = torch.compile(pt, backend="eager")
    try:
        for size, lengths in [(2, None), (2, [9, 4]), (3, [1, 9, 5]), (3, torch.tensor([9, 9, 2])), (2, None)]:
            x = torch.randn(size, 9, 3)
            given = (x,) if lengths is None else (x, lengths)
            torch.testing.assert_close(first(compiled(*given)), first(pt(*given)))
        first(compiled(x)).sum().backward()
        assert all(parameter.grad is not None for parameter in pt.parameters())
    finally:
        torch._dynamo.reset()


@pytest.mark.filterwarnings("ignore")
def test_scripting_is_refused():
    make, _ = MODELS["linear"]
    with raises_message(
        TypeError,
        """
        torch.jit.script: a module of rfnb.
          module  Linear[rf]
        It compiles the source of a module, which has to be a subset of Python. Programs are made by watching a call:
            torch.export.export(module, (x,), strict=False)
        """,
    ):
        torch.jit.script(torch.nn.Sequential(make()))
