"""Several tasks on one encoder: CTC, a label of the whole sequence, an adversary of frames behind a reversed gradient, a head that is
kept from the encoder."""

import contextlib

import numpy as np
import torch
import torch.nn.functional as F

import rfnb as rf
from rfnb.tensor import Dim, Tensor, TensorDict, batch_dim


class Model(rf.Module):
    def __init__(self, in_dim: Dim, phone_dim: Dim, lang_dim: Dim, speaker_dim: Dim):
        super().__init__()
        self.phone_dim, self.lang_dim, self.speaker_dim = phone_dim, lang_dim, speaker_dim
        self.shared_dim = Dim(7, name="shared")
        self.first, self.second = rf.Linear(in_dim, self.shared_dim), rf.Linear(self.shared_dim, self.shared_dim)
        self.phone = rf.Linear(self.shared_dim, phone_dim + 1)
        self.query = rf.Parameter([self.shared_dim])
        self.query.initial = rf.init.Normal(stddev=1.0)
        self.lang = rf.Linear(self.shared_dim, lang_dim)
        self.speaker = rf.Linear(self.shared_dim, speaker_dim)
        self.quality = rf.Linear(self.shared_dim, Dim(1, name="one"))
        self.frozen_steps = 1

    def encode(self, source: Tensor) -> Tensor:
        frozen = rf.get_run_ctx().step < self.frozen_steps
        with rf.stop_gradient_scope() if frozen else contextlib.nullcontext():
            return rf.tanh(self.second(rf.tanh(self.first(source))))

    def pool(self, x: Tensor, *, spatial_dim: Dim) -> Tensor:
        weights = rf.softmax(rf.matmul(x, self.query, reduce=self.shared_dim), axis=spatial_dim)
        return rf.matmul(weights, x, reduce=spatial_dim)


def train_step(*, model: Model, extern_data: TensorDict) -> None:
    data, phones = extern_data["data"], extern_data["phones"]
    time, phone_time = data.get_time_dim_tag(), phones.get_time_dim_tag()
    hidden = model.encode(data)
    ctc = rf.ctc_loss(
        logits=model.phone(hidden), targets=phones, input_spatial_dim=time, targets_spatial_dim=phone_time,
        blank_index=model.phone_dim.dimension,
    )  # fmt: skip
    ctc.mark_as_loss("ctc", custom_inv_norm_factor=phone_time.get_size_tensor(), use_normalized_loss=True)

    pooled = model.pool(hidden, spatial_dim=time)
    lang = rf.cross_entropy(
        estimated=model.lang(pooled), estimated_type="logits", target=extern_data["lang"], axis=model.lang_dim
    )
    lang.mark_as_loss("lang", scale=0.5)

    # one speaker for all frames of a sequence
    logits = model.speaker(rf.scaled_gradient(hidden, scale=-0.3))
    probs = rf.softmax(logits, axis=model.speaker_dim)
    speaker = rf.cross_entropy(
        estimated=probs, estimated_type="probs", target=extern_data["speaker"], axis=model.speaker_dim
    )
    speaker.mark_as_loss("speaker", use_normalized_loss=True)

    guess = rf.squeeze(model.quality(rf.stop_gradient(pooled)), axis=model.quality.out_dim)
    per_frame = rf.stop_gradient(ctc) / rf.cast(rf.copy_to_device(time.get_size_tensor()), "float32")
    rf.squared_difference(guess, per_frame).mark_as_loss("quality", scale=2.0)


