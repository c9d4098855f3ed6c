"""LSTM LM, trained by truncated backpropagation: chunks of a long text, with the state carried over them."""

import numpy as np
import program_runs as runs
import torch

import rfnb as rf
from rfnb.tensor import Dim, Tensor, TensorDict, batch_dim


class LmState(rf.State):
    """One state per layer, and how many words were read."""

    def __init__(self, *_args, layers=None, position: Tensor | None = None):
        super().__init__(*_args)
        if not _args:
            self.layers = layers
            self.position = position


class Model(rf.Module):
    def __init__(self, vocab_dim: Dim, *, num_layers: int = 2):
        super().__init__()
        self.vocab_dim = vocab_dim
        self.model_dim = Dim(6, name="model")
        self.embed = rf.Embedding(vocab_dim, self.model_dim)
        self.layers = rf.ModuleList(rf.LSTM(self.model_dim, self.model_dim) for _ in range(num_layers))
        self.norm = rf.LayerNorm(self.model_dim)
        self.bias = rf.Parameter([vocab_dim])
        self.bias.initial = 0.0

    def default_initial_state(self, *, batch_dims):
        return LmState(
            layers=[layer.default_initial_state(batch_dims=batch_dims) for layer in self.layers],
            position=rf.zeros(batch_dims, dtype="int32"),
        )

    def __call__(self, labels: Tensor, *, spatial_dim: Dim, state: LmState):
        x = self.embed(labels)
        new_layers = []
        for layer, layer_state in zip(self.layers, state.layers):
            y, new = layer(x, state=layer_state, spatial_dim=spatial_dim)
            new_layers.append(new)
            x = x + y
        # tied weights
        logits = rf.matmul(self.norm(x), self.embed.weight, reduce=self.model_dim) + self.bias
        logits.feature_dim = self.vocab_dim
        position = state.position + rf.copy_to_device(spatial_dim.get_size_tensor(), state.position.device)
        return logits, LmState(layers=new_layers, position=position)


def train_step(*, model: Model, extern_data: TensorDict, chunk_size: int = 3):
    data = extern_data["data"]
    time_dim = data.get_time_dim_tag()
    inputs = rf.shift_right(data, axis=time_dim, pad_value=0)
    state = model.default_initial_state(batch_dims=[batch_dim])
    max_len = int(time_dim.get_dim_value_tensor().raw_tensor)
    losses, dims = [], []
    for start in range(0, max_len, chunk_size):
        lens = rf.clip_by_value(time_dim.get_size_tensor() - start, 0, chunk_size)
        chunk_dim = Dim(lens, name=f"chunk{start}")
        chunk_in, _ = rf.slice(inputs, axis=time_dim, start=start, size=chunk_dim)
        chunk_out, _ = rf.slice(data, axis=time_dim, start=start, size=chunk_dim)
        state = LmState(
            layers=[rf.LstmState(h=rf.stop_gradient(s.h), c=rf.stop_gradient(s.c)) for s in state.layers],
            position=state.position,
        )
        logits, state = model(chunk_in, spatial_dim=chunk_dim, state=state)
        loss = rf.cross_entropy(estimated=logits, target=chunk_out, axis=model.vocab_dim, estimated_type="logits")
        loss.mark_as_loss(f"ce_{start}")
        losses.append(loss)
        dims.append(chunk_dim)
    joined, joined_dim = rf.concat(*zip(losses, dims))
    rf.get_run_ctx().mark_as_output(joined, "log_ppl", dims=[batch_dim, joined_dim])
    rf.get_run_ctx().mark_as_output(state.position, "position", dims=[batch_dim])
    for i, layer_state in enumerate(state.layers):
        rf.get_run_ctx().mark_as_output(layer_state.c, f"c{i}", dims=[batch_dim, model.model_dim])


def forward_step(*, model: Model, extern_data: TensorDict):
    """Scores of whole sequences."""
    data = extern_data["data"]
    time_dim = data.get_time_dim_tag()
    inputs = rf.shift_right(data, axis=time_dim, pad_value=0)
    logits, state = model(inputs, spatial_dim=time_dim, state=model.default_initial_state(batch_dims=[batch_dim]))
    log_prob = rf.log_softmax(logits, axis=model.vocab_dim)
    frame = rf.gather(log_prob, indices=data, axis=model.vocab_dim)
    scores = rf.reduce_sum(frame, axis=time_dim)
    ppl = rf.exp(-scores / rf.copy_to_device(rf.cast(time_dim.get_size_tensor(), "float32"), scores.device))
    scores.mark_as_output("scores", shape=[batch_dim])
    ppl.mark_as_output("ppl", shape=[batch_dim])


# ---- checks

vocab_dim = Dim(7, name="vocab")


def make():
    model = Model(vocab_dim)
    time = Dim(Tensor("time", [batch_dim], "int32"), name="time")
    extern_data = TensorDict({"data": Tensor("data", [batch_dim, time], "int32", sparse_dim=vocab_dim)})
    data = {"data": [runs.labels(1, 8, 7), runs.labels(2, 3, 7), runs.labels(3, 5, 7)]}
    return model, runs.randomize(model, scale=0.6), extern_data, data


def run_reference(W, words, chunk):
    states = [(torch.zeros(6), torch.zeros(6))] * 2
    rows, prev = [], 0
    for start in range(0, len(words), chunk):
        states = [(h.detach(), c.detach()) for h, c in states]
        for word in words[start : start + chunk]:
            x = W["embed.weight"][prev]
            for i in range(2):
                y, states[i] = runs.lstm([x], W, f"layers.{i}", states[i])
                x = x + y[0]
            logits = W["embed.weight"] @ runs.layer_norm(x, W, "norm") + W["bias"]
            rows.append(-torch.log_softmax(logits, -1)[int(word)])
            prev = int(word)
    return torch.stack(rows), states


def test_training():
    model, W, extern_data, data = make()
    run = runs.train(train_step, model, extern_data, data)
    results = [run_reference(W, words, 3) for words in data["data"]]
    runs.same_gradients(run.total_loss().raw_tensor, sum(rows.sum() for rows, _ in results), W, atol=1e-4)
    for index, (rows, states) in enumerate(results):
        outputs = run.outputs.sequence(index)
        np.testing.assert_allclose(np.asarray(outputs["log_ppl"].raw_tensor), rows.detach().numpy(), atol=1e-5)
        assert int(outputs["position"].raw_tensor) == len(rows)
        for i in range(2):
            np.testing.assert_allclose(np.asarray(outputs[f"c{i}"].raw_tensor), states[i][1].detach(), atol=1e-5)


def test_scores():
    model, W, extern_data, data = make()
    runs.alone(train_step, model, extern_data, data)
    for words, result in zip(data["data"], runs.alone(forward_step, model, extern_data, data)):
        rows, _ = run_reference(W, words, 100)
        np.testing.assert_allclose(result["scores"], -rows.sum().detach(), rtol=1e-5)
        np.testing.assert_allclose(result["ppl"], rows.mean().exp().detach(), rtol=1e-4)
