"""Forced alignment by CTC, durations of labels and blanks, the means of their frames by cumulative sums and by scatter, and labels
repeated back to frames."""

import itertools

import numpy as np
import pytest
import torch

import rfnb as rf
from rfnb.tensor import Dim, Tensor, batch_dim


class Aligner(rf.Module):
    def __init__(self, in_dim: Dim, target_dim: Dim):
        super().__init__()
        self.target_dim, self.wb_target_dim, self.blank = target_dim, target_dim + 1, target_dim.dimension
        self.lstm = rf.LSTM(in_dim, Dim(6, name="lstm"))
        self.out = rf.Linear(self.lstm.out_dim, self.wb_target_dim)
        for param in self.parameters():
            param.initial = rf.init.Normal(stddev=0.8)

    def __call__(self, data: Tensor, *, spatial_dim: Dim, targets: Tensor, targets_spatial_dim: Dim):
        batch_dims = data.remaining_dims((spatial_dim, data.feature_dim))
        state = self.lstm.default_initial_state(batch_dims=batch_dims)
        hidden, _ = self.lstm(data, state=state, spatial_dim=spatial_dim)
        logits = self.out(hidden)
        path = rf.ctc_best_path(
            logits=logits, targets=targets, input_spatial_dim=spatial_dim, targets_spatial_dim=targets_spatial_dim, blank_index=self.blank
        )  # fmt: skip
        durations, states_dim = rf.ctc_durations_from_path(
            path=path, path_spatial_dim=spatial_dim, blank_index=self.blank, targets_spatial_dim=targets_spatial_dim
        )
        return hidden, logits, path, durations, states_dim


def means_by_sums(x: Tensor, *, spatial_dim: Dim, durations: Tensor, states_dim: Dim) -> Tensor:
    """Mean over the frames of each state; 0 where it has none."""
    ends = rf.cumsum(durations, spatial_dim=states_dim)
    sums, (sums_dim,) = rf.pad(rf.cumsum(x, spatial_dim=spatial_dim), axes=[spatial_dim], padding=[(1, 0)], value=0.0)
    to_end, to_start = (
        rf.gather(sums, indices=at, axis=sums_dim, clip_to_valid=True) for at in (ends, ends - durations)
    )
    return (to_end - to_start) / rf.cast(rf.maximum(durations, 1), x.dtype)


def means_by_scatter(x: Tensor, *, spatial_dim: Dim, durations: Tensor, states_dim: Dim) -> Tensor:
    state_of_frame, _ = rf.repeat(
        rf.range_over_dim(states_dim), in_spatial_dim=states_dim, repeats=durations, out_spatial_dim=spatial_dim
    )
    return rf.scatter_mean(x, indices=state_of_frame, indices_dim=spatial_dim, out_dim=states_dim)


def values(x: Tensor, *dims: Dim) -> np.ndarray:
    return x.copy_transpose(dims).raw_tensor.detach().numpy()


def plain_best_path(log_prob: np.ndarray, labels: list[int], blank: int) -> tuple[list[int], list[int]]:
    """The labels of the best path and how long each of the 2N+1 states lasts, by the best of all monotonic paths over states."""
    states = [blank, *itertools.chain(*[(label, blank) for label in labels])]
    best = {start: (log_prob[0, states[start]], [start]) for start in range(min(2, len(states)))}
    for frame in log_prob[1:]:
        before, best = best, {}
        for state, label in enumerate(states):
            skip = state > 1 and label != blank and label != states[state - 2]
            ways = [before[at] for at in (state, state - 1, *([state - 2] if skip else [])) if at in before]
            if ways:
                score, path = max(ways)
                best[state] = (score + frame[label], [*path, state])
    _, path = max(best[state] for state in range(max(0, len(states) - 2), len(states)) if state in best)
    return [states[state] for state in path], np.bincount(path, minlength=len(states)).tolist()


