"""Attention that is changed where a run stands: as plain computations that change the same, and what does not fit changes nothing."""

import contextlib
import re

import numpy as np
import pytest
import torch
from asserting import assert_same, randn, tensor
from control.attending import BATCH, FEAT, HEADS, KEYS, SOURCE, STEPS, VALUES, Decoder, decoding, plain
from control.plain_search import assert_found, plain_search, searching
from hypothesis import given, settings
from hypothesis import strategies as st

import rfnb as rf
from rfnb import Dim

FACES = ["for", "with", "scan", "while", "gate"]
REAL = np.arange(6) < np.array([6, 4])[:, None]


def applied(how, value, seq, head):
    """A function that does what an edit does, in NumPy."""

    def edit(weights):
        seqs = range(2) if seq is None else [seq]
        heads = range(3) if head is None else [head]
        for b in seqs:
            for k in heads:
                row = weights[b, k]
                if how == "row":
                    row[:] = np.array([*value, 0, 0]) / sum(value)
                elif how == "focus":
                    row[:] = np.arange(6) == value
                elif how == "uniform":
                    row[:] = REAL[b] / REAL[b].sum()
                elif how == "hide":
                    rest = np.where(np.arange(6) == value, 0, row)
                    even = REAL[b] & (np.arange(6) != value)
                    row[:] = (rest / rest.sum() if rest.sum() else even / even.sum()) * row.sum()
                else:
                    row[:] = row ** (1 / value) / (row ** (1 / value)).sum()

    return edit


ROWS = st.lists(st.integers(0, 5), min_size=4, max_size=4).filter(any)
EDITS = st.one_of(
    st.tuples(st.just("row"), ROWS),
    st.tuples(st.just("focus"), st.integers(0, 3)),
    st.tuples(st.just("hide"), st.integers(0, 3)),
    st.tuples(st.just("uniform"), st.none()),
    st.tuples(st.just("sharpen"), st.sampled_from([0.25, 0.5, 1.0, 3.0])),
)


def do(att, how, value, entries):
    if how == "row":
        att[entries] = [*map(float, value)]
    else:
        getattr(att, how)(*([] if value is None else [value]), entries=entries)


@pytest.mark.parametrize("face", FACES)
@settings(max_examples=20, deadline=None)
@given(
    how=st.sampled_from(["dot", "additive", "generic", "parts"]),
    edits=st.dictionaries(
        st.integers(0, 4),
        st.tuples(
            EDITS, st.sampled_from([None, 0, 1]), st.sampled_from([None, 0, 2]), st.sampled_from([1, 1, 2, None])
        ),
        max_size=3,
    ),
)
def test_a_row_that_is_changed_gives_what_a_computation_with_that_row_gives(face, how, edits):
    run = rf.run(decoding(face, how), paused=True)
    expected = {}
    for step, ((kind, value), seq, head, during) in sorted(edits.items()):
        run.wait()
        if step > run.at.step:
            run.step(step - run.at.step)
        entries = {name: at for name, at in (("batch", seq), ("heads", head)) if at is not None}
        during = during and min(during, 5 - step)  # more are refused
        do(run.at.attention["att"].during(during), kind, value, entries)
        for later in range(step, 5 if during is None else min(step + during, 5)):
            expected.setdefault(later, []).append((step, applied(kind, value, seq, head)))
    run.pause()
    if run.state == "paused":
        run.resume()
    edits_of = {step: [edit for _, edit in sorted(some, key=lambda one: one[0])] for step, some in expected.items()}
    result = run.result.copy_transpose([BATCH, HEADS, FEAT])
    np.testing.assert_allclose(result.numpy(), plain(edits_of, how), rtol=1e-4, atol=1e-5)
    assert not any("failed: " in change.words for change in run.changes)
    again = run.from_step(4, paused=False)  # what was changed in the last step itself is not in it
    at_last = edits.get(4)
    if at_last is not None:
        edits_of[4] = [edit for step, edit in sorted(expected[4], key=lambda one: one[0]) if step < 4]
    np.testing.assert_allclose(
        again.result.copy_transpose([BATCH, HEADS, FEAT]).numpy(), plain(edits_of, how), rtol=1e-4, atol=1e-5
    )


