"""Searches written in Python agree in every step with a slow and simple one, written from the documentation (slow_search.py)."""

import numpy as np
import pytest
from asserting import ragged, tensor
from golden_search import StepsCompared
from loop_faces import run_steps
from random_nets import random_net
from slow_search import SlowSearch
from test_slow_search import check_decision, check_hypotheses

import rfnb as rf
from rfnb import Dim

OPTIONS = ("beam_size", "input_type", "prob_scale", "base_beam_score_scale", "length_normalization_exponent", "keep_beams", "cheating",
           "source_beam_sizes", "end_label")  # fmt: skip


class PythonNet:
    """A random network as a model in Python."""

    def __init__(self, made):
        self.made, self.body, self.loop_options = made, made.network["output"]["unit"], made.network["output"]
        inputs, lengths = made.inputs, made.lengths
        self.batch = Dim(len(inputs["data"]), name="batch", kind="batch")
        self.vocab = Dim(made.extern_data["classes"]["dim"], name="vocab")
        self.other = Dim(made.extern_data["classes2"]["dim"], name="other")
        self.s, self.ctx_dim, feature = Dim(4, name="s"), Dim(2, name="ctx"), Dim(2, name="feature")
        time = ragged(lengths["data"], self.batch)
        frames = tensor(inputs["data"], self.batch, time, feature)
        self.ctx = rf.reduce_mean(rf.tanh(self.linear("ctx_frames", self.ctx_dim, (frames, feature))), axis=time)
        self.steps = ragged(lengths["classes"], self.batch, "steps")
        self.targets = {
            key: tensor(inputs[key].astype(np.int64), self.batch, self.steps, sparse_dim=dim)
            for key, dim in (("classes", self.vocab), ("classes2", self.other))
        }

    def linear(self, path, out_dim, *sources):
        """Of (value, dim) pairs, concatenated."""
        weights, start = self.made.parameters[f"{path}/W"], 0
        out = tensor(self.made.parameters[f"{path}/b"], out_dim)
        for value, dim in sources:
            rows = rf.dim_match_priority_when_needed(dim, out_dim)  # a weight may be square
            product = rf.matmul(value, tensor(weights[start : start + dim.size], rows, out_dim), reduce=dim)
            out = rf.combine_bc(product, "add", out)
            start += dim.size
        return out

    def embedded(self, name, label):
        table = self.made.parameters[f"output/rec/{name}/W"]
        dim = Dim(table.shape[1], name=name)
        return rf.gather(tensor(table, label.sparse_dim, dim), indices=label, axis=label.sparse_dim), dim

    def loop(self):
        options = self.loop_options
        if "size_target" in options:
            loop = rf.Loop(axis=self.steps, include_eos=options["include_eos"])
        else:
            loop = rf.Loop(max_seq_len=options["max_seq_len"])
        start = rf.zeros([self.batch], dtype="int64", sparse_dim=self.vocab)
        loop.state.label = start + self.body["output"]["initial_output"]
        loop.state.s = rf.zeros([self.batch, self.s])
        if "first" in self.body or "part" in self.body:
            loop.state.other = rf.zeros([self.batch], dtype="int64", sparse_dim=self.other)
        return loop

    def target(self, loop, name):
        """The reference label of this step; that of the end past the end."""
        key, past_end = self.body[name]["target"], self.body[name].get("end_label", 0)
        key = key[0] if isinstance(key, list) else key
        index = rf.minimum(loop.iter_idx, self.steps.extent - 1)
        index.sparse_dim = None
        label = rf.gather(self.targets[key], indices=index, axis=self.steps)
        real = rf.compare_bc(index * 0 + loop.iter_idx, "less", self.steps.get_size_tensor())
        out = rf.where(real, label, past_end, allow_broadcast_all_sources=True)
        out.sparse_dim = label.sparse_dim
        return out

    def choose(self, loop, name, scores, axis):
        given = self.body[name]
        options = {key: given[key] for key in OPTIONS if key in given}
        options["length_normalization"] = given.get("length_normalization", True)
        options.update(keep_candidates=1000, name=name, custom_score_combine=given.get("custom_score_combine"))
        kind = given["input_type"]
        if kind != "logits":
            fn = rf.softmax if kind == "prob" else rf.log_softmax
            pairs = zip(scores, axis) if isinstance(scores, list) else [(scores, axis)]
            found = [fn(x, axis=dim) for x, dim in pairs]
            scores = found if isinstance(scores, list) else found[0]
        if given.get("search", True) is False:
            options.pop("length_normalization")
            options.update(search=False, add_to_beam_scores=True)
        if "cheating" in given or "search" in given:
            options["target"] = self.target(loop, name)
        return rf.choice(scores, axis=axis, **options)

    def step(self, loop):
        """The labels of this step, collected."""
        inputs = [(loop.state.s, self.s), self.embedded("emb", loop.state.label)]
        if "part" in self.body:
            inputs.append(self.embedded("emb_part", loop.state.other))
        loop.state.s = rf.tanh(self.linear("output/rec/s", self.s, *inputs, (self.ctx, self.ctx_dim)))
        extra, first = [], None
        if "first" in self.body:
            before = self.embedded("emb_before", loop.state.other)
            scores = self.linear("output/rec/q", self.other, (loop.state.s, self.s), before)
            first = self.choose(loop, "first", scores, self.other)
            loop.state.other = first
            extra = [self.embedded("emb_first", first)]
        scores = self.linear("output/rec/p", self.vocab, (loop.state.s, self.s), *extra)
        if "part" in self.body:
            others = self.linear("output/rec/q", self.other, (loop.state.s, self.s))
            label, loop.state.other = self.choose(loop, "output", [scores, others], [self.vocab, self.other])
        else:
            label = self.choose(loop, "output", scores, self.vocab)
        loop.state.label = label
        if "end" in self.body:
            loop.end(label == self.body["end"]["value"], include_eos=self.loop_options["include_eos"])
        return loop.stack(label), None if first is None else loop.stack(first)

    def search(self, face):
        loop = self.loop()
        return run_steps(loop, face, lambda: self.step(loop))


