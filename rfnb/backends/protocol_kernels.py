"""The part of the backend protocol that consists of whole algorithms: a library may have a kernel for each, with its own gradient."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from rfnb.backends.missing_methods import written_by_backend


class Kernels:
    """The methods of `Backend` from convolution to recurrence."""

    # -- windows -------------------------------------------------------------------------------------------------------
    @written_by_backend
    def conv_raw(
        cls,
        x: Any,
        filter: Any,
        bias: Any | None,
        pads: Sequence[tuple[int, int]],
        strides: Sequence[int],
        dilation: Sequence[int],
        groups: int,
    ) -> Any:
        """x [batch, in, *spatial], filter [out, in / groups, *size], bias [out] -> [batch, out, *out spatial].

        `pads` are the zeros before and after, per spatial axis; an axis that is shorter than the filter gets length 0.
        """

    @written_by_backend
    def transposed_conv_raw(
        cls, x: Any, filter: Any, bias: Any | None, strides: Sequence[int], starts: Sequence[int], shape: Sequence[int]
    ) -> Any:
        """x [batch, in, *spatial], filter [in, out, *size], bias [out] -> [batch, out, *shape].

        The sum of the contributions of all input frames, placed `stride` apart; the result begins at `starts` of that sum, and beyond it
        there is only the bias.
        """

    @written_by_backend
    def pool_raw(
        cls,
        x: Any,
        kind: str,
        size: Sequence[int],
        pads: Sequence[tuple[int, int]],
        strides: Sequence[int],
        dilation: Sequence[int],
        neutral: Any,
    ) -> Any:
        """x [batch, *spatial] -> [batch, *out spatial]: the "max" or "sum" of each window; `pads` are `neutral`. See `conv_raw`."""

    # -- spectra -------------------------------------------------------------------------------------------------------
    @written_by_backend
    def stft_raw(cls, x: Any, window: Any, step: int, left: int, fft_length: int) -> Any:
        """x [batch, time], window [size] -> complex [batch, frames, fft_length // 2 + 1].

        Every `step` samples, a frame as long as the window, multiplied by it, after `left` zeros and padded to `fft_length`. Only frames
        inside x.
        """

    @written_by_backend
    def make_complex_raw(cls, real: Any, imag: Any) -> Any:
        """Broadcasting; both of one float dtype."""

    @written_by_backend
    def real_as_complex_raw(cls, raw: Any) -> Any:
        """The last axis, of length 2, becomes one complex number."""

    @written_by_backend
    def complex_as_real_raw(cls, raw: Any) -> Any:
        """A new last axis of real and imaginary part."""

    # -- two sequences -------------------------------------------------------------------------------------------------
    @written_by_backend
    def ctc_loss_raw(
        cls, logits: Any, targets: Any, input_lengths: np.ndarray, target_lengths: np.ndarray, *, blank: int,
        normalized: bool, max_approx: bool, label_loop: bool, zero_infinity: bool,
    ) -> Any:  # fmt: skip
        """logits [batch, time, classes], targets int [batch, label], lengths int64 [batch] on the host -> [batch].

        -log of the sum (or maximum) over all alignments; if there is none, 0 with `zero_infinity`, else infinity, with gradient 0. See
        `ops/ctc.py`.
        """

    @written_by_backend
    def ctc_best_path_raw(
        cls, logits: Any, targets: Any, input_lengths: np.ndarray, target_lengths: np.ndarray, *, blank: int,
        normalized: bool, label_loop: bool,
    ) -> Any:  # fmt: skip
        """The path of `ctc_loss_raw` -> [batch, time], the dtype of targets; blank in the padding and where there is no alignment."""

    @written_by_backend
    def edit_distance_raw(cls, a: Any, b: Any, a_lengths: np.ndarray, b_lengths: np.ndarray) -> Any:
        """a int [batch, time], b int [batch, other time], lengths int64 [batch] on the host -> int64 [batch]."""

    @written_by_backend
    def next_edit_distance_row_raw(cls, row: Any, a: Any, n: Any, keep: Any, b: Any, b_lengths: np.ndarray) -> Any:
        """row int [batch, time + 1], a (the symbol) and n (symbols before it) int [batch], keep bool [batch] (no symbol is read),
        b int [batch, time], lengths int64 [batch] on the host -> the next row of the table, flat after the length."""

    @classmethod
    def attention_raw(cls, query: Any, keys: Any, values: Any, bias: Any | None, causal: bool, scale: float) -> Any:
        """softmax(query keysᵀ * scale + bias) values; query [batch, heads, m, key], keys [batch, heads, n, key], values [batch,
        heads, n, value] -> [batch, heads, m, value].

        Args:
            bias: Float, broadcasting against [batch, heads, m, n]; -inf hides a key. Every query sees at least one key.
            causal: Query i sees keys 0 .. i; then there is no bias.
        """
        backend: Any = cls
        keys = backend.transpose_raw(keys, (0, 1, 3, 2))
        energy = backend.matmul_raw(backend.binary_fn("mul")(query, scale), keys)
        if causal:
            sizes = backend.get_shape_tuple_raw(energy)[2:]
            hidden = np.where(np.tri(*sizes) > 0, 0.0, -np.inf)
            bias = backend.from_numpy(
                hidden, dtype=backend.get_dtype_name_raw(query), device=backend.get_device_raw(query)
            )
        energy = energy if bias is None else backend.combine_raw(energy, "add", bias)
        return backend.matmul_raw(backend.softmax_raw(energy, 3), values)

    @written_by_backend
    def attention_and_weights_raw(
        cls, query: Any, keys: Any, values: Any, bias: Any | None, scale: float
    ) -> tuple[Any, Any]:
        """The same for query [batch, m, key], keys [batch, key, n] and values [batch, n, value], without gradient, together with the
        weights [batch, m, n].
        """

    # -- recurrence ----------------------------------------------------------------------------------------------------
    @written_by_backend
    def lstm_raw(
        cls, x: Any, h: Any, c: Any, ff_weight: Any, rec_weight: Any, bias: Any | None, mask: Any | None
    ) -> tuple[Any, Any, Any]:
        """x [time, batch, in], h and c [batch, out], gates i, f, cell, o -> (y [time, batch, out], last h, last c).

        `mask` [time, batch] (or None), True first, then False: a masked step keeps the state and gives output 0.
        """

    @written_by_backend
    def lstm_step_raw(
        cls, x: Any, h: Any, c: Any, ff_weight: Any, rec_weight: Any, bias: Any | None
    ) -> tuple[Any, Any]:
        """One step: x [batch, in] -> (h, c)."""

    @written_by_backend
    def gru_raw(
        cls, x: Any, h: Any, ff_weight: Any, rec_weight: Any, ff_bias: Any, rec_bias: Any, mask: Any | None
    ) -> tuple[Any, Any]:
        """Like `lstm_raw`, with gates r, z, n: h' = z h + (1 - z) tanh(n + r (rec n)) -> (y [time, batch, out], last h)."""

    @written_by_backend
    def rnn_tanh_raw(
        cls, x: Any, h: Any, ff_weight: Any, rec_weight: Any, bias: Any, mask: Any | None
    ) -> tuple[Any, Any]:
        """Like `lstm_raw`, with h' = tanh(x ff_weight^T + h rec_weight^T + bias) -> (y [time, batch, out], last h)."""

    @written_by_backend
    def two_d_lstm_raw(
        cls, gates_x: Any, gates_y: Any, weight_h: Any, weight_v: Any, h: Any, c: Any, mask: Any | None
    ) -> tuple[Any, Any]:
        """An LSTM over a grid; each cell has a left and an upper neighbour -> (h, c), both [y, x, batch, out].

        gates_x [x, batch, 5 * out] and gates_y [y, batch, 5 * out] are the products with the inputs, gates i, f, lambda, o, cell.
        weight_h, weight_v [out, 5 * out] are for the left and the upper neighbour; h and c [x, batch, out] are the row above the grid.
        Where `mask` [x, batch] (or None) is False, a cell has h and c 0.
        """
