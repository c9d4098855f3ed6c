"""Conditions by name: NaN and infinity, ends, labels, entropies; against what plain NumPy says of the same steps."""

import numpy as np
import pytest
from asserting import ragged, randn
from control.held_models import BATCH, FEAT, TIME, X, sums
from control.stops import PATIENCE, steps_with, stops
from control.test_forced_labels import BATCH as SEARCH_BATCH
from control.test_forced_labels import BEAM, END, LOG_PROBS, STEPS, search

import rfnb as rf
from rfnb import Dim

LABELS = list("#abcde")


def plain_beams():
    """The search of `search` in plain NumPy: for each step and sequence the hypotheses, best first, as (label, it ended before, score)."""
    steps = []
    beams = [[(0, False, 0.0)], [(0, False, 0.0)]]
    while len(steps) < STEPS and not (steps and all(label == END for beam in beams for label, _, _ in beam)):
        for seq, beam in enumerate(beams):
            found = []
            for before, _, score in beam:
                if before == END and steps:
                    found.append((END, True, score))
                else:
                    row = np.float32(score) + LOG_PROBS[seq, len(steps), before]
                    found += [(label, False, value) for label, value in enumerate(row)]
            beams[seq] = sorted(found, key=lambda one: -one[2])[:BEAM]
        steps.append([list(beam) for beam in beams])
    return steps


@pytest.mark.parametrize("face", ["for", "with"])
@pytest.mark.parametrize("rank", [None, 0, 2])
@pytest.mark.parametrize("seq", [None, 1])
@pytest.mark.parametrize("index", range(6))
def test_a_run_pauses_where_a_label_is_chosen(face, rank, seq, index):
    expected = []
    for step, beams in enumerate(plain_beams()):
        chosen = [
            (row, place)
            for row, beam in enumerate(beams)
            for place, (label, had_ended, _) in enumerate(beam)
            if label == index and not had_ended and rank in (None, place) and seq in (None, row)
        ]
        if chosen:
            expected.append((step + 1, {(f"sequence {row}, rank {place}") for row, place in chosen}))
    label = repr(LABELS[index]) if index % 2 else index
    condition = f"label({label}" + (f", rank={rank}" if rank is not None else "") + (f", seq={seq})" if seq else ")")
    found = steps_with(search(face), condition)
    assert [step for step, _ in found] == [step for step, _ in expected]
    for (step, said), (_, places) in zip(found, expected):
        head, _, place = said.partition(f' was chosen at step {step - 1} of "search", ')
        assert head == f'label "{LABELS[index]}"' and place in places


@pytest.mark.parametrize("record", [True, False, {"kinds": "attention"}])
def test_labels_are_heard_whatever_the_recording_keeps(record):
    expected = [step + 1 for step, beams in enumerate(plain_beams()) if any(beam[0][0] == 2 for beam in beams)]
    run = rf.run(search(), paused=True, record=record)
    run.wait()
    run.break_when("label('b', rank=0)")
    found = []
    while run.resume().wait() and run.state == "paused":
        found.append(run.at.step)
    assert found == expected and expected


def test_a_label_that_there_is_not_pauses_once_and_says_so():
    assert steps_with(search(), "label('z')") == [
        (
            1,
            "label('z') was not evaluated: no label 'z' here (6 labels, as '#', 'a', 'b', 'c', 'd', 'e'). "
            "It is evaluated once there is one",
        )
    ]
    assert steps_with(search(), "label(6)") == [
        (1, "label(6) was not evaluated: no label 6 here (they are 0 to 5). It is evaluated once there is one")
    ]


@pytest.mark.parametrize("face", ["for", "with"])
def test_a_run_pauses_where_a_hypothesis_ends(face):
    expected = [
        step + 1
        for step, beams in enumerate(plain_beams())
        if any(label == END and not had_ended for beam in beams for label, had_ended, _ in beam)
    ]
    found = steps_with(search(face), "ended()")
    assert [step for step, _ in found] == expected and expected
    assert all(f'at step {step - 1} of "search"' in said and "beam " in said for step, said in found)
    only = [
        step + 1
        for step, beams in enumerate(plain_beams())
        if any(label == END and not had_ended for label, had_ended, _ in beams[1])
    ]
    assert [step for step, _ in steps_with(search(face), "ended(seq=1)")] == only
    assert only != expected


