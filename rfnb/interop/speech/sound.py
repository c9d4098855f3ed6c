"""The sound of frames: its samples, and the times of the frames."""

from __future__ import annotations

from typing import Any

import numpy as np

from rfnb.core.errors import value_error
from rfnb.viz.attention.rail import check_frame_shift, sounds


class Sound:
    """The sound of a batch, and the times of its frames.

    Attributes:
        rate: Samples per second, or None.
        frame_shift: Seconds between frames, or None.
        how: How that was determined.
    """

    def __init__(
        self, what: str, samples: Any, rate: float | None, shift: float | None, config: Any, lengths: np.ndarray
    ):
        example = f"rf.{what}(...)"
        self._samples = None if samples is None else sounds(what, example, samples, rate, len(lengths))
        self.rate, self.frame_shift, self.how = rate, shift, ""
        ratio = getattr(config, "inputs_to_logits_ratio", None)
        if shift is None and ratio and rate:
            self.frame_shift, self.how = ratio / rate, "of the config"
        elif shift is None and rate and self._samples is not None and lengths.max(initial=0):
            longest = int(lengths.argmax())
            self.frame_shift, self.how = (
                len(self._samples[longest]) / rate / int(lengths[longest]),
                "about: samples / frames",
            )
        check_frame_shift(what, self.frame_shift)

    def of(self, seq: int) -> np.ndarray | None:
        """The samples of a sequence."""
        return None if self._samples is None else self._samples[seq]

    def describe(self) -> str:
        """The frame shift as text."""
        if self.frame_shift is None:
            return "no times: say frame_shift="
        return f"{1000 * self.frame_shift:.4g} ms per frame" + (f" ({self.how})" if self.how else "")


def frame_lengths(what: str, lengths: Any, samples: Any, config: Any, count: int) -> Any:
    """The given lengths; else those of the samples after the convolutions in the config.

    Raises:
        ValueError: If the samples have different lengths, and the numbers of frames are unknown.
    """
    if lengths is not None or not isinstance(samples, (list, tuple)) or len(samples) != count:
        return lengths
    sizes = np.array([np.shape(one)[-1] if np.ndim(one) else 0 for one in samples])
    if len(set(sizes.tolist())) < 2:
        return None
    kernels, strides = (getattr(config, name, None) for name in ("conv_kernel", "conv_stride"))
    if not kernels or not strides or getattr(config, "add_adapter", False):
        raise value_error(
            f"{what}: the number of frames of each sequence is unknown.",
            {"samples": ", ".join(map(str, sizes[:8].tolist())), "lengths": None},
            "The samples have different lengths, so the last frames are padding; a config with conv_kernel and conv_stride is missing.",
            f"rf.{what}(logits, lengths, ...)",
        )
    for kernel, stride in zip(kernels, strides):
        sizes = (sizes - kernel) // stride + 1
    return np.maximum(sizes, 0)
