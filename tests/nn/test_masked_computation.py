"""Masked computation: what the golden data do not say."""

import numpy as np
import pytest
import torch
from asserting import assert_same, ragged, raises_message, randn, tensor, with_nan_padding
from loop_faces import FACES, gradients, run_face

import rfnb as rf
from rfnb import Dim, DimError, single_step_dim

batch, feat, out_dim = Dim(3, name="batch"), Dim(4, name="feat"), Dim(6, name="out")
MASK = np.array([[1, 0, 0, 1, 1, 0, 1], [0, 0, 1, 0, 1, 0, 0], [0, 0, 0, 0, 0, 0, 0]], bool)


@pytest.fixture
def time():
    return ragged([7, 4, 0], batch)


def attention(kind, **options):
    dims = {"key_dim_total": Dim(8, name="keys"), "value_dim_total": Dim(4, name="values"), "num_heads": 2}
    return getattr(rf, kind)(feat, out_dim, **dims, att_dropout=0.0, **options)


UNITS = {
    "LSTM": lambda: rf.LSTM(feat, out_dim),
    "GRUCell": lambda: rf.GRUCell(feat, out_dim),
    "Rec": lambda: rf.Rec("lstm", feat, out_dim),
    **{
        kind: lambda kind=kind: attention(kind)
        for kind in ("CausalSelfAttention", "RotaryPosCausalSelfAttention", "RelPosCausalSelfAttention")
    },
    "QKVSelfAttention": lambda: rf.QKVSelfAttention(
        feat, key_dim_total=Dim(8, name="keys"), value_dim_total=out_dim, num_heads=2, attention_left_only=True
    ),
    "MaskedComputation": lambda: Nested(rf.LSTM(feat, out_dim)),
}


class Nested(rf.Module):
    """A unit that skips frames itself: those with a feature 0 below 0."""

    def __init__(self, unit):
        self.masked, self.out_dim = rf.MaskedComputation(unit), unit.out_dim

    def __call__(self, source, *, state, spatial_dim):
        mask, initial = rf.gather(source, indices=0, axis=feat) > 0.0, state.output
        if spatial_dim is single_step_dim:
            return self.masked(source, mask=mask, in_spatial_dim=spatial_dim, state=state)
        packed = Dim(None, name="inner")
        out, state = self.masked(source, mask=mask, in_spatial_dim=spatial_dim, out_spatial_dim=packed, state=state)
        return rf.unmask(out, mask=mask, axis=spatial_dim, in_spatial_dim=packed, initial=initial)[0], state

    def default_initial_state(self, *, batch_dims):
        return self.masked.default_initial_state(batch_dims=batch_dims)


@pytest.mark.parametrize("name", UNITS)
@pytest.mark.parametrize("face", FACES)
def test_step_by_step_and_packed_are_the_same(time, name, face):
    rf.set_random_seed(1)
    masked = rf.MaskedComputation(UNITS[name]())
    x, mask = randn(batch, time, feat), tensor(MASK, batch, time)

    def steps():
        def body(loop):
            y, loop.state.m = masked(
                loop.unstack(x), mask=loop.unstack(mask), in_spatial_dim=single_step_dim, state=loop.state.m
            )
            return loop.stack(y)

        return run_face(face, body, axis=time, m=masked.default_initial_state(batch_dims=[batch]))[0]

    def whole():
        packed = Dim(None, name="packed")
        y, _ = masked(x, mask=mask, in_spatial_dim=time, out_spatial_dim=packed)
        return rf.unmask(y, mask=mask, axis=time, in_spatial_dim=packed)[0]

    assert_same(steps(), whole())
    of_steps, of_whole = gradients(masked, x, of=steps), gradients(masked, x, of=whole)
    for key, gradient in of_whole.items():
        torch.testing.assert_close(of_steps[key], gradient, msg=key, atol=1e-4, rtol=1e-3)


def test_the_state_is_frozen_where_the_mask_is_false(time):
    rf.set_random_seed(1)
    masked = rf.MaskedComputation(rf.LSTM(feat, out_dim))
    before = rf.State(
        output=randn(batch, out_dim),
        unit=rf.LstmState(h=randn(batch, out_dim, seed=1), c=randn(batch, out_dim, seed=2)),
    )
    x, mask = randn(batch, feat), tensor([True, False, True], batch)
    y, after = masked(x, mask=mask, in_spatial_dim=single_step_dim, state=before)
    plain, new = masked.unit(x, state=before.unit, spatial_dim=single_step_dim)
    assert_same(y, rf.where(mask, plain, before.output))
    assert_same(after.output, y)
    for part in ("h", "c"):
        assert_same(after.unit[part], rf.where(mask, new[part], before.unit[part]))


