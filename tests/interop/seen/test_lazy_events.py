"""Events of module calls are made when somebody looks: they are those that a subscriber hears in the call, and none is lost."""

import pickle
import warnings
from functools import partial

import pytest
import torch
from interop.seen import fourth_models, second_models, third_models, written_loop_models, written_models
from torch import nn

import rfnb as rf
from rfnb.core.tree import values_in

OF_TORCH = {
    "encoder": lambda: (
        nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), 2, enable_nested_tensor=False),
        (torch.randn(3, 5, 8),),
    ),
    "lstm": lambda: (nn.LSTM(4, 6, 2, bidirectional=True), (torch.randn(5, 3, 4),)),
    "equal sizes": lambda: (nn.Sequential(nn.Linear(5, 5), nn.Tanh(), nn.Linear(5, 5)), (torch.randn(5, 5, 5),)),
    "in place": lambda: (
        nn.Sequential(nn.Conv1d(4, 8, 3), nn.ReLU(inplace=True), nn.Flatten(), nn.Linear(48, 5), nn.LogSoftmax(-1)),
        (torch.randn(2, 4, 8),),
    ),
    "doubles": lambda: (nn.Sequential(nn.Linear(4, 4), nn.LayerNorm(4)).double(), (torch.randn(3, 4).double(),)),
    "complex": lambda: (nn.Sequential(nn.Identity(), nn.Identity()), (torch.randn(3, 4, dtype=torch.complex64),)),
}
WRITTEN = {
    f"{kind.__name__} {at}": (lambda k=kind, i=inputs: (k(), i()))
    for at, (kind, inputs) in enumerate(written_models.POSITIVE)
}


def of_second(kind):
    model = kind()
    return model, (
        torch.randn(getattr(model, "shape", (second_models.BATCH, second_models.TIME, second_models.WIDTH))),
    )


SECOND = {kind.__name__: partial(of_second, kind) for kind in second_models.POSITIVE + second_models.NEGATIVE}
LOOPS = {
    kind.__name__: lambda kind=kind: (
        kind(),
        (torch.randn(written_loop_models.BATCH, written_loop_models.TIME, written_loop_models.WIDTH),),
    )
    for kind in written_loop_models.RECURRENCES + written_loop_models.OTHERS
}
THIRD = third_models.MODELS | third_models.NEGATIVES | fourth_models.MODELS | fourth_models.NEGATIVES
MODELS = {**OF_TORCH, **WRITTEN, **SECOND, **LOOPS, **THIRD}


def recorded(make, **options):
    """The recording of three calls, and of the same that a subscriber hears."""
    traces = []
    for heard in (None, []):
        torch.manual_seed(2)
        model, inputs = make()
        named = inputs if isinstance(inputs, dict) else {}
        inputs = () if named else inputs
        again = [each.clone() if isinstance(each, torch.Tensor) else each for each in inputs]
        fresh = {name: raw.clone() for name, raw in named.items()}
        torch.manual_seed(3)
        with rf.record(model=model, **options) as trace, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if heard is not None:
                trace.subscribe(heard.append)
            for given, others in ((inputs, named), (inputs, named), (again, fresh)):
                model(*given, **others)
        assert heard is None or heard == trace.events
        traces.append(trace)
    return traces


def numbered(trace):
    """The events with calls and steps numbered from 1, in the order of the events: else the numbers are those of the process."""
    for name in ("call", "entry"):
        known = {0: 0}
        for event in trace.events:
            setattr(event, name, known.setdefault(getattr(event, name), len(known)))
    return trace.events


def written(trace, path):
    numbered(trace)
    trace.save(path)
    return path.read_bytes()


def said(trace):
    """All of a trace but its values."""
    return [
        (event.index, event.kind, event.path, event.step, event.steps, event.module, event.call, event.entry)
        + (event.depth, event.num_bytes, list(event.values))
        for event in numbered(trace)
    ], [
        (dim.name, dim.kind, dim.guessed, dim.size)
        for event in trace.events
        for leaf in values_in(dict(event.values))
        if isinstance(leaf, rf.Tensor)
        for dim in leaf.dims
    ]


@pytest.mark.parametrize("name", MODELS)
def test_events_are_those_that_are_heard_in_the_call(name, tmp_path):
    later, now = recorded(MODELS[name], values=True)
    assert repr(later) == repr(now) and later.num_bytes == now.num_bytes
    assert (later.guessed, later.left_out, later.paths) == (now.guessed, now.left_out, now.paths)
    assert said(later) == said(now)
    if name != "complex":  # which no file has
        assert written(later, tmp_path / "later.rfnb") == written(now, tmp_path / "now.rfnb")


@pytest.mark.parametrize(
    "options", [{}, {"ops": True}, {"kinds": {"module"}}, {"graph": True}, {"limit": 40_000}], ids=str
)
def test_whatever_is_recorded(options, tmp_path):
    def make():
        made = OF_TORCH["encoder"]()
        return made[0].eval(), made[1]

    later, now = recorded(make, **options)
    assert said(later) == said(now)
    assert (later.truncated is None) == (now.truncated is None) == ("limit" not in options)
    assert later.truncated is None or vars(later.truncated) == vars(now.truncated)
    assert "graph" in options or written(later, tmp_path / "later.rfnb") == written(now, tmp_path / "now.rfnb")


def small():
    return nn.Sequential(nn.Linear(4, 4), nn.ReLU(inplace=True)), torch.randn(3, 4)


def test_nothing_is_lost_by_whoever_looks_while_it_records(tmp_path):
    model, x = small()
    with rf.record(model=model, values=True) as trace:
        model(x)
        assert trace._noted and len(trace) == 3 and not trace._noted
        model(x)
        trace.save(tmp_path / "run.rfnb")
        model(x)
        copied = pickle.loads(pickle.dumps(trace))
        model(x)
        assert trace.counts() == {"module": 12}
        model(x)
        heard = []
        trace.subscribe(heard.append)
        model(x)
        assert [event.index for event in heard] == [15, 16, 17]
        trace.unsubscribe(heard.append)
        model(x)
    assert len(rf.load_trace(tmp_path / "run.rfnb")) == 6 and len(copied) == 9
    assert [event.index for event in trace.events] == list(range(21))
    with torch.no_grad():
        expected = model[0](x)
    assert all(torch.equal(event.values["outputs"][0][1].raw_tensor, expected) for event in trace.select(path="0"))


def test_what_is_noted_is_no_more_memory_and_goes_with_the_trace():
    import gc
    import weakref

    model, x = small()
    gc.disable()
    try:
        with rf.record(model=model, values=True) as trace:
            model(x)
            (_, _, _, _, _, _, args), *_ = trace._noted
            copy = weakref.ref(args[2])
        assert trace.num_bytes == 3 * 3 * 4 * 4
        own = trace.events[0].values["outputs"][0][1].raw_tensor
        assert own is copy()
        del own, args
        trace = None
        assert copy() is None
    finally:
        gc.enable()


def test_where_another_one_listens_each_gets_its_events_in_the_call():
    model, x = small()
    with rf.record() as around, rf.record(model=model, values=True) as trace:
        model(x)
        assert not trace._noted and not around._noted
    assert said(trace)[0] and len(around) == len(trace) == 3