@pytest.mark.parametrize("face", ["for", "with"])
@pytest.mark.parametrize("include_eos", [True, False])
def test_a_run_pauses_where_a_sequence_ends_also_in_the_last_step(face, include_eos):
    from loop_faces import run_steps

    ends_at = rf.convert_to_tensor(np.array([3, 1, 3], np.int32), dims=[BATCH])

    def go():
        loop = rf.Loop(max_seq_len=8, name="net")
        loop.state.n = rf.zeros([BATCH], dtype="int32")

        def body():
            loop.end(loop.state.n == ends_at, include_eos=include_eos)
            loop.state.n = loop.state.n + 1
            return loop.stack(loop.state.n)

        return run_steps(loop, face, body)

    assert steps_with(go, "ended") == [
        (2, 'batch 1 ended at step 1 of "net"'),
        (4, 'batch 0 ended and 1 more at step 3 of "net"'),
    ]


@pytest.mark.parametrize("face", ["for", "with"])
def test_the_sequences_of_an_axis_end_at_their_lengths(face):
    assert steps_with(sums(face), "ended()") == [
        (2, 'batch 2 ended at step 1 of "sums"'),
        (4, 'batch 1 ended at step 3 of "sums"'),
        (7, 'batch 0 ended at step 6 of "sums"'),
    ]


def test_hypotheses_that_leave_the_beam_have_ended():
    from control.test_forced_labels import VOCAB

    before = Dim(6, name="before")
    table = rf.convert_to_tensor(LOG_PROBS[:, 0], dims=[SEARCH_BATCH, before, VOCAB])

    def go():
        return rf.beam_search(
            lambda label, state: (rf.gather(table, indices=rf.set_sparse_dim(label, before), axis=before), state),
            batch=SEARCH_BATCH, max_seq_len=STEPS, beam_size=BEAM, end_label=END, axis=VOCAB, ended="leave",
        )  # fmt: skip

    with rf.record() as trace:
        go()
    events = next(iter(trace.by_path("beams").values()))
    expected = [event.step + 1 for event in events if "left" in event.values and event.values["left"].numpy().any()]
    found = [step for step, _ in steps_with(go, "ended()")]
    assert found == expected and expected


def not_finite_at(step, value, face="for"):
    """A loop whose state gets a value that is not finite in a step."""

    def go():
        loop = rf.Loop(axis=Dim(5, name="five"), name="net")
        loop.state.h = rf.ones([BATCH, FEAT])
        bad = rf.convert_to_tensor(np.where(np.arange(3) == 1, np.float32(value), np.float32(1)), dims=[BATCH])
        for now in loop:
            loop.state.h = loop.state.h * (bad if now == step else 1.0)

    return go


@pytest.mark.parametrize("step", [0, 3, 4])
def test_a_run_pauses_where_nan_or_infinity_comes_also_in_the_last_step(step):
    nan, infinite = not_finite_at(step, np.nan), not_finite_at(step, -np.inf)
    place = f'at step {step} of "net", batch 1, feat 0'
    said = [(step + 1, f"NaN in states h {place}")]
    for condition in ("nan", "nan()", "not_finite()"):
        assert steps_with(nan, condition, once=True) == said
    assert steps_with(nan, "inf()") == []
    said = [(step + 1, f"infinity in states h {place}")]
    for condition in ("inf", "not_finite"):
        assert steps_with(infinite, condition, once=True) == said
    assert steps_with(infinite, "nan()") == []


@pytest.mark.parametrize("step", [0, 2, 3])
def test_nan_is_found_in_a_scan_also_after_its_last_step(step):
    steps = Dim(4, name="four")
    factors = rf.convert_to_tensor(np.where(np.arange(4) == step, np.float32("nan"), np.float32(1)), dims=[steps])

    def body(factor, h):
        rf.probe("mine", value=h * factor)
        return None, h * factor

    def go():
        rf.scan(spatial_dim=steps, initial=rf.ones([BATCH]), xs=factors, body=body)

    said = f'NaN in mine value at step {step} of "scan", batch 0'
    assert steps_with(go, "nan()", once=True) == [(step + 1, said)]