def plain_loss(
    model: Model, data: torch.Tensor, lengths, phones, phone_lengths, lang, speaker, frozen: bool
) -> torch.Tensor:
    params = {name: param.raw_tensor for name, param in model.named_parameters()}

    def linear(name: str, x: torch.Tensor) -> torch.Tensor:
        return x @ params[f"{name}.weight"] + params[f"{name}.bias"]

    with torch.no_grad() if frozen else contextlib.nullcontext():
        hidden = torch.tanh(linear("second", torch.tanh(linear("first", data))))
    log_probs = torch.log_softmax(linear("phone", hidden), -1).transpose(0, 1)
    ctc = F.ctc_loss(
        log_probs, torch.tensor(phones).long(), torch.tensor(lengths), torch.tensor(phone_lengths), blank=5, reduction="none"
    )  # fmt: skip
    total, frames = ctc.sum() / sum(phone_lengths), []
    for seq, length in enumerate(lengths):
        x = hidden[seq, :length]
        pooled = torch.softmax(x @ params["query"], 0) @ x
        total = total + 0.5 * F.cross_entropy(linear("lang", pooled), torch.tensor(lang[seq]).long())
        reversed_ = x.detach() - 0.3 * (x - x.detach())
        target = torch.full((length,), int(speaker[seq]))
        frames.append(F.cross_entropy(linear("speaker", reversed_), target, reduction="none"))
        total = total + 2 * (linear("quality", pooled.detach())[0] - ctc[seq].detach() / length) ** 2
    return total + torch.cat(frames).mean()


def test_the_losses_and_gradients_of_all_tasks():
    rf.set_random_seed(4)
    in_dim, phone_dim, lang_dim, speaker_dim = (
        Dim(size, name=name) for size, name in ((4, "in"), (5, "phones"), (3, "langs"), (2, "speakers"))
    )
    model = Model(in_dim, phone_dim, lang_dim, speaker_dim)
    time, phone_time = (Dim(Tensor(name, [batch_dim], "int32"), name=name) for name in ("time", "phone-time"))
    extern_data = TensorDict()
    extern_data.update(
        {
            "data": {"dim_tags": [batch_dim, time, in_dim], "feature_dim": in_dim},
            "phones": {"dim_tags": [batch_dim, phone_time], "sparse_dim": phone_dim, "dtype": "int32"},
            "lang": {"dim_tags": [batch_dim], "sparse_dim": lang_dim, "dtype": "int32"},
            "speaker": {
                "dim_tags": [batch_dim],
                "sparse_dim": speaker_dim,
                "dtype": "int32",
                "available_for_inference": False,
            },
        },
        auto_convert=True,
    )
    rng = np.random.default_rng(7)
    batches = [([8, 5, 3], [3, 2, 1]), ([6, 4], [2, 1]), ([3], [1]), ([1, 7], [1, 3])]
    for step, (lengths, phone_lengths) in enumerate(batches):
        count = len(lengths)
        data = torch.tensor(rng.normal(size=(count, max(lengths), 4)).astype("float32"))
        phones = (np.arange(max(phone_lengths)) + rng.integers(0, 5, (count, 1))).astype("int32") % 5
        lang, speaker = rng.integers(0, 3, count).astype("int32"), rng.integers(0, 2, count).astype("int32")
        extern_data.reset_content()
        extern_data.assign_from_raw_tensor_dict_(
            {
                "data": data,
                "data:size1": torch.tensor(lengths, dtype=torch.int32),
                "phones": torch.tensor(phones),
                "phones:size1": torch.tensor(phone_lengths, dtype=torch.int32),
                "lang": torch.tensor(lang),
                "speaker": torch.tensor(speaker),
            }
        )
        with rf.init_train_step_run_ctx(train_flag=True, step=step) as run:
            train_step(model=model, extern_data=extern_data)
        total = run.total_loss().raw_tensor
        expected = plain_loss(model, data, lengths, phones, phone_lengths, lang, speaker, frozen=step == 0)
        torch.testing.assert_close(total, expected, atol=1e-4, rtol=1e-4)

        params = dict(model.named_parameters())
        raws = [param.raw_tensor for param in params.values()]
        got, wanted = (torch.autograd.grad(loss, raws, allow_unused=True) for loss in (total, expected))
        for name, grad, like in zip(params, got, wanted):
            if step == 0 and name.startswith(("first", "second")):
                assert grad is None and like is None
            else:
                torch.testing.assert_close(grad, like, atol=1e-5, rtol=1e-4)
