"""scan, while_loop, cond, TensorArray: the loops that take functions."""

import warnings

import numpy as np
import pytest
import torch
from asserting import assert_same, ragged, raises_message, randn, tensor

import rfnb as rf
from rfnb import Dim, DimError
from rfnb.rec.tensor_array import TensorArray

batch, feat = Dim(3, name="batch"), Dim(2, name="feat")
time = ragged([3, 1, 2], batch)
x = tensor([[1.0, 2.0, 3.0], [4.0, -9.0, -9.0], [5.0, 6.0, -9.0]], batch, time)


def add(frame, total):
    return total + frame, total + frame


def count_down(_, left):
    return left * 10, left - 1


def test_scan_over_a_dim_needs_no_frames():
    """A sequence that has ended keeps its state, Dims included; there is no step for a batch of nothing."""
    ys, last, dim = rf.scan(spatial_dim=time, initial=rf.zeros([batch]), body=lambda _, h: (None, h + 1.0))
    assert ys is None and dim is time
    assert_same(last, rf.cast(time.get_size_tensor(), "float32"))
    nobody = Dim(0, name="nobody")
    calls = []
    _, last, _ = rf.scan(
        spatial_dim=ragged([], nobody), initial=rf.zeros([nobody]), body=lambda *args: calls.append(args),
        ys=rf.Tensor("y", dims=[nobody], dtype="float32"),
    )  # fmt: skip
    assert not calls and last.dims == (nobody,)


def test_scan_over_a_ragged_dim_is_a_running_sum():
    out, total, dim = rf.scan(spatial_dim=time, xs=x, initial=rf.zeros([batch]), body=add)
    assert dim is time
    assert_same(out, rf.cumsum(x, spatial_dim=time))
    assert_same(total, rf.reduce_sum(x, axis=time))


@pytest.mark.parametrize(("before", "lengths"), [(True, [2, 0, 1]), (False, [2, 1, 1])])
def test_scan_until_a_condition_counts_the_steps(before, lengths):
    start = tensor(np.asarray([2, 0, 1], np.int32), batch)
    out, left, dim = rf.scan(cond=lambda _, n: n > 0, cond_before_body=before, initial=start, body=count_down)
    assert dim.lengths.tolist() == lengths and dim.length_dims == (batch,)
    assert left.numpy().tolist() == [0, 0 if before else -1, 0]
    assert out.copy_transpose([batch, dim]).numpy()[0].tolist() == [20, 10]


def test_scan_stops_at_max_seq_len():
    _, left, dim = rf.scan(
        cond=lambda _, n: n > 0, initial=tensor(np.asarray([9, 1, 9], np.int32), batch), body=count_down, max_seq_len=2
    )
    assert dim.lengths.tolist() == [2, 1, 2] and left.numpy().tolist() == [7, 0, 7]


def test_scan_without_any_step_needs_only_examples():
    out, state, dim = rf.scan(cond=lambda _, n: n > 0, initial=rf.zeros([batch]), ys=rf.zeros([batch]), body=count_down)
    assert out.numpy().shape == (0, 3) and dim.extent == 0
    assert_same(state, rf.zeros([batch]))


def test_scan_carries_a_growing_cache():
    keys = Dim(0, name="keys")
    start = {"keys": rf.zeros([batch, keys]), "axis": keys}

    def body(frame, state):
        cache, axis = rf.cum_concat_step(frame, prev_accum=state["keys"], axis=state["axis"])
        return rf.reduce_sum(cache, axis=axis), {"keys": cache, "axis": axis}

    out, state, _ = rf.scan(spatial_dim=time, xs=x, initial=start, body=body)
    assert state["axis"].lengths.tolist() == [3, 1, 2]
    assert_same(rf.replace_dim(state["keys"], in_dim=state["axis"], out_dim=time)[0], x)
    assert_same(out, rf.cumsum(x, spatial_dim=time))


def test_scan_gives_tensor_arrays_if_asked():
    arrays, _, dim = rf.scan(spatial_dim=time, xs=x, initial=rf.zeros([batch]), body=add, return_tensor_arrays=True)
    assert len(arrays) == 3
    assert_same(arrays.stack(axis=dim), rf.cumsum(x, spatial_dim=time))


def test_the_gradient_of_scan_is_that_of_the_sum():
    raw = torch.ones(3, 3, requires_grad=True)
    source = rf.convert_to_tensor(raw, dims=[batch, time])
    _, total, _ = rf.scan(spatial_dim=time, xs=source, initial=rf.zeros([batch]), body=add)
    rf.reduce_sum(total, axis=batch).raw_tensor.backward()
    assert raw.grad.tolist() == [[1, 1, 1], [1, 0, 0], [1, 1, 0]]


