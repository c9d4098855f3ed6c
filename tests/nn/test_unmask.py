"""unmask: each frame until the next one, of whole sequences and step by step."""

import numpy as np
import pytest
from asserting import assert_same, ragged, raises_message, randn, tensor, with_nan_padding
from loop_faces import FACES, run_face

import rfnb as rf
from rfnb import Dim, DimError, single_step_dim

batch, feat, out_dim = Dim(3, name="batch"), Dim(4, name="feat"), Dim(6, name="out")
MASK = np.array([[1, 0, 0, 1, 1, 0, 1], [0, 0, 1, 0, 1, 0, 0], [0, 0, 0, 0, 0, 0, 0]], bool)


@pytest.fixture
def time():
    return ragged([7, 4, 0], batch)


def test_unmask_repeats_until_the_next_frame(time):
    packed = ragged([4, 1, 0], batch, "packed")
    source = with_nan_padding(tensor([[1.0, 2, 3, 4], [5, 0, 0, 0], [0, 0, 0, 0]], batch, packed))
    mask = tensor(MASK, batch, time)
    out, state = rf.unmask(source, mask=mask, axis=time, in_spatial_dim=packed, initial=-1.0)
    assert out.numpy()[0].tolist() == [1, 1, 1, 2, 3, 3, 4]
    assert out.numpy()[1, :4].tolist() == [-1, -1, 5, 5]
    assert state.index.numpy().tolist() == [3, 0, -1]


@pytest.mark.parametrize("face", FACES)
def test_unmask_of_one_step_counts(time, face):
    packed = ragged([4, 1, 0], batch, "packed")
    source, mask = randn(batch, packed, feat), tensor(MASK, batch, time)
    initial = randn(feat, seed=4)

    def body(loop):
        out, loop.state.u = rf.unmask(
            source,
            mask=loop.unstack(mask),
            axis=single_step_dim,
            in_spatial_dim=packed,
            initial=initial,
            state=loop.state.u,
        )
        return loop.stack(out)

    got, states = run_face(face, body, axis=time, u=rf.unmask_initial_state(batch_dims=[batch]))
    whole, after = rf.unmask(source, mask=mask, axis=time, in_spatial_dim=packed, initial=initial)
    assert_same(got, whole)
    assert_same(states.u.index, after.index)


def test_unmask_goes_on_with_the_next_part_of_a_sequence(time):
    packed = ragged([4, 1, 0], batch, "packed")
    source, mask = randn(batch, packed), tensor(MASK, batch, time)
    whole, after = rf.unmask(source, mask=mask, axis=time, in_spatial_dim=packed)
    first, second = ragged([3, 1, 0], batch, "first"), ragged([4, 3, 0], batch, "second")
    cut = np.array([[0, 0, 1, 1], [0, 1, 0, 0], [0, 0, 0, 0]], bool)
    cut[0] = MASK[0, 3:]
    cut[1, :3] = MASK[1, 1:4]
    a, state = rf.unmask(source, mask=tensor(MASK[:, :3], batch, first), axis=first, in_spatial_dim=packed)
    b, state = rf.unmask(source, mask=tensor(cut, batch, second), axis=second, in_spatial_dim=packed, state=state)
    assert_same(state.index, after.index)
    joined, _ = rf.concat((a, first), (b, second), out_dim=time)
    assert_same(joined, whole)


def test_errors_of_unmask(time):
    packed = ragged([4, 1, 0], batch, "packed")
    source, mask = randn(batch, packed), tensor(MASK, batch, time)
    with raises_message(
        ValueError,
        """
        unmask: the mask is not bool.
          mask  [batch=3, time<=7] float32
        It is True where the next frame begins.
            mask = labels != blank
        """,
    ):
        rf.unmask(source, mask=randn(batch, time), axis=time, in_spatial_dim=packed)
    with raises_message(
        ValueError,
        """
        unmask: a single step without state.
          source  [batch=3, packed<=4]
          mask    [batch=3]
        Which frame it is depends on how many came before.
            state = rf.unmask_initial_state(batch_dims=[batch])
        """,
    ):
        rf.unmask(source, mask=tensor([True] * 3, batch), axis=single_step_dim, in_spatial_dim=packed)
    with raises_message(
        DimError,
        """
        unmask: no dim packed<=4.
          source  [batch=3, time<=7]
          dim     packed<=4
        The dim packed<=4 is not among the dims of source.
            source.dims[0]    # batch=3
            source.dims[1]    # time<=7
        """,
    ):
        rf.unmask(randn(batch, time), mask=mask, axis=time, in_spatial_dim=packed)
    with raises_message(
        DimError,
        """
        unmask: no dim time<=7.
          mask  [batch=3, packed<=4]
          dim   time<=7
        The dim time<=7 is not among the dims of mask.
            mask.dims[0]    # batch=3
            mask.dims[1]    # packed<=4
        """,
    ):
        rf.unmask(source, mask=source > 0, axis=time, in_spatial_dim=packed)
