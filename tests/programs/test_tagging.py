"""Multi-task: masked words, tags of some words, the head of a pair by gather, and a class of the sentence."""

import numpy as np
import program_runs as runs
import torch
from rfnb.encoder.transformer import TransformerEncoder

import rfnb as rf
from rfnb.tensor import Dim, Tensor, TensorDict, batch_dim


class Biaffine(rf.Module):
    def __init__(self, a_dim: Dim, b_dim: Dim):
        super().__init__()
        self.a_dim, self.b_dim = a_dim, b_dim
        self.weight = rf.Parameter([a_dim, b_dim])
        self.weight.initial = rf.init.Glorot()
        self.bias = rf.Parameter([b_dim], initial=0.0)

    def __call__(self, a: Tensor, b: Tensor) -> Tensor:
        left = rf.matmul(a, self.weight, reduce=self.a_dim)
        return rf.matmul(left, b, reduce=self.b_dim) + rf.matmul(b, self.bias, reduce=self.b_dim)


class Model(rf.Module):
    def __init__(self, vocab_dim: Dim, tag_dim: Dim, class_dim: Dim):
        super().__init__()
        self.vocab_dim, self.tag_dim, self.class_dim = vocab_dim, tag_dim, class_dim
        self.mask_idx = vocab_dim.dimension - 1
        self.model_dim = Dim(8, name="model")
        self.encoder = TransformerEncoder(
            vocab_dim,
            self.model_dim,
            num_layers=1,
            num_heads=2,
            dropout=0.0,
            att_dropout=0.0,
            ff=rf.build_dict(rf.decoder.transformer.FeedForwardGated, ff_dim=Dim(10, name="ff")),
            norm=rf.build_dict(rf.RMSNorm),
        )
        self.mlm = rf.Linear(self.model_dim, vocab_dim)
        self.tags = rf.Linear(self.model_dim, tag_dim)
        self.head_dim, self.child_dim = Dim(4, name="head"), Dim(3, name="child")
        self.head, self.child = rf.Linear(self.model_dim, self.head_dim), rf.Linear(self.model_dim, self.child_dim)
        self.biaffine = Biaffine(self.child_dim, self.head_dim)
        self.pool = rf.Linear(self.model_dim, Dim(1, name="pool"))
        self.cls = rf.Linear(self.model_dim + self.model_dim, class_dim)


def train_step(*, model: Model, extern_data: TensorDict):
    words, chosen, tags, heads = (extern_data[key] for key in ("data", "chosen", "tags", "heads"))
    classes = extern_data["class"]
    time_dim = words.get_time_dim_tag()
    enc = model.encoder(rf.where(chosen, model.mask_idx, words), spatial_dim=time_dim)

    # masked words, packed over the whole batch
    packed, packed_dim = rf.masked_select(enc, mask=chosen, dims=[batch_dim, time_dim])
    targets, _ = rf.masked_select(words, mask=chosen, dims=[batch_dim, time_dim], out_dim=packed_dim)
    log_probs = rf.log_softmax(model.mlm(packed), axis=model.vocab_dim)
    mlm = rf.cross_entropy(estimated=log_probs, target=targets, axis=model.vocab_dim, estimated_type="log-probs")
    mlm.mark_as_loss("mlm", use_normalized_loss=True)

    # tags of the words that are not masked, per sequence
    known = rf.logical_not(chosen)
    known_enc, known_dim = rf.masked_select(enc, mask=known, dims=[time_dim])
    known_tags, _ = rf.masked_select(tags, mask=known, dims=[time_dim], out_dim=known_dim)
    tag_logits = model.tags(known_enc)
    loss = rf.cross_entropy(estimated=tag_logits, target=known_tags, axis=model.tag_dim, estimated_type="logits")
    weight = 1.0 / rf.copy_to_device(rf.cast(known_dim.get_size_tensor(), "float32"), loss.device)
    (loss * weight).mark_as_loss("tags")

    # heads: a softmax over the words of the sentence
    head_spatial_dim = time_dim.copy(same_as_self=False, description="heads")
    head_enc, _ = rf.replace_dim(model.head(enc), in_dim=time_dim, out_dim=head_spatial_dim)
    scores = model.biaffine(model.child(enc), head_enc)
    arc = rf.log_softmax(scores, axis=head_spatial_dim)
    head_idx = rf.set_sparse_dim(heads, head_spatial_dim)
    (-rf.gather(arc, indices=head_idx, axis=head_spatial_dim)).mark_as_loss("arc", use_normalized_loss=True)

    # class of the sentence: attention pooling, and the word with the most votes as a head
    weights = rf.softmax(rf.squeeze(model.pool(enc), model.pool.out_dim), axis=time_dim)
    pooled = rf.matmul(weights, enc, reduce=time_dim)
    votes = rf.scatter(rf.ones([batch_dim, time_dim]), indices=head_idx, indices_dim=time_dim, out_dim=head_spatial_dim)
    root = rf.reduce_argmax(votes, axis=head_spatial_dim)
    root_enc = rf.gather(enc, indices=rf.set_sparse_dim(root, time_dim))
    both, _ = rf.concat((pooled, model.model_dim), (root_enc, model.model_dim), out_dim=model.cls.in_dim)
    cls = rf.cross_entropy(estimated=model.cls(both), target=classes, axis=model.class_dim, estimated_type="logits")
    cls.mark_as_loss("class", scale=2.0, use_normalized_loss=True)

    run_ctx = rf.get_run_ctx()
    run_ctx.mark_as_output(root, "root", dims=[batch_dim])
    run_ctx.mark_as_output(tag_logits, "tag_logits", dims=[batch_dim, known_dim, model.tag_dim])
    run_ctx.mark_as_output(arc, "arc", dims=[batch_dim, time_dim, head_spatial_dim])
    back = rf.masked_scatter(packed, mask=chosen, dims=[batch_dim, time_dim], in_dim=packed_dim)
    run_ctx.mark_as_output(back, "masked_enc", dims=[batch_dim, time_dim, model.model_dim])


