"""A monotonic transducer: the label model runs only where a label was emitted, in training (all frames at once) and step by step."""

import numpy as np
import torch

import rfnb as rf
from rfnb.tensor import Dim, Tensor, batch_dim, single_step_dim


class Transducer(rf.Module):
    def __init__(self, enc_dim: Dim, target_dim: Dim, wb_target_dim: Dim):
        super().__init__()
        self.target_dim, self.wb_target_dim, self.blank = target_dim, wb_target_dim, target_dim.dimension
        self.embedding = rf.Embedding(target_dim, Dim(4, name="embed"))
        self.label_lstm = rf.LSTM(self.embedding.out_dim, Dim(5, name="label-lstm"))
        self.joint_enc = rf.Linear(enc_dim, Dim(6, name="joint"))
        self.joint_label = rf.Linear(self.label_lstm.out_dim, self.joint_enc.out_dim, with_bias=False)
        self.out = rf.Linear(self.joint_enc.out_dim, wb_target_dim)

    def joint(self, enc: Tensor, label: Tensor) -> Tensor:
        return rf.log_softmax(self.out(rf.tanh(self.joint_enc(enc) + self.joint_label(label))), axis=self.wb_target_dim)

    def align_scores(self, enc: Tensor, alignment: Tensor, *, axis: Dim) -> Tensor:
        """log p(alignment), {batch}: all frames at once, the label model on the labels without blanks."""
        batch_dims = enc.remaining_dims((axis, enc.feature_dim))
        emitted = alignment != self.blank
        labels, label_axis = rf.masked_select(alignment, mask=emitted, dims=[axis])
        labels = rf.set_sparse_dim(rf.cast(labels, "int32"), self.target_dim)
        embedded, (label_axis_ext,) = rf.pad(
            self.embedding(labels), axes=[label_axis], padding=[(1, 0)], value=0.0, handle_dynamic_dims=True
        )
        states, _ = self.label_lstm(
            embedded, state=self.label_lstm.default_initial_state(batch_dims=batch_dims), spatial_dim=label_axis_ext
        )
        before = rf.cumsum(rf.cast(emitted, "int32"), spatial_dim=axis) - rf.cast(emitted, "int32")
        before.sparse_dim = label_axis_ext
        per_frame = rf.gather(states, indices=before, axis=label_axis_ext, clip_to_valid=True)
        return rf.reduce_sum(rf.gather(self.joint(enc, per_frame), indices=alignment), axis=axis)

    def step_scores(self, enc: Tensor, alignment: Tensor, *, axis: Dim) -> Tensor:
        """The same frame by frame: the state advances under a mask."""
        batch_dims = enc.remaining_dims((axis, enc.feature_dim))
        state = rf.State(
            lstm=self.label_lstm.default_initial_state(batch_dims=batch_dims),
            h=rf.zeros(batch_dims + [self.label_lstm.out_dim], feature_dim=self.label_lstm.out_dim),
            score=rf.zeros(batch_dims),
        )
        zero = rf.zeros(batch_dims + [self.embedding.out_dim], feature_dim=self.embedding.out_dim)
        state.h, state.lstm = self.label_lstm(zero, state=state.lstm, spatial_dim=single_step_dim)

        def body(xs, state: rf.State):
            frame, label = xs
            score = state.score + rf.gather(self.joint(frame, state.h), indices=label)
            emitted = label != self.blank
            index = rf.set_sparse_dim(rf.where(emitted, label, 0), self.target_dim)
            h, lstm = self.label_lstm(self.embedding(index), state=state.lstm, spatial_dim=single_step_dim)
            h, lstm = rf.nested.mask_nested((h, lstm), mask=emitted, mask_value=(state.h, state.lstm))
            return None, rf.State(lstm=lstm, h=h, score=score)

        _, final, _ = rf.scan(spatial_dim=axis, xs=(enc, alignment), ys=None, initial=state, body=body)
        return final.score

    def loop_scores(self, enc: Tensor, alignment: Tensor, *, axis: Dim, recorded: bool) -> Tensor:
        """The same as a loop, in both faces."""
        batch_dims = enc.remaining_dims((axis, enc.feature_dim))
        loop = rf.Loop(axis=axis)
        zero = rf.zeros(batch_dims + [self.embedding.out_dim], feature_dim=self.embedding.out_dim)
        lstm = self.label_lstm.default_initial_state(batch_dims=batch_dims)
        loop.state.h, loop.state.lstm = self.label_lstm(zero, state=lstm, spatial_dim=single_step_dim)
        loop.state.score = rf.zeros(batch_dims)

        def step() -> None:
            frame, label = loop.unstack(enc), loop.unstack(alignment)
            loop.state.score = loop.state.score + rf.gather(self.joint(frame, loop.state.h), indices=label)
            emitted = label != self.blank
            index = rf.set_sparse_dim(rf.where(emitted, label, 0), self.target_dim)
            h, lstm = self.label_lstm(self.embedding(index), state=loop.state.lstm, spatial_dim=single_step_dim)
            loop.state.h = rf.where(emitted, h, loop.state.h)
            loop.state.lstm = rf.nested.where_nested(lstm, loop.state.lstm, condition=emitted)

        if recorded:
            with loop:
                step()
                score = loop.last(loop.state.score)
        else:
            for _ in loop:
                step()
                score = loop.last(loop.state.score)
        return score


def test_training_and_stepping_give_the_same_scores_and_gradients():
    batch_dim.reset_eager()
    rf.set_random_seed(2)
    enc_dim, target_dim = Dim(3, name="enc"), Dim(4, name="labels")
    wb_target_dim = target_dim + 1
    time = Dim(rf.convert_to_tensor(np.array([7, 4, 6], "int32"), dims=[batch_dim]), name="time")
    rng = np.random.default_rng(8)
    enc = rf.convert_to_tensor(
        rng.normal(size=(3, 7, 3)).astype("float32"), dims=[batch_dim, time, enc_dim], feature_dim=enc_dim
    )
    aligned = rng.integers(0, 5, (3, 7)).astype("int32")
    aligned[1, :4] = 4  # nothing but blanks
    alignment = rf.convert_to_tensor(aligned, dims=[batch_dim, time], sparse_dim=wb_target_dim)
    model = Transducer(enc_dim, target_dim, wb_target_dim)

    results = {}
    for name, scores in {
        "at once": lambda: model.align_scores(enc, alignment, axis=time),
        "scan": lambda: model.step_scores(enc, alignment, axis=time),
        "for": lambda: model.loop_scores(enc, alignment, axis=time, recorded=False),
        "with": lambda: model.loop_scores(enc, alignment, axis=time, recorded=True),
    }.items():
        for param in model.parameters():
            param.raw_tensor.grad = None
        score = scores()
        rf.reduce_sum(score, axis=batch_dim).raw_tensor.backward()
        grads = [
            torch.zeros(()) if p.raw_tensor.grad is None else p.raw_tensor.grad.clone() for p in model.parameters()
        ]
        results[name] = (
            score.numpy() if not score.raw_tensor.requires_grad else score.raw_tensor.detach().numpy(),
            grads,
        )
    expected, expected_grads = results["at once"]
    assert np.isfinite(expected).all() and (expected < 0).all()
    for score, grads in results.values():
        np.testing.assert_allclose(score, expected, atol=1e-5)
        for got, want in zip(grads, expected_grads):
            torch.testing.assert_close(got, want, atol=2e-5, rtol=1e-4)
