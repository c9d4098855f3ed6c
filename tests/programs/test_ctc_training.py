"""A Conformer CTC model from raw audio, with all that a training set-up of the documentation has: features, SpecAugment, auxiliary
losses, weight noise, a prior, a scheduler, an optimizer on the raw parameters, a checkpoint, and the forward step."""

import numpy as np
import pytest
import torch
from rfnb.encoder.conformer import (
    ConformerConvSubsample,
    ConformerEncoder,
    ConformerEncoderLayer,
    ConformerPositionwiseFeedForward,
)

import rfnb as rf
from rfnb.tensor import Dim, Tensor, TensorDict, batch_dim


class Model(rf.Module):
    def __init__(self, *, target_dim: Dim, num_layers: int = 3, aux: tuple[int, ...] = (1, 2)):
        super().__init__()
        self.in_dim = Dim(name="logmel", dimension=10, kind=Dim.Types.Feature)
        self.target_dim = target_dim
        self.wb_target_dim = target_dim + 1
        self.blank_idx = target_dim.dimension
        self.encoder = ConformerEncoder(
            self.in_dim,
            16,
            num_layers=num_layers,
            num_heads=4,
            input_layer=ConformerConvSubsample(
                self.in_dim,
                out_dims=[Dim(4, name="conv1"), Dim(6, name="conv2"), Dim(5, name="conv3")],
                filter_sizes=[(3, 3), (3, 3), (3, 3)],
                pool_sizes=[(1, 2)],
                strides=[(1, 1), (3, 1), (2, 1)],
            ),
            encoder_layer=rf.build_dict(
                ConformerEncoderLayer,
                ff=rf.build_dict(
                    ConformerPositionwiseFeedForward, activation=rf.build_dict(rf.relu_square), with_bias=False
                ),
                num_heads=4,
                conv_kernel_size=5,
            ),
        )
        self.aux = aux
        for layer in aux:
            setattr(self, f"enc_aux_logits_{layer}", rf.Linear(self.encoder.out_dim, self.wb_target_dim))
        self.enc_logits = rf.Linear(self.encoder.out_dim, self.wb_target_dim)
        self.feature_batch_norm = rf.BatchNorm(self.in_dim, affine=False, use_mask=True)
        self.prior = rf.RunningMean(self.wb_target_dim, alpha=0.1, is_prob_distribution=True)
        self.aux_scale = rf.PiecewiseLinearStepwiseScheduler({0: 1.0, 10: 0.0})
        for module in self.encoder.modules():
            for name, param in module.named_parameters(recurse=False):
                if name.endswith("bias"):
                    continue
                if isinstance(module, rf.Linear):
                    param.weight_decay = 0.01
        rf.weight_noise(self.enc_logits, "weight", std=0.01)

    def encode(self, audio: Tensor, *, in_spatial_dim: Dim) -> tuple[Tensor, Dim, dict[str, Tensor]]:
        source, time = rf.audio.log_mel_filterbank_from_raw(
            audio, in_spatial_dim=in_spatial_dim, out_dim=self.in_dim, sampling_rate=8_000
        )
        source = self.feature_batch_norm(source)
        source = rf.audio.specaugment(
            source, spatial_dim=time, feature_dim=self.in_dim, max_consecutive_feature_dims=3, steps=(0, 1, 2)
        )
        source = rf.dropout(source, drop_prob=0.1, axis=source.feature_dim)
        collected: dict[str, Tensor] = {}
        enc, enc_time = self.encoder(source, in_spatial_dim=time, collected_outputs=collected)
        return enc, enc_time, collected


def _train_step(*, model: Model, extern_data: TensorDict) -> None:
    data, targets = extern_data["data"], extern_data["classes"]
    data_spatial_dim, targets_spatial_dim = data.get_time_dim_tag(), targets.get_time_dim_tag()
    enc, enc_time, collected = model.encode(data, in_spatial_dim=data_spatial_dim)
    for layer in model.aux:
        linear = getattr(model, f"enc_aux_logits_{layer}")
        loss = rf.ctc_loss(
            logits=linear(collected[str(layer - 1)]),
            targets=targets,
            input_spatial_dim=enc_time,
            targets_spatial_dim=targets_spatial_dim,
            blank_index=model.blank_idx,
        )
        loss.mark_as_loss(
            f"ctc_{layer}",
            scale=0.3 * float(model.aux_scale()),
            custom_inv_norm_factor=targets_spatial_dim.get_size_tensor(),
            use_normalized_loss=True,
        )
    logits = model.enc_logits(enc)
    model.prior(rf.stop_gradient(rf.softmax(logits, axis=model.wb_target_dim)))
    loss = rf.ctc_loss(
        logits=logits,
        targets=targets,
        input_spatial_dim=enc_time,
        targets_spatial_dim=targets_spatial_dim,
        blank_index=model.blank_idx,
    )
    loss.mark_as_loss("ctc", custom_inv_norm_factor=targets_spatial_dim.get_size_tensor(), use_normalized_loss=True)
    with rf.stop_gradient_scope():
        decoded, decoded_dim = rf.ctc_greedy_decode(
            logits, in_spatial_dim=enc_time, blank_index=model.blank_idx, target_dim=model.target_dim
        )
        errors = rf.edit_distance(
            a=decoded, a_spatial_dim=decoded_dim, b=rf.cast(targets, decoded.dtype), b_spatial_dim=targets_spatial_dim
        )
        errors.mark_as_loss("label_error", as_error=True, custom_inv_norm_factor=targets_spatial_dim.get_size_tensor())


