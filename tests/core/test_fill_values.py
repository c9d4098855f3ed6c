"""Values written into a tensor (padding, fill values) never change its dtype, whether or not this batch has padding."""

import numpy as np
import pytest

import rfnb as rf

batch, feat = rf.Dim(2, name="batch"), rf.Dim(3, name="feat")
full_time = rf.ragged_dim([4, 4], over=batch, name="full")
time = rf.ragged_dim([4, 2], over=batch, name="time")
OPS = {
    "copy_masked": lambda x, axis, value: x.copy_masked(value),
    "pad": lambda x, axis, value: rf.pad(x, axes=[axis], padding=[(1, 2)], value=value)[0],
    "pad, per entry": lambda x, axis, value: rf.pad(
        x,
        axes=[axis],
        padding=[(0, 1)],
        value=rf.full(dims=[feat], fill_value=bool(value) if x.dtype == "bool" else value),
    )[0],
    "shift_right": lambda x, axis, value: rf.shift_right(x, axis=axis, pad_value=value),
    "shift_left": lambda x, axis, value: rf.shift_left(x, axis=axis, pad_value=value),
    "window": lambda x, axis, value: rf.window(
        x, spatial_dim=axis, window_dim=rf.Dim(3, name="window"), pad_value=value
    )[0],
    "scatter": lambda x, axis, value: rf.scatter(
        x,
        indices=rf.range_over_dim(feat),
        indices_dim=feat,
        out_dim=rf.Dim(5, name="out"),
        mode="max",
        fill_value=value,
    ),
}
VALUES = [("bool", False), ("bool", 0), ("int32", 0), ("int64", True), ("uint8", 7), ("float16", 0), ("float64", 1.5)]


@pytest.mark.parametrize("axis", [full_time, time], ids=lambda dim: dim.name)
@pytest.mark.parametrize(
    ("op", "dtype", "value"),
    [
        (op, dtype, value) for op in OPS for dtype, value in VALUES if (op, dtype) != ("scatter", "bool")
    ],  # no maximum of bools
)
def test_a_fill_keeps_the_dtype(op, dtype, value, axis):
    x = rf.cast(rf.ones([batch, axis, feat]), dtype)
    assert OPS[op](x, axis, value).dtype == dtype


@pytest.mark.parametrize("axis", [full_time, time], ids=lambda dim: dim.name)
@pytest.mark.parametrize("value", [0.5, float("nan"), float("-inf")])
@pytest.mark.parametrize("op", OPS)
def test_a_fill_that_would_be_rounded_is_refused_with_and_without_padding(op, value, axis):
    x = rf.cast(rf.ones([batch, axis, feat]), "int32")
    with pytest.raises(TypeError, match="What is put into a tensor has its dtype"):
        OPS[op](x, axis, value)


def test_the_message_says_what_to_cast():
    with pytest.raises(TypeError) as error:
        rf.cast(rf.ones([batch, time]), "int32").copy_masked(0.5)
    assert str(error.value) == (
        "copy_masked: 0.5 is not int32.\n"
        "  tensor      [batch=2, time<=4] int32\n"
        "  mask_value  0.5\n"
        "What is put into a tensor has its dtype. Cast first, if the result is meant to have another:\n"
        '    rf.cast(x, "float32")'
    )
    with pytest.raises(TypeError) as error:
        rf.pad(rf.ones([batch, time, feat]) > 0, axes=[time], padding=[(0, 1)], value=rf.ones([feat]))
    assert str(error.value) == (
        "pad: float32 into bool.\n"
        "  tensor  [batch=2, time<=4, feat=3] bool\n"
        "  value   [feat=3] float32\n"
        "What is put into a tensor has its dtype. Cast one of them first:\n"
        '    rf.cast(value, "bool")'
    )


def test_a_mask_in_a_scan_stays_a_mask():
    """A bool frame of a batch with padding was an integer, so that `where` refused it; without padding it was not."""
    keep = rf.convert_to_tensor(np.array([[True, False, True, True], [False, True, True, True]]), dims=[batch, time])
    dtypes = []

    def body(frame: rf.Tensor, state: rf.Tensor) -> tuple[rf.Tensor, rf.Tensor]:
        dtypes.append(frame.dtype)
        return frame, rf.where(frame, state + 1.0, state)

    out, count, _ = rf.scan(spatial_dim=time, xs=keep, initial=rf.zeros([batch]), body=body)

    assert set(dtypes) == {"bool"} and out.dtype == "bool"
    assert count.raw_tensor.tolist() == [3.0, 1.0]