@pytest.mark.parametrize("how", ["dot", "additive", "generic", "parts"])
@pytest.mark.parametrize("record", [True, False])
def test_a_step_that_a_program_makes_is_changed_as_well(how, record):
    """In a recorded body the later steps are programs over raw arrays, which ask nobody."""
    with rf.stop_gradient_scope():
        run = paused_at(3, decoding("with", how), record=record)
    run.at.attention["att" if record else "decoding"].focus(1)
    run.resume()
    result = run.result.copy_transpose([BATCH, HEADS, FEAT]).numpy()
    expected = plain({3: [applied("focus", 1, None, None)]}, how)
    np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("face", ["for", "with", "scan"])
def test_without_a_recording_too(face):
    run = rf.run(decoding(face), paused=True, record=False)
    run.wait()
    run.at.attention["att"].focus(2)
    run.resume()
    expected = plain({0: [applied("focus", 2, None, None)]})
    np.testing.assert_allclose(run.result.copy_transpose([BATCH, HEADS, FEAT]).numpy(), expected, rtol=1e-4, atol=1e-5)


@settings(max_examples=15, deadline=None)
@given(
    beam_size=st.sampled_from([1, 3]),
    edits=st.dictionaries(st.integers(0, 4), st.tuples(EDITS, st.integers(0, 1), st.integers(0, 2)), max_size=2),
)
def test_the_search_of_a_whole_model_follows_the_changed_rows(beam_size, edits):
    words = ["thesis", "beta"]
    run = rf.run(searching(words, beam_size), paused=True)
    expected = [{}, {}]

    def changed(how, value, hypothesis, seq):
        def edit(weights):
            rows = weights[hypothesis : hypothesis + 1] if hypothesis < len(weights) else weights[:0]
            for row in rows:
                width = len(row)
                full = np.zeros((2, 3, 6), np.float32)
                full[seq, 0, :width] = row
                applied(how, value, seq, 0)(full)
                row[:] = full[seq, 0, :width]

        return edit

    for step, ((how, value), seq, hypothesis) in sorted(edits.items()):
        run.wait()
        if run.state == "paused" and step > run.at.step:
            run.step(step - run.at.step)
        if run.state != "paused":
            break
        hypothesis = min(hypothesis, beam_size - 1) if step else 0
        entries = {"batch": seq, **({"hypothesis": hypothesis} if step else {})}
        do(run.at.attention["decoder.att"], how, value, entries)
        expected[seq][step] = changed(how, value, hypothesis, seq)
    run.pause()
    if run.state == "paused":
        run.resume()
    for seq, word in enumerate(words):
        assert_found(run.result, seq, plain_search(word, beam_size, most=22, weights=expected[seq]))
    assert not any("failed: " in change.words for change in run.changes)


# -- what it is about ------------------------------------------------------------------------------------------------------


def paused_at(step, fn=None, **options):
    run = rf.run(fn or decoding(), paused=True, **options)
    run.wait()
    if step:
        run.step(step)
    return run