@pytest.mark.parametrize(
    ("lengths", "labels"), [([9, 4, 6], [[2, 2, 0], [1, 3], []]), ([5], [[0, 1, 2, 1, 3]]), ([1, 3], [[2], [1]])]
)
def test_alignment_durations_and_pooling(lengths, labels):
    batch_dim.reset_eager()
    rf.set_random_seed(9)
    in_dim, target_dim = Dim(3, name="in"), Dim(4, name="labels")
    model = Aligner(in_dim, target_dim)
    counts = [len(seq) for seq in labels]
    time, label_dim = (
        Dim(rf.convert_to_tensor(np.array(sizes, "int32"), dims=[batch_dim]), name=name)
        for sizes, name in ((lengths, "time"), (counts, "label-time"))
    )
    raw = np.random.default_rng(2).normal(size=(len(lengths), max(lengths), 3)).astype("float32")
    data = rf.convert_to_tensor(raw, dims=[batch_dim, time, in_dim], feature_dim=in_dim)
    padded = np.array([[*seq, *[0] * (max(counts) - len(seq))] for seq in labels], "int32")
    targets = rf.convert_to_tensor(padded, dims=[batch_dim, label_dim], sparse_dim=target_dim)
    hidden, logits, path, durations, states_dim = model(
        data, spatial_dim=time, targets=targets, targets_spatial_dim=label_dim
    )

    log_prob = values(rf.log_softmax(logits, axis=model.wb_target_dim), batch_dim, time, model.wb_target_dim)
    paths, lasting = values(path, batch_dim, time), values(durations, batch_dim, states_dim)
    sizes = {"spatial_dim": time, "durations": durations, "states_dim": states_dim}
    by_sums, by_scatter = (
        values(means(hidden, **sizes), batch_dim, states_dim, model.lstm.out_dim)
        for means in (means_by_sums, means_by_scatter)
    )
    frames = values(hidden, batch_dim, time, model.lstm.out_dim)
    for seq, (length, ids) in enumerate(zip(lengths, labels)):
        expected_path, expected = plain_best_path(log_prob[seq, :length], ids, blank=4)
        assert paths[seq, :length].tolist() == expected_path
        assert lasting[seq, : len(expected)].tolist() == expected
        ends = np.cumsum(expected)
        for state, (end, count) in enumerate(zip(ends, expected)):
            mean = frames[seq, end - count : end].mean(0) if count else np.zeros(6)
            np.testing.assert_allclose(by_sums[seq, state], mean, atol=1e-5)
            np.testing.assert_allclose(by_scatter[seq, state], mean, atol=1e-5)

    # the frame-wise cross entropy of the path is the loss of the best path
    per_frame = rf.cross_entropy(estimated=logits, estimated_type="logits", target=path, axis=model.wb_target_dim)
    best = rf.ctc_loss(
        logits=logits, targets=targets, input_spatial_dim=time, targets_spatial_dim=label_dim, blank_index=4, max_approx=True
    )  # fmt: skip
    torch.testing.assert_close(rf.reduce_sum(per_frame, axis=time).raw_tensor, best.raw_tensor, atol=1e-4, rtol=1e-4)

    # the labels, each as often as it lasts, are what the path says where it is not blank
    of_labels = rf.gather(durations, indices=rf.range_over_dim(label_dim) * 2 + 1, axis=states_dim)
    back, back_dim = rf.repeat(targets, in_spatial_dim=label_dim, repeats=of_labels)
    emitted, emitted_dim = rf.masked_select(path, mask=path != 4, dims=[time])
    assert back.sparse_dim is target_dim
    assert back_dim.get_size_tensor().raw_tensor.tolist() == emitted_dim.get_size_tensor().raw_tensor.tolist()
    emitted, _ = rf.replace_dim(emitted, in_dim=emitted_dim, out_dim=back_dim)
    assert bool(rf.reduce_all(back == emitted, axis=[batch_dim, back_dim]))

    # mean duration of each label over the batch
    mean = rf.scatter_mean(rf.cast(of_labels, "float32"), indices=targets, indices_dim=[batch_dim, label_dim])
    lasts = [[] for _ in range(4)]
    for seq, ids in enumerate(labels):
        for position, label in enumerate(ids):
            lasts[label].append(lasting[seq, 2 * position + 1])
    np.testing.assert_allclose(values(mean, target_dim), [np.mean(one) if one else 0.0 for one in lasts], atol=1e-6)