def test_while_loop():
    i, y = rf.while_loop(lambda s: s[0] < 3, lambda s: (s[0] + 1, s[1] * 2), (0, rf.ones([feat])))
    assert i == 3
    assert_same(y, [8.0, 8.0])


def test_while_loop_asks_a_scalar_tensor():
    assert_same(rf.while_loop(lambda n: n < 5, lambda n: n + 2, rf.constant(0)), np.asarray(6))


def test_while_loop_may_change_a_dim_of_its_state():
    def body(state):
        return dict(
            zip(("keys", "axis"), rf.cum_concat_step(rf.ones([batch]), prev_accum=state["keys"], axis=state["axis"]))
        )

    keys = Dim(0, name="keys")
    state = rf.while_loop(lambda s: s["axis"].extent < 4, body, {"keys": rf.zeros([batch, keys]), "axis": keys})
    assert state["keys"].dims == (batch, state["axis"]) and state["axis"].extent == 4


def test_a_history_that_begins_empty_gets_the_feature_dim_of_its_frames():
    def step(s):
        frame = rf.full(dims=[batch, feat], fill_value=rf.cast(s["i"], "float32"), feature_dim=feat)
        accum, axis = rf.cum_concat_step(frame, prev_accum=s["accum"], axis=s["axis"])
        return {"i": s["i"] + 1, "accum": accum, "axis": axis}

    empty = Dim(0, name="history")
    initial = {"i": rf.constant(0, dims=[]), "accum": rf.zeros([empty, batch, feat]), "axis": empty}
    last = rf.while_loop(lambda s: s["i"] < 3, step, initial)
    assert last["accum"].feature_dim is feat and last["axis"].get_dim_value() == 3
    rows = np.broadcast_to(np.arange(3, dtype=np.float32)[:, None, None], (3, 3, 2))
    assert_same(last["accum"], tensor(rows, last["axis"], batch, feat))


def test_a_scan_that_begins_with_zeros_gets_the_feature_dim_of_its_layer():
    layer = rf.Linear(feat, feat)
    _, last, _ = rf.scan(
        spatial_dim=time, xs=x, initial=rf.zeros([batch, feat]), body=lambda _, h: (None, layer(h)), ys=None
    )
    assert last.feature_dim is feat


def test_the_width_of_integers_may_change_in_a_loop():
    labels = rf.constant(1, dims=[batch], dtype="int32", sparse_dim=feat)
    best_of = lambda s: (s[0] + 1, rf.reduce_argmax(randn(batch, feat), axis=feat))  # noqa: E731
    n, best = rf.while_loop(lambda s: s[0] < 2, best_of, (0, labels))
    assert n == 2 and best.dtype == "int64" and best.sparse_dim is feat

    template = rf.Tensor("y", dims=[batch], dtype="int32", sparse_dim=feat)
    wide = lambda frame, state: (rf.set_sparse_dim(rf.cast(frame, "int64"), feat), rf.cast(frame, "int64"))  # noqa: E731
    ys, last, _ = rf.scan(spatial_dim=time, xs=x, ys=template, initial=rf.cast(rf.zeros([batch]), "int32"), body=wide)
    assert (ys.dtype, last.dtype) == ("int64", "int64") and last.numpy().tolist() == [3, 4, 6]
    assert_same(rf.cast(rf.set_sparse_dim(ys, None), "float32"), x)


def test_a_scan_runs_under_autocast():
    linear = rf.Linear(feat, feat)
    xs = rf.expand_dim(x, feat)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        ys, last, _ = rf.scan(
            spatial_dim=time, xs=xs, ys=rf.Tensor("y", dims=[batch, feat], dtype="float32"),
            initial=rf.zeros([batch, feat], feature_dim=feat), body=lambda frame, state: 2 * (linear(frame + state),),
        )  # fmt: skip
    assert (ys.dtype, last.dtype) == ("bfloat16", "bfloat16")
    expected, _, _ = rf.scan(
        spatial_dim=time,
        xs=xs,
        initial=rf.zeros([batch, feat], feature_dim=feat),
        body=lambda frame, state: 2 * (linear(frame + state),),
    )
    np.testing.assert_allclose(
        rf.cast(ys, "float32").copy_masked(0).copy_transpose([batch, time, feat]).raw_tensor.detach(),
        expected.copy_masked(0).copy_transpose([batch, time, feat]).raw_tensor.detach(), rtol=0.05, atol=0.2,
    )  # fmt: skip