def test_the_state_after_packed_frames_goes_on_step_by_step(time):
    masked, packed = rf.MaskedComputation(rf.LSTM(feat, out_dim)), Dim(None, name="packed")
    x, mask = randn(batch, time, feat), tensor(MASK, batch, time)
    start = rf.State(output=randn(batch, out_dim), unit=masked.unit.default_initial_state(batch_dims=[batch]))
    y, state = masked(x, mask=mask, in_spatial_dim=time, out_spatial_dim=packed, state=start)
    assert_same(state.output, rf.where(packed.get_size_tensor() > 0, rf.last_frame(y, axis=packed), start.output))


def test_packed_frames_are_those_where_the_mask_is_true_without_gaps(time):
    x, packed = tensor(np.arange(21.0).reshape(3, 7), batch, time), Dim(None, name="packed")
    y, _ = rf.MaskedComputation(lambda x: x)(
        with_nan_padding(x),
        mask=with_nan_padding(tensor(MASK, batch, time)),
        in_spatial_dim=time,
        out_spatial_dim=packed,
    )
    assert y.numpy().tolist() == [[0, 3, 4, 6], [9, 0, 0, 0], [0, 0, 0, 0]]
    assert packed.lengths.tolist() == [4, 1, 0]


def test_several_sources_and_those_without_the_dim(time):
    x, mask, packed = randn(batch, time, feat), tensor(MASK, batch, time), Dim(None, name="packed")
    shift = randn(batch, feat, seed=5)
    y, _ = rf.MaskedComputation(lambda a, b, c: a + b * 2 + c)(
        x, x, shift, mask=mask, in_spatial_dim=time, out_spatial_dim=packed
    )
    assert_same(y, rf.masked_select(x * 3 + shift, mask=mask, dims=[time], out_dim=packed)[0])


def test_masked_from_is_taken_as_it_is(time):
    masked, packed = rf.MaskedComputation(rf.LSTM(feat, out_dim)), Dim(None, name="packed")
    x, mask = randn(batch, time, feat), tensor(MASK, batch, time)
    options = {"mask": mask, "in_spatial_dim": time, "out_spatial_dim": packed}
    expected, _ = masked(x, **options)
    assert_same(
        masked(masked_from=rf.masked_select(x, mask=mask, dims=[time], out_dim=packed)[0], **options)[0], expected
    )


def test_without_mask_it_is_the_plain_computation(time):
    masked = rf.MaskedComputation(rf.GRUCell(feat, out_dim))
    x = randn(batch, time, feat)
    state = masked.default_initial_state(batch_dims=[batch])
    y, _ = masked(x, mask=None, in_spatial_dim=time, state=state)
    assert_same(y, masked.unit(x, spatial_dim=time)[0])
    frame = randn(batch, feat)
    y, after = masked(frame, mask=None, in_spatial_dim=single_step_dim, state=state)
    assert_same(after.output, y)


def test_the_initial_output_is_that_of_the_unit(time):
    masked = rf.MaskedComputation(rf.LSTM(feat, out_dim))
    unit = rf.LstmState(h=randn(batch, out_dim), c=randn(batch, out_dim, seed=1))
    assert_same(masked.default_initial_state(batch_dims=[batch], unit=unit).output, unit.h)
    given = randn(batch, out_dim, seed=7)
    assert_same(masked.default_initial_state(batch_dims=[batch], output=given).output, given)


def test_an_empty_sequence_of_all(time):
    masked, packed, empty = (
        rf.MaskedComputation(rf.LSTM(feat, out_dim)),
        Dim(None, name="packed"),
        ragged([0, 0, 0], batch),
    )
    mask = tensor(np.zeros((3, 0), bool), batch, empty)
    y, _ = masked(randn(batch, empty, feat), mask=mask, in_spatial_dim=empty, out_spatial_dim=packed)
    assert y.dims[:2] in [(batch, packed), (packed, batch)] and packed.extent == 0
    assert rf.unmask(y, mask=mask, axis=empty, in_spatial_dim=packed)[0].numpy().size == 0


def test_positions_count_the_steps_that_were_not_skipped(time):
    encoding = rf.PositionalEncoding(feat)
    masked = rf.MaskedComputation(
        lambda x, state, axis: encoding(x, axis=axis, state=state), out_dim=feat
    )  # fmt: skip
    x, mask, packed = randn(batch, time, feat), tensor(MASK, batch, time), Dim(None, name="packed")

    def body(loop):
        y, loop.state.m = masked(
            loop.unstack(x), mask=loop.unstack(mask), in_spatial_dim=single_step_dim, state=loop.state.m
        )
        return loop.stack(y)

    unit = encoding.default_initial_state(batch_dims=[batch])
    start = masked.default_initial_state(batch_dims=[batch], unit=unit)
    y, _ = masked(x, mask=mask, in_spatial_dim=time, out_spatial_dim=packed, state=start)
    expected, _ = rf.unmask(y, mask=mask, axis=time, in_spatial_dim=packed)
    for face in FACES:
        got, states = run_face(face, body, axis=time, m=start)
        assert_same(got, expected)
        assert states.m.unit.index.numpy().tolist() == [3, 0, -1]