def test_what_is_made_after_all_loops_is_asked_for_before_the_run_is_done():
    def go():
        out = sums()()
        rf.probe("mine", value=rf.ones([BATCH]) * float("inf"))
        return out

    run = rf.run(go, paused=True)
    run.wait()
    run.break_when("inf()")
    run.resume()
    run.wait()
    assert run.reason == "breakpoint infinity in mine value, batch 0"
    run.resume()
    assert run.result is not None


def test_padding_and_minus_infinity_of_log_probabilities_are_no_news():
    padded = X.copy_transpose([BATCH, TIME, FEAT]).numpy().copy()
    padded[2, 5:] = np.nan
    x = rf.convert_to_tensor(padded, dims=[BATCH, TIME, FEAT])

    def go():
        loop = rf.Loop(axis=Dim(2, name="two"), name="net")
        loop.state.x = x
        for _ in loop:
            rf.probe("outputs", log_probs=rf.full(dims=[BATCH], fill_value=float("-inf")), axis=BATCH)
            loop.state.x = loop.state.x

    assert steps_with(go, "not_finite()") == []


KEYS = ragged([4, 3, 2], BATCH, "keys")


def attending():
    """A loop that attends, with weights that get sharper from step to step."""
    key = Dim(5, name="key")
    keys, query = randn(BATCH, KEYS, key), randn(BATCH, key)

    def go():
        loop = rf.Loop(axis=TIME, name="decoder")
        loop.state.n = rf.zeros([])
        for _ in loop:
            loop.state.n = loop.state.n + 1
            rf.dot_attention(query * loop.state.n, keys, keys, key_dim=key, axis=KEYS)

    energy = np.einsum(
        "bk,btk->bt", query.copy_transpose([BATCH, key]).numpy(), keys.copy_transpose([BATCH, KEYS, key]).numpy()
    ).astype(np.float64) / np.sqrt(5)

    def entropies(step):
        """{batch: entropy} of the sequences that go on, in nats."""
        found = {}
        for seq, (size, steps) in enumerate(zip([4, 3, 2], [7, 4, 2])):
            if step < steps:
                row = np.exp((step + 1) * energy[seq, :size])
                p = row / row.sum()
                found[seq] = float(-(p * np.log(p)).sum())
        return found

    return go, entropies


@pytest.mark.parametrize("above", [True, False])
def test_a_run_pauses_where_the_entropy_of_a_row_passes_a_bound(above):
    go, entropies = attending()
    all_ = sorted(value for step in range(7) for value in entropies(step).values())
    place = 9 if above else 3
    bound = round((all_[place - 1] + all_[place]) / 2, 6)
    expected = []
    for step in range(7):
        values = entropies(step)
        seq = (max if above else min)(values, key=lambda seq: values[seq])
        if (values[seq] > bound) if above else (values[seq] < bound):
            expected.append((step + 1, f"{values[seq]:.3g}", f" at step {step}, batch {seq}"))
    found = steps_with(go, f"entropy() {'>' if above else '<'} {bound}")
    assert [step for step, _ in found] == [step for step, _, _ in expected] and 0 < len(expected) < 7
    for (_, said), (_, value, where) in zip(found, expected):
        name, _, rest = said.removeprefix("entropy of ").partition(" ")
        assert name == "decoder" and rest.endswith(where) and abs(float(rest.split()[0]) - float(value)) < 0.01


def test_the_attention_is_found_by_the_end_of_its_path():
    go, _ = attending()
    assert len(steps_with(go, "entropy('decoder') >= 0")) == 7
    assert steps_with(go, "entropy('att') > 0") == [
        (
            1,
            "entropy('att') > 0 was not evaluated: no attention \"att\" here (only at decoder). It is evaluated once there is one",
        )
    ]


def test_conditions_that_a_run_begins_with_hear_what_comes_before_the_first_step():
    def go():
        rf.probe("mine", value=rf.ones([BATCH]) * float("nan"))
        return sums()()

    run = rf.run(go, break_when=["nan()", "step == 2"])
    assert run.wait(PATIENCE)
    assert (run.at.step, run.reason) == (0, "breakpoint NaN in mine value, batch 0")
    assert [point.text for point in run.breakpoints] == ["nan()", "step == 2"]
    assert [step for step, _ in stops(run)] == [2]
    with pytest.raises(ValueError, match="this text is not a condition"):
        rf.run(go, break_when="nan(")