def test_entries_of_another_width_are_stacked():
    array = TensorArray(rf.Tensor("y", dims=[batch], dtype="int32"))
    array = array.push_back(tensor(np.int32([1, 2, 3]), batch)).push_back(tensor(np.int64([4, 5, 6]), batch))
    assert array.stack(axis=Dim(2, name="step")).numpy().tolist() == [[1, 2, 3], [4, 5, 6]]
    with pytest.raises(DimError, match="kind of dtype"):
        array.push_back(rf.zeros([batch]))


def test_cond_runs_one_branch():
    def never():
        raise AssertionError

    assert rf.cond(True, lambda: 1, never) == 1
    assert rf.cond(rf.reduce_any(x > 100, axis=[batch, time]), never, lambda: 2) == 2


def test_tensor_array():
    array = TensorArray.unstack(x, axis=time)
    assert_same(array[1], [2.0, -9.0, 6.0])
    assert_same(array[rf.constant(2)], array[2])
    longer = array.push_back(array[0] + 1)
    assert (len(array), len(longer)) == (3, 4)
    assert_same(array.stack(axis=time), x)
    assert_same(TensorArray(array[0]).stack(axis=Dim(None, name="none")).numpy().shape, (0, 3))


def test_a_tensor_array_is_cut_to_the_longest_sequence_of_its_axis():
    steps = TensorArray(rf.zeros([batch]))
    for step in range(5):
        steps = steps.push_back(rf.zeros([batch]) + step)
    with pytest.warns(UserWarning) as said:
        assert_same(steps.stack(axis=time), tensor([[0.0, 1.0, 2.0]] * 3, batch, time))
    assert str(said[0].message) == (
        "TensorArray.stack: the last 2 of 5 entries are left out.\n"
        "  entries  5\n"
        "  axis     time<=3 [3, 1, 2]\n"
        "The longest sequence has ended before them. If they belong to it, the lengths are those of another axis; if not, push no more:\n"
        "    for step in range(time.extent):    # or a state of a loop over time"
    )
    with pytest.raises(DimError, match="stack: out_dim has another size"):
        steps.stack(axis=ragged([9, 9, 1], batch))
    with pytest.raises(DimError, match="stack: out_dim has another size"):
        steps.stack(axis=Dim(3, name="static"))


def test_the_step_in_which_the_last_sequence_ends_is_left_out_of_an_array():
    steps = TensorArray(rf.zeros([batch]), items=[rf.zeros([batch]) + step for step in range(4)])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert_same(steps.stack(axis=time), tensor([[0.0, 1.0, 2.0]] * 3, batch, time))


@pytest.mark.parametrize("lengths", [[3, 3], [3, 1], [1, 3]])
def test_a_beam_made_anew_in_each_step_fits_the_last_state(lengths):
    """Also where a sequence has ended before: its hypotheses are those of its last step."""
    pair = Dim(2, name="pair")
    frames, vocab, beam = ragged(lengths, pair, "frames"), Dim(3, name="vocab"), Dim(1, name="beam")

    def step(frame, state):
        scores = rf.combine_bc(state["scores"], "add", frame)
        best, (parents, _), k_dim = rf.top_k(scores, axis=[state["beam"], vocab], k=2)
        return parents, {"scores": best, "beam": k_dim}

    inputs, initial = randn(pair, frames, vocab), {"scores": rf.zeros([pair, beam]), "beam": beam}
    parents, last, _ = rf.scan(spatial_dim=frames, xs=inputs, initial=initial, body=step, return_tensor_arrays=True)
    assert last["beam"] in parents[2].dims and set(last["scores"].dims) == {pair, last["beam"]}
    rf.gather(last["scores"], indices=parents[2], axis=last["beam"])
    for sequence, length in enumerate(lengths):
        sums = sum(np.meshgrid(*inputs.numpy()[sequence, :length], indexing="ij"))
        np.testing.assert_allclose(np.sort(last["scores"].numpy()[sequence]), np.sort(np.ravel(sums))[-2:], rtol=1e-5)


