"""Short-time Fourier transform."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Never

import numpy as np

from rfnb.core.dim import Dim, Dims
from rfnb.core.errors import value_error
from rfnb.core.layout import PlanCache
from rfnb.core.memo import Memo
from rfnb.core.op import op
from rfnb.core.tensor import Tensor, new_tensor
from rfnb.core.tensor_checks import check_unique
from rfnb.ops.conv_dims import Window, settle_out_dims
from rfnb.ops.conv_layout import check_spatial, from_kernel, to_kernel
from rfnb.ops.operands import check_dtypes, need_tensors
from rfnb.ops.out_dim import settle_size

_plans = PlanCache()


@op
def stft(
    x: Tensor,
    *extra: Never,
    in_spatial_dim: Dim,
    frame_step: int,
    frame_length: int,
    fft_length: int | None = None,
    window_use_frame_length: bool = True,
    align_window_left: bool = True,
    window_enforce_even: bool = True,
    out_spatial_dim: Dim | None = None,
    out_dim: Dim | None = None,
    use_mask: bool | None = None,
    **unknown: Never,
) -> tuple[Tensor, Dim, Dim]:
    """The discrete Fourier transform of each frame of a signal, under a Hann window.

        out[t, f] = sum_n hann[n] x[t * frame_step + n] exp(-2 pi i f n / fft_length),   hann[n] = 0.5 - 0.5 cos(2 pi n / N)

    Args:
        x: float {..., in_spatial_dim}
        frame_step: Samples from one frame to the next.
        frame_length: N, samples under the window.
        fft_length: Length of the transform in samples, with zeros beyond the window. Default: frame_length.
        window_use_frame_length: Frames are cut with frame_length samples (as TensorFlow does). False: with fft_length samples
            (as torch with `center=False` and librosa do), so there may be fewer of them.
        align_window_left: Place the window at the beginning of the transformed samples (TensorFlow). False: in the middle (torch).
        window_enforce_even: Reduce an odd frame_length by one.
        out_spatial_dim: Dim of the frames; filled in if it has no size. Default: made by dim arithmetic, as for a `conv` with
            padding "valid".
        out_dim: A dim of size fft_length // 2 + 1, or without size. Default: a fixed dim for each fft_length.
        use_mask: Treat samples past a sequence's end as 0 (the default). No frame reaches beyond the end.

    Returns:
        complex {..., out_spatial_dim, out_dim} with feature_dim out_dim; out_spatial_dim; out_dim. A signal shorter than a frame
        has none. A 16-bit or integer signal is transformed in float32, to complex64.

    Raises:
        DimError: If in_spatial_dim is not in x, or a given dim has another size.
        ValueError: If frame_step is below 1, frame_length below 2, or fft_length below frame_length.

    Source: Allen and Rabiner 1977; the window as `tf.signal.hann_window` and `torch.hann_window` (periodic).
    """
    need_tensors("stft", x)
    sizes = frame_step, frame_length, fft_length
    flags = window_use_frame_length, align_window_left, window_enforce_even, use_mask
    key = (x._raw.__class__, x.dtype, x.dims, in_spatial_dim, sizes, flags, out_spatial_dim, out_dim)
    try:
        fn, dims, spatial, out_dim = _plans[key]
    except KeyError:
        fn, dims, spatial, out_dim = _plans.make(key, _plan, x, *key[3:])
    out = new_tensor(fn(x._raw), dims)
    out._feature_dim = out_dim
    return out, spatial, out_dim


def _plan(
    x: Tensor, spatial: Dim, sizes: Any, flags: Any, out_spatial: Dim | None, out_dim: Dim | None
) -> tuple[Any, Dims, Dim, Dim]:
    (step, length, fft_length), (by_frame, left, even, use_mask) = sizes, flags
    check_spatial("stft", x, (spatial,))
    length -= length % 2 if even else 0
    if x.dtype.startswith("complex"):
        check_dtypes("stft", x=x)
    fft_length = length if fft_length is None else fft_length
    if step < 1 or length < 2 or fft_length < length:
        raise value_error(
            "stft: these sizes make no frames.",
            {"frame_step": step, "frame_length": length, "fft_length": fft_length},
            "A frame has 2 samples or more, is not longer than the transform, and starts 1 sample or more after the previous one.",
            "fft_length=None",
        )
    window = Window(length if by_frame else fft_length, step, 1, "valid")
    wanted: Dims | None = None if out_spatial is None else (out_spatial,)
    (out_spatial,) = settle_out_dims("stft", (window.out_length(spatial),), wanted)
    out_dim = _frequency_dim(fft_length) if out_dim is None else out_dim
    settle_size("stft", out_dim, fft_length // 2 + 1)
    backend = x.backend
    arrange, batch = to_kernel("stft", x, (), (spatial,), 0, use_mask is not False)
    dims = check_unique((*batch, out_spatial, out_dim), "stft")
    restore = from_kernel(batch, (out_spatial, out_dim), (), backend)
    before = 0 if left else (fft_length - length) // 2
    # Cut with fft_length samples, the window stands in the frame; else the frame stands in what is transformed.
    around = (0, 0) if by_frame else (before, fft_length - length - before)
    before = before if by_frame else 0
    kernels = Memo()
    dtype = x.dtype if x.dtype in ("float32", "float64") else "float32"
    narrow = dtype != x.dtype
    from_numpy, stft_raw, cast_raw = backend.from_numpy, backend.stft_raw, backend.cast_raw

    def fn(raw: Any) -> Any:
        device = backend.get_device_raw(raw)
        kernel = kernels.get(device)
        if kernel is None:
            hann = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(length) / length)
            kernel = kernels.keep(device, from_numpy(np.pad(hann, around), dtype=dtype, device=device))
        raw = cast_raw(raw, dtype) if narrow else raw
        return restore(stft_raw(arrange(raw), kernel, step, before, fft_length))

    return fn, dims, out_spatial, out_dim


@lru_cache(maxsize=64)
def _frequency_dim(fft_length: int) -> Dim:
    return Dim(fft_length // 2 + 1, name="frequency", kind="feature")