# ---- checks

vocab_dim, tag_dim, class_dim = Dim(9, name="vocab"), Dim(4, name="tag"), Dim(3, name="class")


def make():
    model = Model(vocab_dim, tag_dim, class_dim)
    time = Dim(Tensor("time", [batch_dim], "int32"), name="time")
    extern_data = TensorDict(
        [
            Tensor("data", [batch_dim, time], "int32", sparse_dim=vocab_dim),
            Tensor("chosen", [batch_dim, time], "bool"),
            Tensor("tags", [batch_dim, time], "int32", sparse_dim=tag_dim),
            Tensor("heads", [batch_dim, time], "int32", sparse_dim=time),
            Tensor("class", [batch_dim], "int32", sparse_dim=class_dim),
        ]
    )
    lengths = [6, 3, 4]
    data = {
        "data": [runs.labels(i, n, 8) for i, n in enumerate(lengths)],
        "chosen": [np.arange(n) % 3 == 1 for n in lengths],
        "tags": [runs.labels(i + 5, n, 4) for i, n in enumerate(lengths)],
        "heads": [runs.labels(i + 9, n, n) for i, n in enumerate(lengths)],
        "class": [np.int32(2), np.int32(0), np.int32(1)],
    }
    return model, runs.randomize(model, scale=0.5), extern_data, data


def rms(x, W, name):
    return x / torch.sqrt((x**2).mean(-1, keepdim=True) + 1e-6) * W[f"{name}.scale"]


def reference(W, words, chosen, tags, heads, label):
    n = len(words)
    x = W["encoder.input_embedding.weight"][torch.where(torch.as_tensor(chosen), 8, torch.as_tensor(words))] * 8**0.5
    rate = np.arange(n)[:, None] * 10000.0 ** (-np.arange(4) / 3)
    x = x + torch.tensor(np.concatenate([np.sin(rate), np.cos(rate)], -1), dtype=torch.float32)
    p = "encoder.layers.0"
    qkv = runs.linear(rms(x, W, f"{p}.self_att_layer_norm"), W, f"{p}.self_att.qkv").reshape(n, 2, 3, 4)
    att = [torch.softmax(qkv[:, h, 0] @ qkv[:, h, 1].T / 2, -1) @ qkv[:, h, 2] for h in range(2)]
    x = x + runs.linear(torch.cat(att, -1), W, f"{p}.self_att.proj")
    y = runs.linear(rms(x, W, f"{p}.ff_layer_norm"), W, f"{p}.ff.linear_ff")
    x = x + runs.linear(torch.nn.functional.silu(y[:, :10]) * y[:, 10:], W, f"{p}.ff.linear_out")
    enc = rms(x, W, "encoder.final_layer_norm")
    chosen = torch.as_tensor(chosen)
    words, tags, heads = (torch.as_tensor(part).long() for part in (words, tags, heads))
    ce = torch.nn.functional.cross_entropy
    mlm = ce(runs.linear(enc[chosen], W, "mlm"), words[chosen], reduction="sum")
    tag_logits = runs.linear(enc[~chosen], W, "tags")
    head, child = runs.linear(enc, W, "head"), runs.linear(enc, W, "child")
    scores = child @ W["biaffine.weight"] @ head.T + head @ W["biaffine.bias"]
    pooled = torch.softmax(runs.linear(enc, W, "pool")[:, 0], 0) @ enc
    root = int(torch.bincount(heads, minlength=n).argmax())
    cls = runs.linear(torch.cat([pooled, enc[root]]), W, "cls")
    return {
        "mlm": mlm,
        "tags": ce(tag_logits, tags[~chosen]),
        "arc": ce(scores, heads, reduction="sum"),
        "cls": ce(cls, torch.tensor(int(label))),
        "outputs": {
            "root": root,
            "tag_logits": tag_logits,
            "arc": torch.log_softmax(scores, -1),
            "masked_enc": torch.where(chosen[:, None], enc, 0.0),
        },
    }


def test_training():
    model, W, extern_data, data = make()
    run = runs.train(train_step, model, extern_data, data)
    results = [reference(W, *parts) for parts in zip(*data.values())]
    chosen = sum(int(c.sum()) for c in data["chosen"])
    total = (
        sum(r["mlm"] for r in results) / chosen
        + sum(r["tags"] for r in results)
        + sum(r["arc"] for r in results) / 13
        + 2 * sum(r["cls"] for r in results) / 3
    )
    runs.same_gradients(run.total_loss().raw_tensor, total, W, atol=1e-4)
    for result, ours in zip(results, runs.alone(train_step, model, extern_data, data)):
        for name, expected in result["outputs"].items():
            np.testing.assert_allclose(ours[name], np.asarray(torch.as_tensor(expected).detach()), atol=1e-4)


def test_marks():
    model, _, extern_data, data = make()
    run = runs.forward(train_step, model, extern_data, data)
    assert run.outputs["root"].dtype == "int64"
    assert run.outputs["arc"].dims[2] in run.outputs["arc"].dims_set
    assert run.outputs["root"].sparse_dim == run.outputs["arc"].dims[2]