def test_floats_of_a_state_are_no_indices():
    """Positions are computed from integers that index into a dim; as floats they go with any others."""
    positions = rf.cast(rf.range_over_dim(batch), "float32")
    for initial, step in ((positions, rf.ones([batch])), (rf.ones([batch]), positions)):
        ys, last, _ = rf.scan(
            spatial_dim=time, xs=x, initial=initial, body=lambda _, h, step=step: (h, step),
            ys=rf.Tensor("y", dims=[batch], dtype="float32"),
        )  # fmt: skip
        assert_same(rf.cast(last, "float32"), step)
        assert_same(rf.gather(ys, axis=time, indices=0), initial)


ERRORS = {
    "cond of several values": (
        lambda: rf.cond(x > 0, lambda: 1, lambda: 2),
        TypeError,
        """
        cond: not one bool.
          pred  [batch=3, time<=3] bool
        A branch is taken for all sequences at once. To choose for each of them:
            rf.where(pred, a, b)
        """,
    ),
    "another structure": (
        lambda: rf.while_loop(lambda s: True, lambda s: {"b": 1}, {"a": 1}),
        ValueError,
        """
        while_loop, step 0: the structure of the state changed.
          before  dict(a=int)
          after   dict(b=int)
        Every step gives a state with the same parts.
        """,
    ),
    "other dims": (
        lambda: rf.while_loop(lambda s: True, lambda s: {"h": rf.ones([feat])}, {"h": rf.ones([batch])}),
        DimError,
        """
        while_loop, step 0: "h" changed.
          before  [batch=3] float32
          after   [feat=2] float32
        A Tensor of the state keeps its dims, kind of dtype, sparse_dim and feature_dim in every step.
        """,
    ),
    "another feature_dim": (
        lambda: rf.while_loop(
            lambda s: True, lambda s: rf.zeros([batch, feat]), rf.zeros([batch, feat], feature_dim=feat)
        ),
        DimError,
        """
        while_loop, step 0: the state changed.
          before  [batch=3, feat=2] float32, feature_dim feat=2
          after   [batch=3, feat=2] float32
        A Tensor of the state keeps its dims, kind of dtype, sparse_dim and feature_dim in every step.
            initial.feature_dim = None      # of the initial state
        """,
    ),
    "another sparse_dim": (
        lambda: rf.while_loop(
            lambda s: True, lambda s: {"label": rf.range_over_dim(batch)}, {"label": rf.zeros([batch], dtype="int32")}
        ),
        DimError,
        """
        while_loop, step 0: "label" changed.
          before  [batch=3] int32
          after   [batch=3] int32, sparse over batch=3
        A Tensor of the state keeps its dims, kind of dtype, sparse_dim and feature_dim in every step.
            label.sparse_dim = batch      # of the initial state
        """,
    ),
    "another dtype": (
        lambda: rf.while_loop(lambda s: True, lambda s: s / 2, rf.ones([batch], dtype="int32")),
        DimError,
        """
        while_loop, step 0: the state changed.
          before  [batch=3] int32
          after   [batch=3] float32
        A Tensor of the state keeps its dims, kind of dtype, sparse_dim and feature_dim in every step.
            initial = rf.cast(initial, "float32")      # of the initial state
        """,
    ),
    "one more dim": (
        lambda: rf.while_loop(lambda s: True, lambda s: (rf.ones([batch, feat]),), (rf.ones([batch]),)),
        DimError,
        """
        while_loop, step 0: "0" changed.
          before  [batch=3] float32
          after   [batch=3, feat=2] float32
        A Tensor of the state keeps its dims, kind of dtype, sparse_dim and feature_dim in every step.
            initial = rf.expand_dim(initial, dim=feat)      # of the initial state
        """,
    ),
    "what push_back gave was not kept": (
        lambda: [
            array := TensorArray(rf.ones([batch])),
            array.push_back(rf.ones([batch])),
            array.stack(axis=Dim(None, name="out")),
        ],
        ValueError,
        """
        TensorArray.stack: no entries.
          pushed    1
          template  [batch=3]
        An array never changes: push_back returns a new, longer one.
            array = array.push_back(tensor)
        """,
    ),
    "scan without length": (
        lambda: rf.scan(xs=x, body=add),
        ValueError,
        """
        scan: how many steps?
          spatial_dim  None
          cond         None
          xs           given
        Either spatial_dim determines it (and xs have that dim), or cond does in each step.
            rf.scan(spatial_dim=time, xs=x, initial=..., body=...)
        """,
    ),
    "scan without any step": (
        lambda: rf.scan(cond=lambda _, n: n > 0, initial=rf.zeros([batch]), body=count_down),
        ValueError,
        """
        scan: no step has run.
          spatial_dim  scan<=0
          ys           None
        Then the form of the outputs is unknown. Give an example of each:
            rf.scan(..., ys=rf.Tensor("y", dims=[...], dtype="float32"))
        """,
    ),
    "a condition that is no bool": (
        lambda: rf.scan(cond=lambda _, n: n, initial=rf.zeros([batch]), body=count_down),
        TypeError,
        """
        scan, step 0: cond gives no bool Tensor.
          cond  [batch=3] float32
        It says for each sequence whether it continues.
            cond=lambda x, state: state.length < limit
        """,
    ),
    "an entry unlike the others": (
        lambda: TensorArray.unstack(x, axis=time).push_back(randn(feat)),
        DimError,
        """
        TensorArray.push_back: not like the template.
          template  Tensor{'', [batch=3] (template)}
          tensor    Tensor{'', [feat=2]}
        All entries have the same dims, kind of dtype and sparse_dim.
        """,
    ),
}


