"""A linear-chain CRF: the forward algorithm and Viterbi as scans with the way back over backpointers, the same in a Loop, and the
gradient of the likelihood."""

import itertools

import numpy as np
import pytest
import torch
from loop_faces import run_steps

import rfnb as rf
from rfnb.tensor import Dim, Tensor, batch_dim


class Crf(rf.Module):
    def __init__(self, tags_dim: Dim):
        super().__init__()
        self.tags_dim = tags_dim
        self.prev_dim = tags_dim.copy(same_as_self=False, description="prev-tags")
        self.trans = rf.Parameter([self.prev_dim, tags_dim])
        self.start, self.end = rf.Parameter([tags_dim]), rf.Parameter([tags_dim])
        for param in self.parameters():
            param.initial = rf.init.Normal(1.0)

    def score(self, emissions: Tensor, tags: Tensor, *, spatial_dim: Dim) -> Tensor:
        first = rf.gather(tags, indices=0, axis=spatial_dim)
        last = rf.gather(tags, indices=rf.last_frame_position_of_dim(spatial_dim), axis=spatial_dim)
        prev = rf.set_sparse_dim(rf.shift_right(tags, axis=spatial_dim, pad_value=0), self.prev_dim)
        trans = rf.gather(rf.gather(self.trans, indices=prev), indices=tags)
        trans = rf.where(rf.range_over_dim(spatial_dim) > 0, trans, 0.0)
        path = rf.reduce_sum(rf.gather(emissions, indices=tags, axis=self.tags_dim) + trans, axis=spatial_dim)
        return path + rf.gather(self.start, indices=first) + rf.gather(self.end, indices=last)

    def before(self, scores: Tensor) -> Tensor:
        """scores of a tag, then another one"""
        prev, _ = rf.replace_dim(scores, in_dim=self.tags_dim, out_dim=self.prev_dim)
        return rf.combine_bc(prev, "+", self.trans)

    def forward(self, frame: tuple[Tensor, Tensor], alpha: Tensor) -> tuple[Tensor, Tensor]:
        emission, pos = frame
        alpha = rf.where(pos == 0, self.start, rf.reduce_logsumexp(self.before(alpha), axis=self.prev_dim)) + emission
        return rf.reduce_logsumexp(alpha, axis=self.tags_dim), alpha

    def log_norm(self, emissions: Tensor, *, spatial_dim: Dim) -> Tensor:
        batch_dims = emissions.remaining_dims([spatial_dim, self.tags_dim])
        _, alpha, _ = rf.scan(
            spatial_dim=spatial_dim,
            xs=(emissions, rf.range_over_dim(spatial_dim)),
            initial=rf.zeros([*batch_dims, self.tags_dim]),
            body=lambda frame, alpha: (None, self.forward(frame, alpha)[1]),
        )
        return rf.reduce_logsumexp(alpha + self.end, axis=self.tags_dim)

    def viterbi(self, emissions: Tensor, *, spatial_dim: Dim) -> tuple[Tensor, Tensor]:
        batch_dims = emissions.remaining_dims([spatial_dim, self.tags_dim])

        def forward(emission: Tensor, state: tuple[Tensor, Tensor]):
            best, pos = state
            scores = self.before(best)
            back = rf.cast(rf.reduce_argmax(scores, axis=self.prev_dim), "int32")
            best = rf.where(pos == 0, self.start, rf.reduce_max(scores, axis=self.prev_dim)) + emission
            return back, (best, pos + 1)

        backs, (best, _), _ = rf.scan(
            spatial_dim=spatial_dim, xs=emissions, body=forward,
            initial=(rf.zeros([*batch_dims, self.tags_dim]), rf.zeros(batch_dims, dtype="int32")),
            ys=Tensor("back", dims=[*batch_dims, self.tags_dim], dtype="int32", sparse_dim=self.prev_dim),
        )  # fmt: skip
        best = best + self.end
        path, _, _ = rf.scan(
            spatial_dim=spatial_dim, xs=rf.reverse_sequence(backs, axis=spatial_dim),
            initial=rf.cast(rf.reduce_argmax(best, axis=self.tags_dim), "int32"),
            body=lambda back, tag: (tag, rf.set_sparse_dim(rf.gather(back, indices=tag), self.tags_dim)),
            ys=Tensor("tag", dims=batch_dims, dtype="int32", sparse_dim=self.tags_dim),
        )  # fmt: skip
        return rf.reverse_sequence(path, axis=spatial_dim), rf.reduce_max(best, axis=self.tags_dim)


