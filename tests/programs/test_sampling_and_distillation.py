"""Scheduled sampling, and a student that learns from a teacher: training loops as one writes them by hand."""

import numpy as np
import torch
from loop_faces import run_steps

import rfnb as rf
from rfnb.tensor import Dim, Tensor, batch_dim


class Decoder(rf.Module):
    def __init__(self, vocab: Dim, size: int):
        super().__init__()
        self.vocab = vocab
        self.embedding = rf.Embedding(vocab, Dim(3, name="embed"))
        self.cell = rf.LSTM(self.embedding.out_dim, Dim(size, name="cell"))
        self.out = rf.Linear(self.cell.out_dim, vocab)

    def step(self, label: Tensor, state: rf.State) -> tuple[Tensor, rf.State]:
        hidden, state = self.cell(self.embedding(label), state=state, spatial_dim=rf.single_step_dim)
        return self.out(hidden), state


def _data(vocab: Dim):
    batch_dim.reset_eager()
    time = Dim(rf.convert_to_tensor(np.array([5, 2, 4], "int32"), dims=[batch_dim]), name="targets")
    raw = np.random.default_rng(4).integers(0, vocab.dimension, (3, 5)).astype("int32")
    return rf.convert_to_tensor(raw, dims=[batch_dim, time], sparse_dim=vocab), time


def test_scheduled_sampling_feeds_back_what_was_drawn():
    """With probability 0 the loss is that of teacher forcing, with 1 that of the model's own best labels; in both faces and as scan."""
    vocab = Dim(6, name="vocab")
    rf.set_random_seed(21)
    targets, time = _data(vocab)
    model = Decoder(vocab, 4)

    def body(logits: Tensor, target: Tensor, draw: Tensor) -> Tensor:
        own = rf.cast(rf.reduce_argmax(logits, axis=vocab), target.dtype)
        return rf.where(draw, own, target)

    def run(face: str, draw: Tensor) -> Tensor:
        start = rf.constant(0, dims=[batch_dim], sparse_dim=vocab, dtype="int32")
        lstm = model.cell.default_initial_state(batch_dims=[batch_dim])
        if face == "scan":

            def scan_body(xs, state):
                target, use_own = xs
                logits, lstm = model.step(state.label, state.lstm)
                return logits, rf.State(lstm=lstm, label=body(logits, target, use_own))

            template = Tensor("logits", dims=[batch_dim, vocab], dtype="float32", feature_dim=vocab)
            logits, _, _ = rf.scan(
                spatial_dim=time,
                xs=(targets, draw),
                ys=template,
                initial=rf.State(lstm=lstm, label=start),
                body=scan_body,
            )
        else:
            loop = rf.Loop(axis=time)
            loop.state.lstm, loop.state.label = lstm, start

            def step():
                logits, loop.state.lstm = model.step(loop.state.label, loop.state.lstm)
                loop.state.label = body(logits, loop.unstack(targets), loop.unstack(draw))
                return loop.stack(logits)

            logits = run_steps(loop, face, step)
        return rf.reduce_sum(
            rf.cross_entropy(estimated=logits, target=targets, axis=vocab, estimated_type="logits"),
            axis=[batch_dim, time],
        )

    labels = targets.copy_transpose([batch_dim, time]).numpy()
    rng_draw = np.random.default_rng(5).random((3, 5)) < 0.5
    for draw_raw in (np.zeros((3, 5), bool), np.ones((3, 5), bool), rng_draw):
        draw = rf.convert_to_tensor(draw_raw, dims=[batch_dim, time])
        losses = [run(face, draw).raw_tensor.item() for face in ("for", "with", "scan")]
        expected = _plain_loss(model, labels, [5, 2, 4], draw_raw)
        np.testing.assert_allclose(losses, expected, rtol=1e-5)


def _plain_loss(model: Decoder, labels: np.ndarray, lengths: list[int], draw: np.ndarray) -> float:
    """One sequence and one step at a time, with raw arrays and the documented order of the gates (i, f, g, o)."""
    vocab, embed, cell = model.vocab, model.embedding.out_dim, model.cell.out_dim
    table = model.embedding.weight.copy_transpose([vocab, embed]).numpy()
    ff = model.cell.ff_weight
    rec = model.cell.rec_weight
    (gates,) = ff.remaining_dims(embed)
    ff_raw, rec_raw = ff.copy_transpose([embed, gates]).numpy(), rec.copy_transpose([cell, gates]).numpy()
    bias = model.cell.bias.numpy()
    out, out_bias = model.out.weight.copy_transpose([cell, vocab]).numpy(), model.out.bias.numpy()
    total = 0.0
    for row, length, own in zip(labels, lengths, draw):
        h, c, label = np.zeros(cell.dimension), np.zeros(cell.dimension), 0
        for target, use_own in zip(row[:length], own):
            i, f, g, o = np.split(table[label] @ ff_raw + h @ rec_raw + bias, 4)
            sigmoid = lambda x: 1 / (1 + np.exp(-x))  # noqa: E731
            c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
            h = sigmoid(o) * np.tanh(c)
            logits = h @ out + out_bias
            total += np.log(np.exp(logits).sum()) - logits[target]
            label = int(logits.argmax()) if use_own else int(target)
    return total


def test_distillation_teaches_the_student_only():
    """Kullback-Leibler divergence at a temperature; the teacher gets no gradient, padding no weight."""
    vocab = Dim(6, name="vocab")
    rf.set_random_seed(22)
    targets, time = _data(vocab)
    teacher, student = Decoder(vocab, 5), Decoder(vocab, 3)
    temperature = 2.0

    def logits_of(model: Decoder) -> Tensor:
        inputs = rf.shift_right(targets, axis=time, pad_value=0)
        hidden, _ = model.cell(
            model.embedding(inputs), state=model.cell.default_initial_state(batch_dims=[batch_dim]), spatial_dim=time
        )
        return model.out(hidden)

    with rf.stop_gradient_scope():
        soft = rf.softmax(logits_of(teacher) / temperature, axis=vocab)
    student_logits = logits_of(student)
    log_probs = rf.log_softmax(student_logits / temperature, axis=vocab)
    divergence = rf.reduce_sum(soft * (rf.safe_log(soft) - log_probs), axis=vocab)
    hard = rf.cross_entropy(estimated=student_logits, target=targets, axis=vocab, estimated_type="logits")
    with rf.init_train_step_run_ctx():
        (divergence * temperature**2).mark_as_loss("kd", scale=0.8)
        hard.mark_as_loss("ce", scale=0.2)
        loss = rf.get_run_ctx().total_loss()
    loss.raw_tensor.backward()

    order = [batch_dim, time, vocab]
    mask = torch.from_numpy(time.get_mask(dim_order=[batch_dim, time]).numpy())
    s = student_logits.copy_transpose(order).raw_tensor.detach()[mask]
    t = logits_of(teacher).copy_transpose(order).raw_tensor.detach()[mask]
    y = torch.from_numpy(targets.copy_transpose([batch_dim, time]).numpy())[mask].long()
    kd = (
        torch.nn.functional.kl_div((s / temperature).log_softmax(-1), (t / temperature).softmax(-1), reduction="sum")
        * temperature**2
    )
    torch.testing.assert_close(
        loss.raw_tensor.detach(), 0.8 * kd + 0.2 * torch.nn.functional.cross_entropy(s, y, reduction="sum")
    )
    assert all(p.raw_tensor.grad is None for p in teacher.parameters())
    assert all(p.raw_tensor.grad is not None and p.raw_tensor.grad.isfinite().all() for p in student.parameters())
