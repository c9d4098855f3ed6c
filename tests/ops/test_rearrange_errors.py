"""Rearranging what does not fit: the error says what, and the next line to type."""

import numpy as np
import pytest
from asserting import ragged, raises_message, randn, tensor

import rfnb as rf
from rfnb import Dim, DimError

batch, feat, out = Dim(3, name="batch"), Dim(2, name="feat"), Dim(5, name="out")
one, two, three = (Dim(size, name=name) for size, name in ((1, "one"), (2, "two"), (3, "three")))
time, source = ragged([3, 1, 2], batch), ragged([1, 2, 0], batch, "source")
x = tensor([[1.0, 2.0, 3.0], [4.0, -9.0, -9.0], [5.0, 6.0, -9.0]], batch, time)
y = tensor([[10.0, -9.0], [20.0, 30.0], [-9.0, -9.0]], batch, source)


def ints(values, *dims, sparse_dim=None):
    return tensor(np.asarray(values, np.int32), *dims, sparse_dim=sparse_dim)


SAME_DIM_TWICE = {
    "split": lambda: rf.split(randn(batch, out), axis=out, out_dims=[batch, feat]),
    "split_dims": lambda: rf.split_dims(randn(feat, 2 * feat), axis=2 * feat, dims=[two, feat]),
    "merge_dims": lambda: rf.merge_dims(randn(batch, three, one), dims=[three, one], out_dim=batch),
    "stack": lambda: rf.stack([randn(batch), randn(batch), randn(batch)], out_dim=batch),
    "slice": lambda: rf.slice(randn(batch, out), axis=out, end=3, out_dim=batch),
    "pad": lambda: rf.pad(randn(batch, feat), axes=[feat], padding=[(0, 1)], out_dims=[batch]),
    "concat": lambda: rf.concat((randn(batch, feat), feat), (randn(batch, one), one), out_dim=batch),
    "replace_dim": lambda: rf.replace_dim(randn(batch, three), in_dim=three, out_dim=batch),
    "top_k": lambda: rf.top_k(randn(batch, out), axis=out, k_dim=batch),
}


@pytest.mark.parametrize("call", SAME_DIM_TWICE.values(), ids=SAME_DIM_TWICE)
def test_a_result_never_has_a_dim_twice(call):
    with pytest.raises(DimError, match="the same dim twice"):
        call()


def _char():
    return ragged(np.ones((3, 3), np.int32), [batch, time], "char")