def prefixes_in_a_loop(crf: Crf, emissions: Tensor, *, spatial_dim: Dim, face: str) -> Tensor:
    loop = rf.Loop(axis=spatial_dim, name="forward")
    loop.state.alpha = rf.zeros([batch_dim, crf.tags_dim])

    def step():
        total, loop.state.alpha = crf.forward((loop.unstack(emissions), loop.iter_idx), loop.state.alpha)
        return loop.stack(total)

    out = run_steps(loop, face, step)
    return out


@pytest.mark.parametrize(("lengths", "num_tags"), [([5, 3, 1, 4], 3), ([1], 3), ([4, 4, 4, 4], 4)])
def test_a_crf_against_all_paths(lengths, num_tags):
    batch_dim.reset_eager()
    rf.set_random_seed(9)
    rng = np.random.default_rng(5)
    tags_dim = Dim(num_tags, name="tags")
    crf = Crf(tags_dim)
    raw = torch.tensor(rng.normal(size=(len(lengths), max(lengths), num_tags)).astype("float32"), requires_grad=True)
    gold = rng.integers(0, num_tags, (len(lengths), max(lengths))).astype("int32")
    time = Dim(rf.convert_to_tensor(np.array(lengths, "int32"), dims=[batch_dim]), name="time")
    emissions = rf.convert_to_tensor(raw, dims=[batch_dim, time, tags_dim])
    tags = rf.convert_to_tensor(gold, dims=[batch_dim, time], sparse_dim=tags_dim)

    norm, score = crf.log_norm(emissions, spatial_dim=time), crf.score(emissions, tags, spatial_dim=time)
    path, best = crf.viterbi(emissions, spatial_dim=time)

    def plain(seq: int, labels: tuple[int, ...]) -> torch.Tensor:
        trans, start, end = (param.raw_tensor for param in (crf.trans, crf.start, crf.end))
        inner = [trans[a, b] for a, b in itertools.pairwise(labels)]
        return start[labels[0]] + end[labels[-1]] + sum(inner) + sum(raw[seq, t, tag] for t, tag in enumerate(labels))

    expected = 0.0
    found = path.copy_transpose([batch_dim, time]).raw_tensor
    for seq, length in enumerate(lengths):
        paths = list(itertools.product(range(num_tags), repeat=length))
        scores = torch.stack([plain(seq, labels) for labels in paths])
        of_gold = plain(seq, tuple(gold[seq, :length].tolist()))
        torch.testing.assert_close(norm.raw_tensor[seq], torch.logsumexp(scores, 0), atol=1e-4, rtol=1e-4)
        torch.testing.assert_close(score.raw_tensor[seq], of_gold, atol=1e-4, rtol=1e-4)
        torch.testing.assert_close(best.raw_tensor[seq], scores.max(), atol=1e-4, rtol=1e-4)
        assert tuple(found[seq, :length].tolist()) == paths[int(scores.argmax())]
        expected = expected + torch.logsumexp(scores, 0) - of_gold

    with rf.init_train_step_run_ctx() as run:
        (norm - score).mark_as_loss("crf")
    inputs = [raw, crf.trans.raw_tensor, crf.start.raw_tensor, crf.end.raw_tensor]
    total = run.total_loss().raw_tensor
    for grad, wanted in zip(
        torch.autograd.grad(total, inputs, allow_unused=True),
        torch.autograd.grad(expected, inputs, allow_unused=True, materialize_grads=True),
    ):
        torch.testing.assert_close(grad, wanted, atol=1e-4, rtol=1e-3)

    with torch.no_grad():
        prefixes = {face: prefixes_in_a_loop(crf, emissions, spatial_dim=time, face=face) for face in ("for", "with")}
    for out in prefixes.values():
        for seq, length in enumerate(lengths):
            cut = Dim(length, name="cut")
            alone = rf.convert_to_tensor(raw[seq, :length], dims=[cut, tags_dim])
            _, alpha, _ = rf.scan(
                spatial_dim=cut, xs=(alone, rf.range_over_dim(cut)), initial=rf.zeros([tags_dim]),
                body=lambda frame, alpha: (None, crf.forward(frame, alpha)[1]),
            )  # fmt: skip
            last = out.copy_transpose([batch_dim, time]).raw_tensor[seq, length - 1]
            torch.testing.assert_close(last, alpha.raw_tensor.logsumexp(0), atol=1e-4, rtol=1e-4)
