"""A streaming encoder: overlapping chunks with look-ahead, self-attention inside of a chunk, the middle of each put together again."""

import numpy as np

import rfnb as rf
from rfnb.tensor import Dim, Tensor, batch_dim


class ChunkedEncoder(rf.Module):
    def __init__(self, in_dim: Dim, *, chunk: int, history: int, future: int):
        super().__init__()
        self.chunk, self.history, self.future = chunk, history, future
        self.in_linear = rf.Linear(in_dim, Dim(6, name="model"))
        self.layers = rf.Sequential(
            rf.encoder.conformer.ConformerEncoderLayer(
                self.in_linear.out_dim,
                ff_dim=Dim(8, name="ff"),
                num_heads=2,
                conv_kernel_size=3,
                dropout=0.0,
                att_dropout=0.0,
                conv_norm=rf.LayerNorm,
            )
            for _ in range(2)
        )

    def __call__(self, source: Tensor, *, in_spatial_dim: Dim) -> Tensor:
        window_dim = Dim(self.history + self.chunk + self.future, name="window")
        x = self.in_linear(source)
        chunks, chunk_axis = rf.window(
            x, spatial_dim=in_spatial_dim, window_dim=window_dim, window_left=self.history, stride=self.chunk
        )
        chunks = self.layers(chunks, spatial_dim=window_dim)
        middle, middle_dim = rf.slice(chunks, axis=window_dim, start=self.history, size=self.chunk)
        merged, merged_dim = rf.merge_dims(middle, dims=(chunk_axis, middle_dim))
        return rf.replace_dim_v2(merged, in_dim=merged_dim, out_dim=in_spatial_dim)


def test_chunks_put_together_are_what_each_chunk_gives_alone():
    batch_dim.reset_eager()
    rf.set_random_seed(4)
    in_dim = Dim(5, name="in")
    lengths, chunk, history, future = [10, 6, 7], 3, 2, 1
    time = Dim(rf.convert_to_tensor(np.array(lengths, "int32"), dims=[batch_dim]), name="time")
    raw = np.random.default_rng(6).normal(size=(3, 10, 5)).astype("float32")
    source = rf.convert_to_tensor(raw, dims=[batch_dim, time, in_dim], feature_dim=in_dim)
    model = ChunkedEncoder(in_dim, chunk=chunk, history=history, future=future)
    out = model(source, in_spatial_dim=time)
    assert out.dims_set == {batch_dim, time, model.in_linear.out_dim}
    got = out.copy_transpose([batch_dim, time, model.in_linear.out_dim]).raw_tensor.detach().numpy()

    for seq, length in enumerate(lengths):
        for start in range(0, length, chunk):
            # zeros before the start and after the end, as the documentation says of window
            frames = np.zeros((history + chunk + future, 6), "float32")
            feats = rf.convert_to_tensor(raw[seq, :length], dims=[Dim(length, name="t"), in_dim], feature_dim=in_dim)
            hidden = model.in_linear(feats).raw_tensor.detach().numpy()
            for i in range(history + chunk + future):
                at = start - history + i
                if 0 <= at < length:
                    frames[i] = hidden[at]
            window = Dim(len(frames), name="window")
            alone = model.layers(
                rf.convert_to_tensor(
                    frames, dims=[window, model.in_linear.out_dim], feature_dim=model.in_linear.out_dim
                ),
                spatial_dim=window,
            )
            alone = alone.copy_transpose([window, model.in_linear.out_dim]).raw_tensor.detach().numpy()
            stop = min(start + chunk, length)
            np.testing.assert_allclose(got[seq, start:stop], alone[history : history + stop - start], atol=2e-5)
