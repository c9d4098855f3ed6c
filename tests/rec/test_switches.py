"""Every debugging switch with every way to run steps: the numbers are those without it."""

import contextlib

import numpy as np
import pytest
from asserting import assert_same, ragged, randn
from loop_faces import run_steps

import rfnb as rf
from rfnb import Dim
from rfnb.rec import loop_plan

BATCH, FEAT, OUT, VOCAB = Dim(2, name="batch"), Dim(3, name="feat"), Dim(4, name="out"), Dim(5, name="vocab")
TIME = ragged([4, 2], BATCH, "time")
X = randn(BATCH, TIME, FEAT)
X.feature_dim = FEAT
IDS = rf.cast(rf.expand_dim(rf.range_over_dim(TIME), dim=BATCH) % 5, "int32")
IDS.sparse_dim = VOCAB

SWITCHES = [
    {}, {"padding": "nan"}, {"padding": 1e6}, {"indices": True}, {"beams": True}, {"indices": True, "padding": "nan"},
    {"indices": True, "beams": True}, {"indices": True, "beams": True, "padding": 1e6},
]  # fmt: skip


def loop_of(face):
    def run():
        rf.set_random_seed(1)
        embedding, linear, loop = rf.Embedding(VOCAB, FEAT), rf.Linear(FEAT, FEAT), rf.Loop(axis=TIME)
        loop.state.h = rf.zeros([BATCH, FEAT], feature_dim=FEAT)

        def body():
            loop.state.h = rf.tanh(linear(loop.state.h) + embedding(loop.unstack(IDS)) + loop.unstack(X))
            return loop.stack(loop.state.h)

        return run_steps(loop, face, body), loop.state.h

    return run


def scanned():
    def body(x_t, h):
        h = rf.tanh(h + x_t)
        return h, h

    return rf.scan(spatial_dim=TIME, xs=X, initial=rf.zeros([BATCH, FEAT], feature_dim=FEAT), body=body)[:2]


def while_looped():
    state = {"i": rf.zeros([], dtype="int32"), "h": rf.zeros([BATCH, FEAT])}
    last = rf.while_loop(lambda s: s["i"] < 3, lambda s: {"i": s["i"] + 1, "h": rf.tanh(s["h"] + 1.0)}, state)
    return (last["h"],)


def unit_of(make):
    def run():
        rf.set_random_seed(2)
        unit = make(FEAT, OUT)
        return (unit(X, state=unit.default_initial_state(batch_dims=[BATCH]), spatial_dim=TIME)[0],)

    return run


def choice_of(face):
    def run():
        rf.set_random_seed(3)
        table, loop = rf.log_softmax(rf.random_normal([VOCAB, OUT]), axis=OUT), rf.Loop(max_seq_len=4, name="search")
        to_vocab = Dim(5, name="labels")
        table = rf.log_softmax(rf.random_normal([BATCH, VOCAB, to_vocab]), axis=to_vocab)
        loop.state.label = rf.set_sparse_dim(rf.zeros([BATCH], dtype="int64"), VOCAB)

        def body():
            scores = rf.gather(table, indices=loop.state.label, axis=VOCAB)
            label = rf.choice(scores, axis=to_vocab, beam_size=3)
            loop.state.label = rf.set_sparse_dim(label, VOCAB)
            loop.end(label == 0, include_eos=True)
            return loop.stack(label)

        labels = run_steps(loop, face, body)
        return (rf.decide(labels).copy_masked(0).numpy(),)

    return run


def beam_search():
    def step(labels, state):
        return np.log(np.array([[0.2, 0.5, 0.3], [0.6, 0.3, 0.1], [0.1, 0.1, 0.8]]))[np.asarray(labels)], state

    return (
        [
            row.tokens
            for row in rf.beam_search(step, state=None, batch=2, beam_size=2, max_seq_len=4, end_label=0).nbest(0)
        ],
    )


def ctc():
    labels, scores, _, _ = rf.ctc_prefix_beam_search(
        X, in_spatial_dim=TIME, wb_target_dim=FEAT, blank_index=0, beam_size=3
    )
    return labels.copy_masked(0).numpy(), scores


def transducer():
    labels, scores, _, _ = rf.transducer_beam_search(
        lambda frame, label, state: (frame, state), X, in_spatial_dim=TIME, wb_target_dim=FEAT, blank_index=0, beam_size=2, max_labels=3
    )  # fmt: skip
    return labels.copy_masked(0).numpy(), scores


def net_of(unit):
    def run():
        rf.set_random_seed(4)
        net = rf.net_from_dict(
            {"output": {"class": "rec", "from": "data", "unit": unit, "n_out": 4}}, {"data": {"dim": 3}}
        )
        out = net({"data": (X.copy_masked(0).copy_transpose([BATCH, TIME, FEAT]).numpy(), [4, 2])})
        return (next(iter(out.values())) if isinstance(out, dict) else out,)

    return run