def compare(made, face, **options):
    """Run both searches."""
    wanted = SlowSearch(made.network, made.inputs, made.lengths, made.parameters, **options).arrays()
    with StepsCompared(wanted, all_candidates=True):
        labels, first = PythonNet(made).search(face)
    check_hypotheses(wanted, labels, "output")
    if first is not None:
        check_hypotheses(wanted, first, "output/first")
    by_length = made.network["decision"].get("length_normalization", False)
    check_decision(wanted, rf.decide(labels, length_normalization=by_length))


FACES = pytest.mark.parametrize("face", ["for", "with"])


@FACES
@pytest.mark.parametrize("shape", ["one", "several", "two"])
@pytest.mark.parametrize("seed", range(1000, 1025))
def test_python_code_searches_as_the_slow_search(seed, shape, face):
    made = random_net(seed, shape)
    end = made.network["output"]["unit"].get("end", {"value": 0})["value"]
    if end and shape == "one":  # ended hypotheses go on through what ended them
        made.network["output"]["unit"]["output"]["end_label"] = end
    compare(made, face)


@FACES
@pytest.mark.parametrize("seed", range(1100, 1110))
def test_a_custom_combination_does_too(seed, face):
    made = random_net(seed, "one")
    output = made.network["output"]["unit"]["output"]
    output.pop("cheating", None)
    output["custom_score_combine"] = lambda *, scores_in, scores_base, t, **_: rf.combine_bc(
        scores_in * 0.5, "add", scores_base * (0.9 - 0.01 * t)
    )
    compare(made, face, combine={"output": lambda own, base, step: own * 0.5 + base * (0.9 - 0.01 * step)})
