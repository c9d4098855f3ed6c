"""A lookup by a dim that a square weight has twice gives its input side, so code for any two dims also works if they are one."""

import numpy as np
import pytest
from asserting import assert_same, ragged, randn, tensor
from loop_faces import FACES, run_face

import rfnb as rf
from rfnb import Dim

batch, feat, other = Dim(2, name="batch"), Dim(3, name="feat"), Dim(3, name="other")
time = ragged([4, 2], batch)
ROWS = rf.dim_match_priority_when_needed(feat, feat)
LABELS = tensor([2, 0], batch, sparse_dim=feat)
two = Dim(2, name="two")


def weight(rows, *, columns_first=False):
    """The same square weight, with this dim on the input side."""
    x = tensor(np.arange(9.0).reshape(3, 3) ** 1.5, rows, feat)
    return x.copy_transpose([feat, rows]) if columns_first else x


# f(weight, its input side): {..., feat}, the same for both.
LOOKUPS = {
    "matmul": lambda w, dim: rf.matmul(over(dim, randn(batch, time, feat)), w, reduce=dim),
    "matmul, the weight first": lambda w, dim: rf.matmul(w, over(dim, randn(batch, feat)), reduce=dim),
    "matmul of two weights": lambda w, dim: rf.matmul(w, w * 2.0, reduce=dim),
    "matmul over two dims": lambda w, dim: rf.matmul(
        over(dim, randn(batch, two, feat)), rf.combine_bc(w, "*", randn(two)), reduce=[two, dim]
    ),
    "gather": lambda w, dim: rf.gather(w, indices=rf.set_sparse_dim(LABELS, dim), axis=dim),
    "gather by the sparse_dim": lambda w, dim: rf.gather(w, indices=rf.set_sparse_dim(LABELS, dim)),
    "gather of one": lambda w, dim: rf.gather(w, indices=1, axis=dim),
    "gather with clipping": lambda w, dim: rf.gather(w, indices=LABELS + 1, axis=dim, clip_to_valid=True),
    "gather for each feature": lambda w, dim: rf.gather(w, indices=tensor([2, 0, 1], feat), axis=dim),
    "reduce_sum": lambda w, dim: rf.reduce_sum(w, axis=dim),
    "reduce_mean": lambda w, dim: rf.reduce_mean(w, axis=dim),
    "reduce_logsumexp": lambda w, dim: rf.reduce_logsumexp(w, axis=dim),
    "reduce_argmax": lambda w, dim: rf.set_sparse_dim(rf.reduce_argmax(w - 20.0 * (w > 5.0), axis=dim), None),
    "top_k": lambda w, dim: rf.top_k(w, axis=dim, k_dim=two)[0],
    "softmax": lambda w, dim: over(other, rf.softmax(w, axis=dim), w, dim),
    "log_softmax": lambda w, dim: over(other, rf.log_softmax(w, axis=dim), w, dim),
}


def over(dim, x, like=None, old=feat):
    """x with `dim` in place of `old`, or of its twin where `like` has one."""
    if like is not None and ROWS in like.dims:
        old = ROWS
    return x if dim is old else rf.replace_dim(x, in_dim=old, out_dim=dim)[0]


@pytest.mark.parametrize("columns_first", [False, True])
@pytest.mark.parametrize("name", LOOKUPS)
def test_a_square_weight_is_used_as_any_other(name, columns_first):
    square = LOOKUPS[name](weight(ROWS, columns_first=columns_first), feat)
    assert_same(square, LOOKUPS[name](weight(other, columns_first=columns_first), other))


def test_what_is_found_indexes_into_the_dim_that_was_named():
    assert rf.reduce_argmax(weight(ROWS), axis=feat).sparse_dim is feat
    assert rf.top_k(weight(ROWS), axis=feat, k=2)[1].sparse_dim is feat


def test_a_twin_is_looked_up_by_itself():
    lower = feat.copy(match_priority=-1)
    x = randn(feat, lower)
    assert rf.reduce_sum(x, axis=lower).dims == (feat,)
    assert rf.reduce_sum(x, axis=feat).dims == (lower,)
    assert rf.reduce_sum(weight(ROWS), axis=ROWS).dims == (feat,)
    assert rf.reduce_sum(weight(ROWS), axis=[feat, ROWS]).dims == ()
    x = randn(batch, feat)
    assert_same(
        rf.matmul(over(ROWS, x), weight(ROWS), reduce=ROWS), tensor(x.numpy() @ weight(ROWS).numpy(), batch, feat)
    )


def test_gradients_are_those_of_the_input_side():
    found = []
    for rows in (ROWS, other):
        x, w = randn(batch, feat), weight(rows)
        rf.set_requires_gradient(w)
        dim = feat if rows is ROWS else other
        y = rf.matmul(over(dim, x), w, reduce=dim)
        gradient = rf.gradient(rf.reduce_sum(y * randn(batch, feat, seed=1), axis=[batch, feat]), w)
        found.append(gradient.copy_transpose([rows, feat]).numpy())
    assert np.array_equal(*found)


@pytest.mark.parametrize("face", FACES)
def test_a_recurrent_weight_in_a_loop(face):
    w, x = weight(ROWS) * 0.1, randn(batch, time, feat)

    def body(loop):
        loop.state.h = rf.tanh(rf.matmul(loop.state.h, w, reduce=feat) + loop.unstack(x))

    _, state = run_face(face, body, axis=time, h=rf.zeros([batch, feat]))
    h, xs = np.zeros((2, 3)), x.numpy()
    for step in range(4):
        new = np.tanh(h @ w.numpy() + xs[:, step])
        h = np.where(np.asarray([[step < 4], [step < 2]]), new, h)
    assert_same(state.h, tensor(h, batch, feat))
