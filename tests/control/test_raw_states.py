"""States of step functions on raw torch: looked at, changed and kept by name, as plain torch has them."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import rfnb as rf
from rfnb.control import state_history

SEQS, BEAM, STEPS, HIDDEN, LABELS = 2, 3, 6, 5, 7
_rng = torch.Generator().manual_seed(3)
START = torch.randn(SEQS, HIDDEN, generator=_rng)
INTO, OUT = torch.randn(LABELS, HIDDEN, generator=_rng), torch.randn(HIDDEN, LABELS, generator=_rng)


def step(labels, state):
    """Scores and the next state; with a memory of all states so far, (n, step, hidden), that grows in place of nothing."""
    h = torch.tanh(0.5 * state["h"] + INTO[labels])
    memory = torch.cat([state["memory"], h[:, None]], dim=1)
    return (h @ OUT + memory.mean(1) @ OUT).log_softmax(-1), {**state, "h": h, "memory": memory}


def start():
    return {"h": START.clone(), "memory": torch.zeros(SEQS, 1, HIDDEN), "scale": torch.arange(4.0), "count": 0}


def search(fn=step, state=start):
    return rf.beam_search(
        fn,
        batch=SEQS,
        state=state(),
        beam_size=BEAM,
        max_seq_len=STEPS,
        end_label=0,
        early_stopping=False,
        name="search",
    )


def plain(edits):
    """The same in plain torch, sequence by sequence: labels and score of the hypotheses, in the order of the beam.

    Args:
        edits: step -> function of the states {h: (seqs, beam, hidden), memory}.
    """
    labels, scores = torch.zeros(SEQS, 1, dtype=torch.int64), torch.zeros(SEQS, 1)
    state = {"h": START[:, None].clone(), "memory": torch.zeros(SEQS, 1, 1, HIDDEN)}
    tokens = [[[]] for _ in range(SEQS)]
    for index in range(STEPS):
        if index in edits:
            edits[index](state)
        width = labels.shape[1]
        flat = {key: value.reshape(SEQS * width, *value.shape[2:]) for key, value in state.items()}
        log_probs, flat = step(labels.reshape(-1), flat)
        log_probs = log_probs.reshape(SEQS, width, LABELS)
        ended = torch.tensor([[bool(t) and t[-1] == 0 for t in seq] for seq in tokens])
        log_probs[ended] = -torch.inf
        log_probs[..., 0][ended] = 0.0
        total = (scores[..., None] + log_probs).reshape(SEQS, -1)
        scores, best = torch.sort(total, stable=True, dim=-1, descending=True)
        scores, best = scores[:, :BEAM], best[:, :BEAM]
        parents, labels = best // LABELS, best % LABELS
        tokens = [
            [tokens[s][p] + [int(x)] for p, x in zip(parents[s].tolist(), labels[s].tolist())] for s in range(SEQS)
        ]
        state = {
            key: torch.stack([flat[key].reshape(SEQS, width, *flat[key].shape[1:])[s, parents[s]] for s in range(SEQS)])
            for key in state
        }
    return tokens, scores, state


def beams(result):
    """Labels up to the end and scores of what is left in the beam, best first, by sequence."""
    return [[(list(item.tokens), item.score) for item in result.history.nbest(seq)] for seq in range(SEQS)]


def assert_same_beams(result, tokens, scores):
    for seq in range(SEQS):
        found = beams(result)[seq]
        expected = [one[: one.index(0) + 1] if 0 in one else one for one in tokens[seq]]
        assert [one for one, _ in found] == expected
        np.testing.assert_allclose([score for _, score in found], scores[seq], rtol=1e-5, atol=1e-5)


def test_an_unheld_search_is_the_plain_one():
    tokens, scores, _ = plain({})
    assert_same_beams(search(), tokens, scores)


def test_states_of_raw_torch_have_dims():
    run = rf.run(search, paused=True)
    assert run.wait()
    assert repr(run.at.states["h"]) == '<state "model.h": [batch=2, h:1=5] float32>'
    run.step(3)
    assert repr(run.at.states) == (
        '<states before step 3 of "search": label [batch=2, beam=3] int64, model.h [batch=2, beam=3, h:1=5] float32, '
        "model.memory [batch=2, beam=3, memory:1=4, memory:2=5] float32, model.scale [scale:0=4] float32>"
    )
    seen = {}
    plain({3: lambda state: seen.update(state)})
    np.testing.assert_allclose(run.at.states["h"].numpy(), seen["h"], rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(run.at.states["memory"][{"beam": 1}], seen["memory"][:, 1], rtol=1e-5, atol=1e-6)
    run.resume()
    assert beams(run.result) == beams(search())


@settings(max_examples=15, deadline=None)
@given(
    edits=st.dictionaries(
        st.integers(1, STEPS - 1),
        st.tuples(
            st.sampled_from(["h", "memory"]),
            st.integers(0, SEQS - 1),
            st.integers(0, BEAM - 1),
            st.integers(0, HIDDEN - 1),
            st.floats(-2, 2, width=32),
        ),
        max_size=3,
    ),
    branch=st.integers(1, STEPS - 1),
)
def test_an_edit_of_raw_states_gives_what_plain_torch_gives(edits, branch):
    def in_plain(name, seq, hypothesis, unit, value):
        return lambda state: state[name][seq, hypothesis].select(-1, unit).fill_(value)

    run = rf.run(search, paused=True)
    for index, (name, seq, hypothesis, unit, value) in sorted(edits.items()):
        run.wait()
        run.step(index - run.at.step)
        last = "h:1" if name == "h" else "memory:2"
        run.at.states[name][{"batch": seq, "beam": hypothesis, last: unit}] = value
    run.resume()
    tokens, scores, _ = plain({index: in_plain(*edit) for index, edit in edits.items()})
    assert_same_beams(run.result, tokens, scores)
    again = run.from_step(branch, paused=False)  # with what was changed before
    tokens, scores, _ = plain({index: in_plain(*edit) for index, edit in edits.items() if index < branch})
    assert_same_beams(again.result, tokens, scores)
    assert again.drifted is None


def test_states_that_a_function_changes_in_place_are_kept_as_they_were(monkeypatch):
    def in_place(labels, state):
        state["h"].mul_(0.5).add_(INTO[labels]).tanh_()
        return (state["h"] @ OUT).log_softmax(-1), state

    run = rf.run(lambda: search(in_place, lambda: {"h": START.clone()}), paused=True)
    there = []
    while run.wait() and run.state == "paused":
        there.append(run.at.states["h"].numpy().copy())
        run.step()
    for _ in range(2):
        for index, h in enumerate(there):
            np.testing.assert_array_equal(run.look(index)["h"].numpy(), h)
        monkeypatch.setattr(state_history, "LIMIT", 1)
    branch = run.from_step(3)
    assert branch.wait() and branch.drifted is None
    before = branch.at.states["h"].numpy().copy()
    branch.at.states["h"][{"batch": 0}] = 0.0
    assert branch.at.states["h"][{"batch": 0}].any() == np.False_
    np.testing.assert_array_equal(branch.at.states["h"][{"batch": 1}], before[1])
    branch.resume()
    _ = branch.result


def test_models_that_are_fused_in_have_states_of_their_own():
    def lm(labels, state):
        return (state @ OUT).log_softmax(-1), torch.tanh(state + INTO[labels])

    def fused():
        return rf.beam_search(
            step, batch=SEQS, state=start(), beam_size=BEAM, max_seq_len=STEPS, end_label=0, early_stopping=False,
            fusion={"lm": (lm, START.clone(), 0.5), "none": (lambda labels, state: (torch.zeros(len(labels), LABELS), None), None, 0.1)},
        )  # fmt: skip

    run = rf.run(fused, paused=True)
    run.step(2)
    assert repr(run.at.states["modellm"]) == '<state "modellm": [batch=2, beam=3, state:1=5] float32>'
    before = beams(fused())
    run.at.states["modellm"][...] = 0.0
    assert not run.at.states["modellm"].numpy().any() and run.at.states["h"].numpy().all()
    run.resume()
    assert beams(run.result) != before


def test_caches_that_follow_by_themselves_are_not_shown():
    class Cache:
        def __init__(self):
            self.h = START.clone()

        def reorder_cache(self, rows):
            self.h = self.h[rows]

    def with_cache(labels, cache):
        cache.h = torch.tanh(0.5 * cache.h + INTO[labels])
        return (cache.h @ OUT).log_softmax(-1), cache

    run = rf.run(lambda: search(with_cache, Cache), paused=True)
    run.step(2)
    assert list(run.at.states) == ["label"]
    run.resume()
    assert beams(run.result) == beams(search(with_cache, Cache))


def test_a_bad_edit_of_a_raw_state_changes_nothing():
    run = rf.run(search, paused=True)
    run.step(2)
    before = run.at.states["h"].numpy().copy()
    with pytest.raises(IndexError) as error:
        run.at.states["h"][{"beam": 3}] = 0.0
    assert str(error.value) == (
        'state "model.h": index out of range.\n  given  beam: 3\n  dim    beam=3\nEntries are 0 to 2.'
    )
    with pytest.raises(rf.DimError) as error:
        run._gate.ask(
            lambda: run.at._held.edit("model", {**run.at._held.states_now()["model"], "h": rf.zeros([])})
        ).result()
    assert str(error.value) == (
        'state "model.h": the value has the wrong dims or dtype.\n'
        "  before  [batch=2, beam=3, h:1=5] float32\n"
        "  given   [] float32\n"
        "It is an array of the step function, which has always the same axes."
    )
    np.testing.assert_array_equal(run.at.states["h"].numpy(), before)
    run.resume()
    assert beams(run.result) == beams(search())