@pytest.mark.parametrize("face", FACES)
def test_a_history_has_the_frames_of_steps_that_were_not_skipped(time, face):
    x, mask = randn(batch, time, feat), tensor(MASK, batch, time)

    def body(loop):
        frame = loop.unstack(x)

        def unit(state):
            frames, history, state = rf.cum_concat(frame, axis=single_step_dim, state=state)
            return rf.reduce_sum(frames, axis=history), state

        total, loop.state.m = rf.masked_computation(unit, mask=loop.unstack(mask), state=loop.state.m)
        return loop.stack(total)

    start = rf.State(output=rf.zeros([batch, feat]), unit=rf.cum_concat_initial_state([batch, feat]))
    got, states = run_face(face, body, axis=time, m=start)
    assert_same(got, rf.cumsum(rf.where(mask, x, 0.0), spatial_dim=time))


# -- errors ------------------------------------------------------------------------------------------------------------
def test_errors_of_masked_computation(time):
    masked = rf.MaskedComputation(rf.LSTM(feat, out_dim))
    x, mask = randn(batch, time, feat), tensor(MASK, batch, time)
    with raises_message(
        ValueError,
        """
        MaskedComputation: the mask is not bool.
          mask  [batch=3, time<=7, feat=4] float32
        It is True for the frames that are computed.
            mask = labels != blank
        """,
    ):
        masked(x, mask=x, in_spatial_dim=time)
    with raises_message(
        ValueError,
        """
        MaskedComputation: over which dim?
          in_spatial_dim   time<=7
          out_spatial_dim  None
          mask             [batch=3, time<=7]
        The frames of one dim become those of another one, which has the lengths of the mask. Name both:
            masked(x, mask=mask, in_spatial_dim=time, out_spatial_dim=Dim(None, name="packed"))
        """,
    ):
        masked(x, mask=mask, in_spatial_dim=time)
    with raises_message(
        DimError,
        """
        MaskedComputation: the mask has no dim time<=7.
          mask            [batch=3]
          in_spatial_dim  time<=7
        The mask says for each frame whether it is there. In a step of a loop there is no such dim:
            masked(x, mask=mask, in_spatial_dim=rf.single_step_dim, state=state)
        """,
    ):
        masked(x, mask=tensor([True] * 3, batch), in_spatial_dim=time, out_spatial_dim=Dim(None, name="packed"))
    with raises_message(
        ValueError,
        """
        MaskedComputation: a single step without state.
          sources  [batch=3, feat=4]
        A skipped step repeats the output of the previous one.
            state = masked.default_initial_state(batch_dims=[batch])
        """,
    ):
        masked(randn(batch, feat), mask=tensor([True] * 3, batch), in_spatial_dim=single_step_dim)
    with raises_message(
        ValueError,
        """
        MaskedComputation: what is the output before the first frame?
          unit  function
        The unit has no out_dim that would tell the features of its output.
            rf.MaskedComputation(unit, out_dim=out_dim)
        """,
    ):
        rf.MaskedComputation(lambda x: x).default_initial_state(batch_dims=[batch])
    packed = ragged([3, 1, 0], batch, "packed")
    with raises_message(
        ValueError,
        """
        MaskedComputation: masked_from has other lengths than the mask.
          masked_from  [batch=3, packed<=3, feat=4]
          mask         [batch=3, time<=7]
        Each sequence of packed has as many frames as its mask is True.
        """,
    ):
        masked(masked_from=randn(batch, packed, feat), mask=mask, in_spatial_dim=time, out_spatial_dim=packed)
    with raises_message(
        ValueError,
        """
        masked_computation: the mask is not bool.
          mask  [batch=3, feat=4] float32
        It is True for the frames that are computed.
            mask = labels != blank
        """,
    ):
        rf.masked_computation(lambda state: (x, state), mask=randn(batch, feat), state=rf.State())


def test_packed_input_is_not_for_a_step(time):
    masked = rf.MaskedComputation(rf.LSTM(feat, out_dim))
    state = masked.default_initial_state(batch_dims=[batch])
    with raises_message(
        ValueError,
        """
        MaskedComputation: masked_from in a single step.
          masked_from  [batch=3, time<=7, feat=4]
        Frames that are packed before the loop are computed before it, too; each step takes its frame of the result:
            out, loop.state.u = rf.unmask(packed_out, mask=mask, axis=rf.single_step_dim, in_spatial_dim=packed, state=loop.state.u)
        """,
    ):
        mask = tensor([True] * 3, batch)
        masked(masked_from=randn(batch, time, feat), mask=mask, in_spatial_dim=single_step_dim, state=state)