def _forward_step(*, model: Model, extern_data: TensorDict) -> None:
    data = extern_data["data"]
    enc, enc_time, _ = model.encode(data, in_spatial_dim=data.get_time_dim_tag())
    log_probs = rf.log_softmax(model.enc_logits(enc), axis=model.wb_target_dim)
    (log_probs - 0.3 * rf.safe_log(model.prior.mean)).mark_as_default_output(
        shape=[batch_dim, enc_time, model.wb_target_dim]
    )
    rf.get_run_ctx().mark_as_output(
        rf.reduce_argmax(log_probs, axis=model.wb_target_dim), "path", dims=[batch_dim, enc_time]
    )


def _extern_data(target_dim: Dim) -> TensorDict:
    extern_data = TensorDict()
    extern_data.update(
        {
            "data": {"dims": [batch_dim, Dim(None, name="samples")], "dtype": "float32"},
            "classes": {"dims": [batch_dim, Dim(None, name="labels")], "dtype": "int32", "sparse_dim": target_dim},
        },
        auto_convert=True,
    )
    return extern_data


def _assign(extern_data: TensorDict, seed: int, size: int) -> None:
    rng = np.random.default_rng(seed)
    lengths, labels = rng.integers(4000, 6000, size).astype("int32"), rng.integers(1, 4, size).astype("int32")
    extern_data.reset_content()
    extern_data.assign_from_raw_tensor_dict_(
        {
            "data": (rng.normal(size=(size, lengths.max())) * 0.1).astype("float32"),
            "data:size1": lengths,
            "classes": rng.integers(0, 7, (size, labels.max())).astype("int32"),
            "classes:size1": labels,
        }
    )


@pytest.mark.slow
def test_a_training_set_up_runs_learns_and_comes_back(tmp_path):
    rf.set_random_seed(1)
    target_dim = Dim(7, name="labels")
    model, extern_data = Model(target_dim=target_dim), _extern_data(target_dim)
    decayed = [p for p in model.parameters() if p.weight_decay]
    assert decayed and all(p.weight_decay == 0.01 for p in decayed)
    raw = [p.raw_tensor for p in model.parameters() if p.raw_tensor.requires_grad]
    optimizer = torch.optim.AdamW(raw, lr=3e-3)
    losses = []
    for step in range(12):
        _assign(extern_data, seed=step % 2, size=3)
        rf.init_train_step_run_ctx(train_flag=True, step=step, epoch=1)
        _train_step(model=model, extern_data=extern_data)
        ctx = rf.get_run_ctx()
        assert set(ctx.losses) == {"ctc_1", "ctc_2", "ctc", "label_error"}
        optimizer.zero_grad()
        ctx.total_loss().raw_tensor.backward()
        assert all(p.grad is None or bool(p.grad.isfinite().all()) for p in raw)
        optimizer.step()
        losses.append(ctx.losses["ctc"].get_mean_loss().raw_tensor.item())
    assert np.mean(losses[-2:]) < 0.8 * np.mean(losses[:2])
    prior = model.prior.mean.raw_tensor
    assert prior.sum().item() == pytest.approx(1, abs=1e-4)

    rf.save_params(model, tmp_path / "model.safetensors")
    again = Model(target_dim=target_dim)
    rf.set_params(again, rf.load_params(tmp_path / "model.safetensors"))
    outputs = []
    for each in (model, again):
        _assign(extern_data, seed=5, size=2)
        rf.init_forward_step_run_ctx()
        _forward_step(model=each, extern_data=extern_data)
        outputs.append(rf.get_run_ctx().outputs)
    torch.testing.assert_close(outputs[0]["output"].raw_tensor, outputs[1]["output"].raw_tensor)
    assert outputs[0]["path"].dims == outputs[0]["output"].dims[:2]

    # one sequence alone gives what it gives in the batch: nothing of the set-up looks at padding
    data = extern_data["data"].raw_tensor[1:, : int(extern_data["data"].get_time_dim_tag().dyn_size_ext.raw_tensor[1])]
    data = data.clone()
    extern_data.reset_content()
    extern_data.assign_from_raw_tensor_dict_(
        {"data": data.numpy(), "data:size1": np.array([data.shape[1]], "int32"),
         "classes": np.zeros((1, 1), "int32"), "classes:size1": np.array([1], "int32")}
    )  # fmt: skip
    rf.init_forward_step_run_ctx()
    _forward_step(model=again, extern_data=extern_data)
    alone = rf.get_run_ctx().outputs["output"].raw_tensor
    torch.testing.assert_close(alone[0], outputs[1]["output"].raw_tensor[1, : alone.shape[1]], atol=2e-4, rtol=1e-3)