BODY = {
    "e": {"class": "linear", "n_out": 4, "activation": "tanh", "from": ["data:source", "prev:output"]},
    "output": {"class": "copy", "from": "e"},
}
UNITS = {
    "LSTM": rf.LSTM, "ZoneoutLSTM": lambda *dims: rf.ZoneoutLSTM(*dims, zoneout_factor_cell=0.1),
    "GRUCell": rf.GRUCell, "BasicRNNCell": rf.BasicRNNCell, "StandardLSTMCell": rf.StandardLSTMCell, "RHNCell": rf.RHNCell,
}  # fmt: skip
RUNS = {
    "for": loop_of("for"), "with": loop_of("with"), "scan": scanned, "while_loop": while_looped, "choice in for": choice_of("for"),
    "choice in with": choice_of("with"), "beam_search": beam_search, "ctc": ctc, "transducer": transducer,
    "net, unit": net_of("lstm"), "net, subnetwork": net_of(BODY),
    **{f"unit {name}": unit_of(make) for name, make in UNITS.items()},
}  # fmt: skip


@pytest.mark.parametrize("switch", SWITCHES[1:], ids=str)
@pytest.mark.parametrize("name", RUNS)
def test_a_switch_changes_nothing(name, switch):
    expected = RUNS[name]()
    with rf.debug(**switch):
        got = RUNS[name]()
    for a, b in zip(got, expected, strict=True):
        if isinstance(a, rf.Tensor):
            np.testing.assert_allclose(_values(a), _values(b), rtol=1e-5, atol=1e-5)
        else:
            assert np.array_equal(a, b)


def _values(x):
    beams = [dim for dim in x.dims if dim.kind == "beam"]
    return x.copy_masked(0).copy_transpose([dim for dim in x.dims if dim not in beams] + beams).numpy()


@pytest.mark.parametrize("face", ["for", "with"])
def test_a_bad_index_is_found_in_a_step(face):
    bad = rf.cast(IDS * 2, "int32")
    bad.sparse_dim = VOCAB
    table, loop = rf.random_normal([VOCAB, FEAT]), rf.Loop(axis=TIME)
    with rf.debug(indices=True), pytest.raises(IndexError, match="1 of the indices out of range"):
        with contextlib.ExitStack() as stack:
            for _ in loop if face == "for" else [stack.enter_context(loop)]:
                loop.stack(rf.gather(table, indices=loop.unstack(bad), axis=VOCAB))


def test_ops_whose_values_of_all_steps_are_huge_run_in_each_step(monkeypatch):
    """Ops on frames alone run once for all steps, but not if that takes too much memory: the result is the same."""
    wide, places = Dim(7, name="wide"), []
    linear = rf.Linear(FEAT, wide)

    def run():
        loop = rf.Loop(axis=TIME)
        loop.state.h = rf.zeros([BATCH])
        with loop:
            loop.state.h = rf.tanh(loop.state.h + rf.reduce_sum(rf.exp(linear(loop.unstack(X))), axis=wide))
            out = loop.stack(loop.state.h)
        places.append({place: [node.name for node in nodes] for place, nodes in loop.plan.places()})
        return out

    expected = run()
    monkeypatch.setattr(loop_plan, "_LARGEST", 4 * 2 * 7 - 1)  # one element less than what is wide has in all steps
    assert_same(run(), expected)
    assert places[0]["before"][:2] == ["linear", "exp"] and "exp" not in places[0]["inside"]
    assert places[1]["before"] == [] and places[1]["inside"][:2] == ["linear", "exp"]


def test_ops_that_turn_out_to_be_huge_after_the_loop_run_on_each_step(monkeypatch):
    """How many steps there are is known only then if the loop has no axis."""
    largest, calls = loop_plan._LARGEST, []
    from rfnb.rec.replay import Replay

    plain = Replay._run_each
    monkeypatch.setattr(
        Replay, "_run_each", lambda self, node, whole: calls.append(node.name) or plain(self, node, whole)
    )

    def run():
        loop = rf.Loop(max_seq_len=6)
        loop.state.h = rf.zeros([BATCH, FEAT])
        with loop:
            loop.state.h = loop.state.h + 1.0
            out = loop.stack(rf.exp(loop.state.h * 0.5))
            loop.end(
                rf.reduce_max(loop.state.h, axis=FEAT) >= rf.range_over_dim(BATCH, dtype="float32") + 3.0,
                include_eos=True,
            )
        return out.copy_masked(0).copy_transpose([BATCH, loop.axis, FEAT]).numpy()

    expected = run()
    assert not calls
    monkeypatch.setattr(loop_plan, "_LARGEST", 2 * 3 * 2)  # two steps
    np.testing.assert_allclose(run(), expected)
    assert len(calls) == 2, "both ops"
    np.testing.assert_allclose(expected[1, :, 0], np.exp(0.5 * np.arange(1, 5)), rtol=1e-6)
    assert largest == 1 << 27