ERRORS = {
    "merge of a missing dim": (
        lambda: rf.merge_dims(x, dims=[time, out]),
        DimError,
        """
        merge_dims: no dim out=5.
          tensor  [batch=3, time<=3]
          dim     out=5
        The dim out=5 is not among the dims of tensor.
            x.dims[0]    # batch=3
            x.dims[1]    # time<=3
        """,
    ),
    "split_dims into other sizes": (
        lambda: rf.split_dims(randn(batch, out), axis=out, dims=[feat, Dim(2, name="two")]),
        DimError,
        """
        split_dims: the sizes do not multiply to the size of the axis.
          source  [batch=3, out=5]
          axis    out=5
          dims    feat=2 * two=2
        A split keeps the number of entries. Make the first dim as long as the others require, and pad the axis to that:
            source, (padded,) = rf.pad(source, axes=[axis], padding=[(0, 1)])
            rf.split_dims(source, axis=padded, dims=[rf.Dim(3, name="feat"), dims[1]])
        """,
    ),
    "split into other sizes": (
        lambda: rf.split(randn(out), axis=out, out_dims=[feat, Dim(2, name="two")]),
        DimError,
        """
        split: the pieces do not add up to the axis.
          axis      out=5
          out_dims  feat=2, two=2
        The pieces cover the axis exactly. As many entries as they have, and the rest:
            rf.split(source, axis=axis, out_dims=[rf.Dim(2, name="feat"), rf.Dim(2, name="two"), rf.Dim(1, name="rest")])
        """,
    ),
    "out_dim of another size": (
        lambda: rf.merge_dims(randn(batch, feat), dims=[batch, feat], out_dim=out),
        DimError,
        """
        merge_dims: out_dim has another size.
          out_dim  out=5
          needed   6
        An out_dim fits, or has no size yet and takes it over.
            Dim(None, name="out")
        """,
    ),
    "expand by a dim that is there": (
        lambda: rf.expand_dim(x, batch),
        DimError,
        """
        expand_dim: source already has the dim.
          source  [batch=3, time<=3]
          dim     batch=3
        A dim occurs once. To repeat the values over another one, make it:
            rf.expand_dim(source, dim=rf.Dim(3, name="..."))
        """,
    ),
    "squeeze of more than one entry": (
        lambda: rf.squeeze(x, batch),
        DimError,
        """
        squeeze: the axis is not of size 1.
          source  [batch=3, time<=3]
          axis    batch=3
        Only an axis of one entry can be removed without losing values.
            rf.gather(x, indices=0, axis=batch)
        """,
    ),
    "concat of other dims": (
        lambda: rf.concat((randn(batch, feat), feat), (randn(out), out)),
        DimError,
        """
        concat: the dims beside the joined ones differ.
          source 0  [batch=3, feat=2]
          source 1  [out=5]
        All sources need the same other dims; if a source should be repeated, say so:
            rf.concat(..., allow_broadcast=True)
        """,
    ),
    "concat of nothing": (
        lambda: rf.concat(),
        ValueError,
        """
        concat: no sources.
          sources  none
        It takes (tensor, dim) pairs.
            rf.concat((a, a_dim), (b, b_dim))
        """,
    ),
    "concat_features without feature_dim": (
        lambda: rf.concat_features(x, y),
        DimError,
        """
        concat_features: source 0 has no feature_dim.
          source 0  [batch=3, time<=3]
        Mark the dim to join along, or name it:
            rf.concat((a, a_dim), (b, b_dim))
        """,
    ),
    "stack of other dims": (
        lambda: rf.stack([x, y]),
        DimError,
        """
        stack: the dims differ.
          source 0  [batch=3, time<=3]
          source 1  [batch=3, source<=2]
        Stacked tensors have the same dims. To repeat one over a dim that it lacks:
            rf.expand_dim(source, dim=...)
        """,
    ),
    "stack of nothing": (
        lambda: rf.stack([]),
        ValueError,
        """
        stack: no tensors.
          sources  none
        The dims come from the first tensor.
        """,
    ),
    "gather along which axis": (
        lambda: rf.gather(x, indices=ints([0, 0, 0], batch)),
        DimError,
        """
        gather: which axis?
          source   [batch=3, time<=3]
          indices  [batch=3]
        The indices have no sparse_dim, so name the axis:
            rf.gather(x, indices=i, axis=...)
        """,
    ),
    "gather by an int without axis": (
        lambda: rf.gather(x, indices=0),
        TypeError,
        """
        gather: an int index needs the axis.
            rf.gather(x, indices=0, axis=time)
        """,
    ),
    "gather beyond the end": (
        lambda: rf.gather(x, indices=3, axis=batch),
        IndexError,
        """
        gather: there is no index 3 of batch=3.
          source   [batch=3, time<=3]
          axis     batch=3
          allowed  -3 to 2
        Indices count from 0, or as -1, -2, ... from the end:
            rf.gather(source, indices=2, axis=batch)
        """,
    ),
    "gather before the first frame": (
        lambda: rf.gather(x, indices=-4, axis=time),
        IndexError,
        """
        gather: there is no index -4 of time<=3.
          source   [batch=3, time<=3]
          axis     time<=3
          allowed  -1 to 0 in the shortest sequence
        Indices count from 0, or as -1, -2, ... from the end of each sequence:
            rf.gather(source, indices=-4, axis=time, clip_to_valid=True)    # the nearest frame there is
        """,
    ),
    "gather along a missing dim": (
        lambda: rf.gather(x, indices=ints([0, 0, 0], batch), axis=out),
        DimError,
        """
        gather: no dim out=5.
          source  [batch=3, time<=3]
          dim     out=5
        The dim out=5 is not among the dims of source.
            source.dims[0]    # batch=3
            source.dims[1]    # time<=3
        """,
    ),
    "split_dims with padding": (
        lambda: rf.split_dims(randn(out), axis=out, dims=[feat, Dim(None, name="rest")], pad_to_multiples=True),
        NotImplementedError,
        """
        split_dims: padding to a multiple of the sizes.
          source     [out=5]
          axis       out=5
          pad_value  None
        It splits an axis as it is. Pad it first:
            source, (axis,) = rf.pad(source, axes=[axis], padding=[(0, missing)], value=pad_value)
        """,
    ),
    "pad with a mirror": (
        lambda: rf.pad(x, axes=[time], padding=[(1, 1)], mode="reflect"),
        DimError,
        """
        pad: mode "reflect" of a ragged axis.
          source  [batch=3, time<=3]
          axis    time<=3
        Frames of the sequence itself are repeated only where all sequences have the same length.
            rf.pad(..., mode="constant")
        """,
    ),
    "pad with an unknown mode": (
        lambda: rf.pad(x, axes=[time], padding=[(1, 1)], mode="mirror"),
        ValueError,
        """
        pad: unknown mode "mirror".
          known  constant, reflect, replicate, circular
        A mode is one of these.
            mode="constant"
        """,
    ),
    "pad with more of a mirror than there is": (
        lambda: rf.pad(randn(batch, feat), axes=[feat], padding=[(2, 0)], mode="reflect"),
        ValueError,
        """
        pad: mode "reflect" needs more frames.
          source   [batch=3, feat=2]
          axis     feat=2
          padding  (2, 0)
        There is nothing more to repeat.
        """,
    ),
    "pad with ragged frames on the left": (
        lambda: rf.pad(x, axes=[time], padding=[(source, 0)]),
        DimError,
        """
        pad: a different number of frames on the left of each sequence.
          source  [batch=3, time<=3]
          axis    time<=3
          left    source<=2
        Padding on the left has one size for all sequences. To put other frames before each of them, concatenate:
            rf.concat((frames, frames_dim), (source, axis))
        """,
    ),
    "slice with end and size": (
        lambda: rf.slice(x, axis=time, end=2, size=2),
        ValueError,
        """
        slice: which frames?
          source  [batch=3, time<=3]
          axis    time<=3
          end     2
          size    2
          step    None
        Either end or size, which is 0 or more; a step is positive: frames backwards are those of rf.reverse_sequence.
        """,
    ),
    "slice to a dim of source": (
        lambda: rf.slice(x, axis=time, start=ints([0, 0, 0], batch), size=batch),
        DimError,
        """
        slice: out_dim is a dim of source already.
          source   [batch=3, time<=3]
          out_dim  batch=3
        The selected frames need a dim of their own.
            size = Dim(3, name="batch")
        """,
    ),
    "slice of more frames than a sequence has": (
        lambda: rf.slice(x, axis=time, start=1, size=source),
        DimError,
        """
        slice: size has frames that axis lacks.
          axis   time<=3 [3, 1, 2]
          start  1
          size   source<=2 [1, 2, 0]
        Each sequence has as many frames from start on.
            size = Dim(rf.minimum(source.get_size_tensor(), rest), name="source")
        """,
    ),
    "dense labels without classes": (
        lambda: rf.one_hot(ints([0, 0, 0], batch)),
        DimError,
        """
        sparse_to_dense: into which dim?
          labels  [batch=3]
        The labels have no sparse_dim.
            rf.set_sparse_dim(labels, vocab)
        """,
    ),
    "reverse under other lengths": (
        lambda: rf.reverse_sequence(randn(batch, time, _char()), axis=time),
        DimError,
        """
        reverse_sequence: the lengths of char<=1 are over time<=3.
          tensor   [batch=3, time<=3, char<=1]
          axis     time<=3
          lengths  [batch=3, time<=3]
        Frames that move would lose their lengths. Work on a copy of the axis with its own lengths, or without char.
        """,
    ),
}


@pytest.mark.parametrize(("call", "error", "text"), ERRORS.values(), ids=ERRORS)
def test_error(call, error, text):
    with raises_message(error, text):
        call()