@pytest.mark.parametrize(("call", "error", "text"), ERRORS.values(), ids=ERRORS)
def test_error(call, error, text):
    with raises_message(error, text):
        call()


@pytest.mark.parametrize("arrays", [False, True])
def test_scan_without_outputs(arrays):
    out, total, _ = rf.scan(
        spatial_dim=time,
        xs=x,
        initial=rf.zeros([batch]),
        body=lambda x_t, s: (None, s + x_t),
        return_tensor_arrays=arrays,
    )
    assert out is None
    assert_same(total, rf.reduce_sum(x, axis=time))


def test_scan_with_some_outputs_that_are_none():
    out, _, dim = rf.scan(
        spatial_dim=time, xs=x, initial=rf.zeros([batch]), body=lambda x_t, s: ({"y": x_t, "no": None}, s)
    )
    assert dim is time and out["no"] is None
    assert_same(out["y"], x)


def test_outputs_that_change_their_structure():
    steps = iter([True, False, False])
    with raises_message(
        ValueError,
        """
        scan, step 1: the structure of the outputs changed.
          before  Tensor [batch=3]
          now     None
        Every step gives the same outputs; None where there is none in any step.
        """,
    ):
        rf.scan(
            spatial_dim=time, xs=x, initial=rf.zeros([batch]), body=lambda x_t, s: (x_t if next(steps) else None, s)
        )


def test_scan_with_another_beam_in_each_step():
    """As top_k(..., k_dim=Dim(3)) makes one in each step. A sequence that has ended keeps its beam."""
    beam0, sizes = Dim(1, name="beam0"), iter([3, 2, 4])
    made = []

    def body(x_t, s):
        beam = Dim(next(sizes), name="beam")
        made.append(beam)
        y = rf.reduce_mean(
            rf.combine_bc(s["h"] + x_t, "mul", rf.range_over_dim(beam, dtype="float32") + 1.0), axis=s["beam"]
        )
        return y, {"h": y, "beam": beam}

    ys, last, _ = rf.scan(
        spatial_dim=time, body=body, xs=x, return_tensor_arrays=True, ys=rf.Tensor("y", dims=[batch, beam0], dtype="float32"),
        initial={"h": rf.zeros([batch, beam0]), "beam": beam0},
    )  # fmt: skip
    assert [set(y.dims) for y in ys] == [{batch, beam} for beam in made]
    assert last["beam"].get_size_tensor().numpy().tolist() == [4, 3, 2]  # of 3, 1, 2 frames
    assert_same(rf.gather(last["h"], indices=1, axis=batch).copy_masked(0), rf.gather(last["h"], indices=1, axis=batch))
    first = ys[0].copy_transpose([batch, made[0]]).numpy()
    np.testing.assert_allclose(first, np.array([[1.0], [4.0], [5.0]]) * [1, 2, 3])
    np.testing.assert_allclose(last["h"].copy_transpose([batch, last["beam"]]).numpy()[1, :3], [4, 8, 12])


def test_entries_that_differ_cannot_be_stacked():
    array = rf.TensorArray(rf.Tensor("y", dims=[batch], dtype="float32"), _enable_delayed_check=True)
    array = array.push_back(rf.zeros([batch])).push_back(rf.zeros([batch, feat]))
    assert len(array) == 2
    with raises_message(
        DimError,
        """
        TensorArray.stack: not like the template.
          template  Tensor{'', [batch=3]}
          tensor    Tensor{'', [batch=3, feat=2]}
        All entries have the same dims, kind of dtype and sparse_dim.
        """,
    ):
        array.stack(axis=Dim(2, name="steps"))
