"""Loss: one marked loss of a step, and its reduction."""

from __future__ import annotations

from collections.abc import Sequence

from rfnb.core.dim import Dim
from rfnb.core.errors import type_error
from rfnb.core.tensor import Tensor
from rfnb.ops.cast import cast
from rfnb.ops.reduce import reduce_mean, reduce_sum
from rfnb.ops.where import where


class Loss:
    """One unreduced loss with its scale and normalisation.

    Padding never counts, even if it holds NaN: it is excluded from sums, means and frame counts, and gets gradient 0.

    Args:
        loss: {...}, one value per frame, per sequence, or for any other dims. float16, bfloat16, integers and bools are reduced
            as float32.
        dims: Order of the dims.
        scale: Factor in the total loss.
        as_error: Only reported, not part of the total loss, e.g. an edit distance.
        use_normalized_loss: The mean enters the total loss, not the sum.
        use_flatten_frames: Whether frames may be packed before the sum; the result is the same.
        custom_inv_norm_factor: The mean is the sum divided by the sum of this, e.g. {batch} numbers of words.

    Raises:
        TypeError: If loss is not a Tensor.
    """

    def __init__(
        self,
        loss: Tensor,
        name: str,
        scale: float | None = 1.0,
        as_error: bool = False,
        use_normalized_loss: bool = False,
        use_flatten_frames: bool = True,
        custom_inv_norm_factor: Tensor | float | None = None,
        *,
        dims: Sequence[Dim] | None = None,
    ):
        if not isinstance(loss, Tensor):
            raise type_error(
                f'Loss "{name}": not a Tensor.',
                {"got": f"{type(loss).__module__}.{type(loss).__name__}"},
                "The dims of a loss determine what it is summed over, and its padding.",
                "rf.convert_to_tensor(loss, dims=[...])",
            )
        self.loss = loss if dims is None else loss.copy_transpose(dims)
        self.name, self.scale, self.as_error = name, 1.0 if scale is None else scale, as_error
        self.use_normalized_loss, self.use_flatten_frames = use_normalized_loss, use_flatten_frames
        self.custom_inv_norm_factor = custom_inv_norm_factor

    def get_summed_loss(self) -> Tensor:
        """The sum over all real frames, a scalar."""
        return _summed(self.loss)

    def get_mean_loss(self) -> Tensor:
        """The mean over all real frames, or the sum divided by that of `custom_inv_norm_factor`; 0 if there are no frames."""
        if self.custom_inv_norm_factor is None:
            loss = _for_sums(self.loss)
            return reduce_mean(loss, axis=loss.dims) if loss.dims else loss
        factor = self.get_inv_norm_factor()
        if isinstance(factor, Tensor):
            return self.get_summed_loss() / where(factor == 0, 1.0, factor)
        return self.get_summed_loss() / (factor or 1)

    def get_inv_norm_factor(self) -> int | float | Tensor:
        """The denominator of the mean: the number of real frames, or the sum of `custom_inv_norm_factor`."""
        factor = self.custom_inv_norm_factor
        if factor is None:
            return self.loss.num_elements()
        return _summed(factor) if isinstance(factor, Tensor) else factor

    def get_scaled_reduced_loss(self) -> Tensor:
        """The contribution to the total loss: scale times the sum, or times the mean with `use_normalized_loss`."""
        loss = self.get_mean_loss() if self.use_normalized_loss else self.get_summed_loss()
        return loss * self.scale if self.scale != 1 else loss

    def __repr__(self) -> str:
        return f"Loss({self.name!r}, {self.loss!r}, scale={self.scale}{', as_error' if self.as_error else ''})"


def _summed(value: Tensor) -> Tensor:
    value = _for_sums(value)
    return reduce_sum(value, axis=value.dims) if value.dims else value


def _for_sums(value: Tensor) -> Tensor:
    # In half precision a running sum over the frames of a batch stops growing at 2048 or 256.
    return value if value.dtype in ("float32", "float64") else cast(value, "float32")