BAD = {
    "another path": (
        lambda at: at["encoder"].uniform(), KeyError,
        'run: no attention was computed at "encoder".\n  attention  att\n'
        "Attention is addressed by its path in a trace, or by a unique end of it.",
    ),
    "another dim": (
        lambda at: at["att"].uniform({"beam": 0}), rf.DimError,
        'attention "att": no dim beam.\n  dims  [batch=2, heads=3]\nIt has these dims.',
    ),
    "an index out of range": (
        lambda at: at["att"].uniform({"heads": 3}), IndexError,
        'attention "att": index out of range.\n  given  heads: 3\n  dim    heads=3\nEntries are 0 to 2.',
    ),
    "a number of an axis": (
        lambda at: at["att"].uniform(0), TypeError,
        'attention "att": entries without dims.\n  given  0\n  dims   [batch=2, heads=3]\nAxes are selected by dim, not by number.\n'
        "    run.at.attention[\"att\"][{'batch': 0, 'heads': 0}]",
    ),
    "a long row": (
        lambda at: at["att"].__setitem__({}, [1.0] * 7), rf.ShapeError,
        'attention "att": the row does not fit.\n  rows   (2, 3, 6)\n  given  (7,)\n  axis   source<=6\n'
        "A row has one weight for each source frame.",
    ),
    "a row over the heads": (
        lambda at: at["att"].__setitem__({}, rf.ones([HEADS])), rf.ShapeError,
        'attention "att": the dims of the row do not match.\n  given  [heads=3]\n  rows   [batch=2, heads=3, source<=6]\n'
        "A Tensor needs the dim source, and of the other dims only those along which it differs.",
    ),
    "a row of other dims": (
        lambda at: at["att"].__setitem__({"heads": 0}, rf.ones([HEADS, SOURCE, BATCH])), rf.ShapeError,
        'attention "att": the dims of the row do not match.\n  given  [heads=3, source<=6, batch=2]\n  rows   [batch=2, source<=6]\n'
        "A Tensor needs the dim source, and of the other dims only those along which it differs.",
    ),
    "below 0": (
        lambda at: at["att"].__setitem__({}, [1.0, -1.0, 1.0, 0, 0, 0]), ValueError,
        'attention "att": these are not weights.\n  rows  (6,)\nWeights are finite, not negative, not all 0; rows are divided by the sum.',
    ),
    "not a number": (
        lambda at: at["att"].__setitem__({}, [float("nan")] * 6), ValueError,
        'attention "att": these are not weights.\n  rows  (6,)\nWeights are finite, not negative, not all 0; rows are divided by the sum.',
    ),
    "no row": (
        lambda at: at["att"].__setitem__({}, 0.5), TypeError,
        'attention "att": not a row.\n  given  0.5\nA row has one weight per frame. To put all weight on one frame:\n'
        "    run.at.attention[\"att\"].focus(3)",
    ),
    "padding": (
        lambda at: at["att"].focus(5), ValueError,
        'attention "att": weights on padding or masked positions.\n  axis  source<=6\n'
        "Padding and masked positions have weight 0. The row of a shorter sequence has one weight per position of the sequence.",
    ),
    "no position": (
        lambda at: at["att"].focus(6), IndexError,
        'attention "att": no position 6.\n  axis  source<=6\nPositions are 0 to 5.',
    ),
    "a label without a vocabulary": (
        lambda at: at["att"].focus("a"), IndexError,
        "attention \"att\": no label 'a'.\n  labels  source<=6\n  texts   none has a text\n"
        "A label is given by its text, if it is the only one with it, or by its index.",
    ),
    "half a position": (
        lambda at: at["att"].focus(1.5), TypeError,
        'attention "att": not a position.\n  given  1.5\n'
        "A position is an int, or a label of the dim that is attended over.",
    ),
    "temperature 0": (
        lambda at: at["att"].sharpen(0), ValueError,
        'attention "att": invalid temperature 0.\n  temperature  0\n'
        "The temperature is above 0: values below 1 sharpen a row, values above 1 flatten it.\n    run.at.attention[\"att\"].sharpen(0.5)",
    ),
    "no steps": (
        lambda at: at["att"].during(0), ValueError,
        "attention: invalid number of steps 0.\n  steps  0\nsteps is at least 1, or None for all following steps.\n"
        '    run.at.attention["att"].during(None)',
    ),
    "more steps than come": (
        lambda at: at["att"].during(4).uniform(), ValueError,
        'attention "att": during 4 steps are requested, but fewer remain.\n  steps of its loop  5, and step 2 comes next: 3 at most\n'
        'The steps are counted from the next one. For all following steps:\n    run.at.attention["att"].during(None)',
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", BAD)
def test_what_does_not_fit_is_said_at_once_and_changes_nothing(what):
    change, kind, text = BAD[what]
    run = paused_at(2)
    with pytest.raises(kind) as error:
        change(run.at.attention)
    assert str(error.value) == text
    run.resume()
    assert_same(run.result, decoding()())
    assert run.changes == ()


def test_before_the_first_step_no_path_is_known_and_the_next_pause_says_whether_there_was_one():
    run = paused_at(0)
    assert list(run.at.attention) == [] and run.at.attention["att"].dims is None
    run.at.attention["encoder.att"].uniform()
    run.at.attention["att"].focus(5, {"batch": 1})
    run.resume()
    run.wait()
    assert run.at.step == 1 and list(run.at.attention) == ["att"] and run.at.attention["att"].dims == (BATCH, HEADS)
    assert run.reason == (
        'attention "att": weights on padding or masked positions.\n  axis  source<=6\n'
        "Padding and masked positions have weight 0. The row of a shorter sequence has one weight per position of the sequence.\n"
        'attention "encoder.att": no attention was computed there in this step.\n  known  att\n'
        "Nothing was changed. A change affects the weights of later steps, where they are computed."
    )
    run.resume()
    assert_same(run.result, decoding()())


def test_what_was_not_done_in_the_last_step_is_said_with_the_result():
    run = paused_at(0, lambda: rf.scan(spatial_dim=Dim(1), initial=rf.zeros([]), body=lambda x, s: (s, s))[1])
    run.at.attention["att"].uniform()
    run.resume()
    with pytest.warns(UserWarning, match='attention "att": no attention was computed there'):
        _ = run.result


@pytest.mark.parametrize("face", ["scan", "while", "gate"])
def test_where_nobody_knows_how_many_steps_come_too_few_are_said_with_the_result(face):
    run = paused_at(2, decoding(face))
    run.at.attention["att"].during(9).focus(1)
    run.at.attention["att"].during(3).focus(2)
    run.resume()
    with pytest.warns(UserWarning) as said:
        result = run.result
    assert [str(one.message).partition("\n")[2] for one in said] == [
        'attention "att": during 9 steps are requested, but fewer remain.\n  steps of its loop  3 since the request, then the loop ended\n'
        'The steps are counted from the next one. For all following steps:\n    run.at.attention["att"].during(None)'
    ]
    expected = plain({step: [applied("focus", 2, None, None)] for step in (2, 3, 4)})
    np.testing.assert_allclose(result.copy_transpose([BATCH, HEADS, FEAT]).numpy(), expected, rtol=1e-4, atol=1e-5)


def test_of_a_run_that_is_stopped_no_steps_are_missed():
    run = paused_at(2, decoding("scan"))
    run.at.attention["att"].during(9).focus(1)
    run.stop()
    assert not any("failed: " in change.words for change in run.changes)


def test_what_was_not_done_in_the_last_step_of_a_loop_of_ones_own_is_said_with_the_result():
    run = paused_at(0, lambda: rf.gate(0))
    run.at.attention["att"].uniform()
    run.resume()
    with pytest.warns(UserWarning, match='attention "att": no attention was computed there'):
        _ = run.result


@pytest.mark.parametrize("face", ["for", "with", "scan", "while"])
def test_a_change_is_over_with_its_loop(face):
    def twice():
        first = decoding(face)()
        return first, Decoder("dot")(START_AFTER)

    run = paused_at(4, twice)
    run.at.attention["att"].during(None).focus(0)
    run.resume()
    assert_same(run.result[1], Decoder("dot")(START_AFTER))


def test_a_change_is_for_its_step_although_a_scan_in_that_fails():
    one, two = Dim(1), Dim(2)

    def body(x, h):
        with contextlib.suppress(rf.DimError):  # its state gets another dim
            rf.scan(spatial_dim=one, initial=h, body=lambda x, h: (h, rf.expand_dim(h, dim=two)))
        return Decoder("dot").att(START_AFTER), h

    run = paused_at(0, lambda: rf.scan(spatial_dim=Dim(3), initial=rf.zeros([]), body=body)[0])
    run.at.attention["attention"].focus(0)
    run.resume()
    plain, attended = Decoder("dot").att(START_AFTER).numpy(), run.result.numpy()
    assert [bool(np.array_equal(step, plain)) for step in attended] == [False, True, True]


START_AFTER = randn(BATCH, HEADS, FEAT, seed=8)


def test_loops_in_loops_each_have_their_steps():
    def nested(face):
        def go():
            outer = rf.Loop(axis=Dim(3, name="outer"), name="outer")
            outer.state.h = START_AFTER
            for _ in outer:
                inner = decoding(face)
                outer.state.h = outer.state.h + inner()
            return outer.state.h

        return go

    once, changed = decoding()(), plain({step: [applied("focus", 1, None, None)] for step in range(5)})
    run = paused_at(6, nested("for"))
    assert run.at.path == "outer"
    run.at.attention["att"].focus(1)  # in the whole step of the outer loop
    run.resume()
    expected = START_AFTER.numpy() + 2 * once.numpy() + changed
    np.testing.assert_allclose(run.result.copy_transpose([BATCH, HEADS, FEAT]).numpy(), expected, rtol=1e-4, atol=1e-5)


def test_attention_that_no_step_changes_is_changed_in_a_step_all_the_same():
    """A recorded body computes once what is the same in all steps, but not where somebody may change it."""

    def go():
        loop = rf.Loop(axis=STEPS, name="same")
        loop.state.h = rf.zeros([BATCH, HEADS, FEAT])
        decoder = Decoder("dot")
        with loop:
            loop.state.h = loop.state.h + decoder.att(START_AFTER)
        return loop.state.h

    once = Decoder("dot").att(START_AFTER).copy_transpose([BATCH, HEADS, FEAT]).numpy()
    focused = VALUES.copy_transpose([BATCH, SOURCE, HEADS, FEAT]).numpy()[:, 2]
    for record, step in ((True, 0), (True, 1), (True, 3), (False, 0)):
        run = paused_at(step, go, record=record)
        run.at.attention["att"].focus(2)
        run.resume()
        result = run.result.copy_transpose([BATCH, HEADS, FEAT]).numpy()
        np.testing.assert_allclose(result, 4 * once + focused, rtol=1e-5, atol=1e-5)


def test_a_recorded_body_of_a_run_that_records_nothing_has_only_the_path_of_its_loop():
    run = paused_at(2, decoding("with"), record=False)
    run.at.attention["att"].focus(1)
    run.resume()
    run.wait()
    assert run.reason.startswith('attention "att": no attention was computed there in this step.\n  known  decoding\n')
    run.at.attention["decoding"].focus(2)
    run.resume()
    expected = plain({3: [applied("focus", 2, None, None)]})
    np.testing.assert_allclose(run.result.copy_transpose([BATCH, HEADS, FEAT]).numpy(), expected, rtol=1e-4, atol=1e-5)


# -- all that attends ------------------------------------------------------------------------------------------------------


def test_the_history_of_a_step_grows_and_its_rows_with_it():
    """Self-attention of a decoder: in step 3 there are four frames to look at."""
    model, heads = Dim(4, name="model"), Dim(2, name="heads")
    layer = rf.CausalSelfAttention(
        model, model, key_dim_total=Dim(4, name="k"), value_dim_total=Dim(4, name="v"), num_heads=heads, with_bias=False
    )
    inputs = randn(BATCH, STEPS, model)

    def go():
        loop = rf.Loop(axis=STEPS, name="decoding")
        loop.state.att = layer.default_initial_state(batch_dims=[BATCH])
        for _ in loop:
            out, loop.state.att = layer(loop.unstack(inputs), axis=rf.single_step_dim, state=loop.state.att)
            stacked = loop.stack(out)
        return stacked

    plain_out = go()
    run = paused_at(3, go)
    path = next(iter(run.at.attention))
    run.at.attention[path][{"heads": 1}] = [0, 0, 1, 0]
    run.at.attention[path][{"heads": 0, "batch": 0}] = 3
    run.step()
    run.at.attention[path].uniform()
    run.resume()
    out = run.result
    np.testing.assert_allclose(out.numpy()[:3], plain_out.copy_transpose(out.dims).numpy()[:3], rtol=1e-5, atol=1e-6)
    assert run.reason == "" and len(run.changes) == 3
    rows = [rows.copy_transpose([BATCH, heads, rows.dims[-1]]).numpy() for rows in run.trace.attention.steps(path)]
    assert rows[3][:, 1].tolist() == [[0, 0, 1, 0]] * 2 and rows[3][0, 0].tolist() == [0, 0, 0, 1]
    np.testing.assert_allclose(rows[4], np.full((2, 2, 5), 0.2), rtol=1e-6)
    assert rows[3][1, 0].sum() == pytest.approx(1) and rows[3][1, 0].max() < 1  # what was not changed


def test_a_query_that_may_not_look_ahead_is_given_no_weight_there():
    queries, model = Dim(3, name="queries"), Dim(4, name="model")
    q, k, v = (randn(queries, model, seed=seed) for seed in (1, 2, 3))

    def go():
        rf.gate(0)
        return rf.dot_attention(q, k, v, key_dim=model, axis=queries, causal_query_spatial_dim=queries)

    run = paused_at(0, go)
    run.at.attention["loop"].uniform({"queries": 1})
    run.resume()
    expected = v.numpy()[:2].mean(0)
    np.testing.assert_allclose(run.result.copy_transpose([queries, model]).numpy()[1], expected, rtol=1e-5)
    run = run.from_step(0, lambda at: at.attention["loop"].focus(2, {"queries": 1}))
    with pytest.warns(UserWarning, match="weights on padding or masked positions"):
        assert_same(run.result, go())


def gauss():
    position = tensor([1.2, 2.9], BATCH)
    return rf.gauss_window_attention(position, rf.gather(VALUES, indices=0, axis=HEADS), axis=SOURCE, window_size=3)


def masked():
    from rfnb.nn.backend.methods import scaled_dot_product_attention

    mask = rf.convert_to_tensor(np.array([True, True, True, False, False, False]), dims=[SOURCE])
    return scaled_dot_product_attention(
        START_AFTER, KEYS, VALUES, attention_mask=mask, qk_feat_dim=FEAT, kv_spatial_dim=SOURCE, query_spatial_dim=None
    )


def relative():
    from rfnb.nn.attention.functions import _attend, _energy

    return _attend(_energy(START_AFTER, KEYS, FEAT), VALUES, SOURCE, 0.0, None)


@pytest.mark.parametrize("attend", [gauss, masked, relative])
def test_all_that_attends_is_changed_in_the_same_place(attend):
    run = paused_at(0, lambda: (rf.gate(0), attend())[1])
    run.at.attention["loop"].focus(2)
    run.resume()
    focused = rf.gather(VALUES, indices=2, axis=SOURCE)
    assert_same(run.result, rf.gather(focused, indices=0, axis=HEADS) if attend is gauss else focused)


def test_a_grid_is_changed_too():
    x, y, out = Dim(3, name="x"), Dim(4, name="y"), Dim(5, name="out")
    layer = rf.TwoDLSTM(x, y, out, pooling="weighted")
    target, sources = Dim(2, name="target"), (randn(BATCH, SOURCE, x), randn(BATCH, Dim(2, name="target"), y))
    sources = sources[0], randn(BATCH, target, y)

    def go():
        rf.gate(0)
        return layer(*sources, x_axis=SOURCE, y_axis=target)[0]

    run = paused_at(0, go)
    run.at.attention[layer.get_default_name()].focus(1)
    run.resume()
    _ = run.result
    assert run.trace.attention.steps(layer.get_default_name())[0].numpy().max() == 1.0
    assert not any("failed: " in change.words for change in run.changes)


def test_only_one_function_offers_attention():
    """So that whatever attends later is changed there as well."""
    import pathlib

    places = [
        path.name
        for path in pathlib.Path(rf.__file__).parent.rglob("*.py")
        if re.search(r'(?<!rf\.)probe\("attention", w', path.read_text())  # with rf. it is what a user types
    ]
    assert [name for name in places if name != "probe.py"] == ["weight_hook.py"]


# -- numbers ---------------------------------------------------------------------------------------------------------------


def test_gradients_take_what_was_put_in_for_a_constant():
    query = randn(BATCH, HEADS, FEAT, seed=5)
    for raw in (query.raw_tensor, VALUES.raw_tensor):
        raw.requires_grad_(True).grad = None

    def go():
        rf.gate(0)
        return rf.dot_attention(query, KEYS, VALUES, key_dim=FEAT, axis=SOURCE)

    run = paused_at(0, go)
    run.at.attention["loop"].focus(2, {"heads": 1})
    run.at.attention["loop"].sharpen(0.5, {"heads": 2})
    run.resume()
    run.result.raw_tensor.sum().backward()
    grads = query.raw_tensor.grad, VALUES.raw_tensor.grad
    assert (grads[0][:, 0] != 0).all() and (grads[0][:, 1:] == 0).all()
    assert (grads[1][:, :, 1] == torch.eye(6)[2][None, :, None]).all()
    for raw in (query.raw_tensor, VALUES.raw_tensor):
        raw.requires_grad_(False)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float64"])
def test_the_dtype_stays_and_what_is_not_changed_is_as_it_was(dtype):
    query, keys, values = (rf.cast(x, dtype) for x in (START_AFTER, KEYS, VALUES))

    def go():
        rf.gate(0)
        return rf.dot_attention(query, keys, values, key_dim=FEAT, axis=SOURCE)

    run = paused_at(0, go)
    run.at.attention[""][{"heads": 0}] = [1, 3, 4, 2]
    run.resume()
    assert run.result.dtype == dtype
    (weights,) = run.trace.attention.steps("")
    rows = weights.copy_transpose([BATCH, HEADS, SOURCE])
    assert weights.dtype == dtype
    np.testing.assert_allclose(rows.raw_tensor[:, 0].double().numpy(), [[0.1, 0.3, 0.4, 0.2, 0, 0]] * 2, rtol=1e-2)
    same = rf.cast(rf.dot_attention_weights(query, keys, key_dim=FEAT, axis=SOURCE), dtype).copy_transpose(rows.dims)
    assert (rows.raw_tensor[:, 1:] == same.raw_tensor[:, 1:]).all()
