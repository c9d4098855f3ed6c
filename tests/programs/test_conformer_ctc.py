"""Conformer-CTC with auxiliary losses on inner layers, label smoothing by gradients, greedy decoding."""

from collections.abc import Sequence

import numpy as np
import program_runs as runs
import torch
from rfnb.encoder.conformer import ConformerConvSubsample, ConformerEncoder, ConformerEncoderLayer

import rfnb as rf
from rfnb.tensor import Dim, Tensor, TensorDict, batch_dim

_log_mel_feature_dim = 8
enc_model_dim_default, enc_ff_dim_default = Dim(8, name="enc"), Dim(12, name="enc-ff")
aux_loss_layers = [1]
aux_loss_scale = 0.3
label_smoothing = 0.1


def get_model(*, epoch: int, step: int) -> "Model":
    in_dim = Dim(name="logmel", dimension=_log_mel_feature_dim, kind=Dim.Types.Feature)
    target_dim = Dim(name="targets", dimension=5, kind=Dim.Types.Feature)
    return Model(in_dim, target_dim=target_dim, num_enc_layers=2, enc_aux_logits=aux_loss_layers)


class Model(rf.Module):
    """Conformer encoder and CTC output layers."""

    def __init__(
        self,
        in_dim: Dim,
        *,
        target_dim: Dim,
        num_enc_layers: int,
        enc_aux_logits: Sequence[int] = (),
        enc_model_dim: Dim = enc_model_dim_default,
        enc_ff_dim: Dim = enc_ff_dim_default,
        enc_att_num_heads: int = 2,
    ):
        super().__init__()
        self.in_dim = in_dim
        self.encoder = ConformerEncoder(
            in_dim,
            enc_model_dim,
            ff_dim=enc_ff_dim,
            input_layer=ConformerConvSubsample(
                in_dim,
                out_dims=[Dim(3, name="conv1"), Dim(4, name="conv2")],
                filter_sizes=[(3, 3), (3, 3)],
                pool_sizes=[(1, 2)],
                strides=[(1, 1), (2, 1)],
            ),
            encoder_layer=rf.build_dict(
                ConformerEncoderLayer,
                conv_norm_opts={"use_mask": True},
                self_att=rf.build_dict(rf.SelfAttention, att_dropout=0.0),
                conv_kernel_size=4,
            ),
            num_layers=num_enc_layers,
            num_heads=enc_att_num_heads,
            input_dropout=0.0,
            dropout=0.0,
            att_dropout=0.0,
        )
        self.target_dim = target_dim
        self.wb_target_dim = target_dim + 1
        self.blank_idx = target_dim.dimension
        for i in enc_aux_logits:
            setattr(self, f"enc_aux_logits_{i}", rf.Linear(self.encoder.out_dim, self.wb_target_dim))
        self.enc_aux_logits = list(enc_aux_logits)
        self.ctc_logits = rf.Linear(self.encoder.out_dim, self.wb_target_dim)

    def encode(
        self, source: Tensor, *, in_spatial_dim: Dim, collected_outputs: dict[str, Tensor] | None = None
    ) -> tuple[Tensor, Dim]:
        if source.feature_dim is not None:
            assert source.feature_dim.dimension == self.in_dim.dimension
            if source.feature_dim != self.in_dim:
                source, _ = rf.replace_dim(source, in_dim=source.feature_dim, out_dim=self.in_dim)
        else:
            source = rf.expand_dim(source, self.in_dim)
        source = rf.audio.specaugment(
            source,
            spatial_dim=in_spatial_dim,
            feature_dim=self.in_dim,
            max_consecutive_feature_dims=self.in_dim.dimension // 5,
        )
        return self.encoder(source, in_spatial_dim=in_spatial_dim, collected_outputs=collected_outputs)


def train_step(*, model: Model, extern_data: TensorDict):
    data = extern_data["data"]
    data_spatial_dim = data.get_time_dim_tag()
    targets = extern_data["targets"]
    targets_spatial_dim = targets.get_time_dim_tag()

    collected_outputs = {}
    enc, enc_spatial_dim = model.encode(data, in_spatial_dim=data_spatial_dim, collected_outputs=collected_outputs)
    for i in model.enc_aux_logits:
        aux_logits = getattr(model, f"enc_aux_logits_{i}")(collected_outputs[str(i - 1)])
        aux_loss = rf.ctc_loss(
            logits=aux_logits,
            targets=targets,
            input_spatial_dim=enc_spatial_dim,
            targets_spatial_dim=targets_spatial_dim,
            blank_index=model.blank_idx,
        )
        aux_loss.mark_as_loss(
            f"ctc_{i}",
            scale=aux_loss_scale,
            custom_inv_norm_factor=targets_spatial_dim.get_size_tensor(),
            use_normalized_loss=True,
        )
    log_probs = rf.log_softmax(model.ctc_logits(enc), axis=model.wb_target_dim)
    log_probs = rf.label_smoothed_log_prob_gradient(log_probs, label_smoothing, axis=model.wb_target_dim)
    loss = rf.ctc_loss(
        logits=log_probs,
        logits_normalized=True,
        targets=targets,
        input_spatial_dim=enc_spatial_dim,
        targets_spatial_dim=targets_spatial_dim,
        blank_index=model.blank_idx,
    )
    loss.mark_as_loss("ctc", custom_inv_norm_factor=targets_spatial_dim.get_size_tensor(), use_normalized_loss=True)
    decoded, decoded_spatial_dim = rf.ctc_greedy_decode(
        log_probs,
        in_spatial_dim=enc_spatial_dim,
        blank_index=model.blank_idx,
        target_dim=model.target_dim,
        wb_target_dim=model.wb_target_dim,
    )
    with rf.stop_gradient_scope():
        error = rf.edit_distance(
            a=decoded,
            a_spatial_dim=decoded_spatial_dim,
            b=rf.cast(targets, decoded.dtype),
            b_spatial_dim=targets_spatial_dim,
        )
    error.mark_as_loss("ler", as_error=True, custom_inv_norm_factor=targets_spatial_dim.get_size_tensor())


def forward_step(*, model: Model, extern_data: TensorDict):
    data = extern_data["data"]
    enc, enc_spatial_dim = model.encode(data, in_spatial_dim=data.get_time_dim_tag())
    log_probs = rf.log_softmax(model.ctc_logits(enc), axis=model.wb_target_dim)
    labels, labels_spatial_dim = rf.ctc_greedy_decode(
        log_probs,
        in_spatial_dim=enc_spatial_dim,
        blank_index=model.blank_idx,
        target_dim=model.target_dim,
        wb_target_dim=model.wb_target_dim,
    )
    run_ctx = rf.get_run_ctx()
    run_ctx.mark_as_output(log_probs, "log_probs", dims=[batch_dim, enc_spatial_dim, model.wb_target_dim])
    run_ctx.mark_as_output(labels, "labels", dims=[batch_dim, labels_spatial_dim])


# ---- checks


def extern(model: Model) -> TensorDict:
    time = Dim(Tensor("time", [batch_dim], "int32"), name="time")
    out = Dim(Tensor("out", [batch_dim], "int32"), name="out-spatial")
    feature = Dim(8, name="audio-feature", kind=Dim.Types.Feature)
    extern_data = TensorDict()
    extern_data.update(
        {
            "data": {"dims": [batch_dim, time, feature], "feature_dim": feature},
            "targets": {"dims": [batch_dim, out], "dtype": "int32", "sparse_dim": model.target_dim},
        },
        auto_convert=True,
    )
    return extern_data


def seqs() -> dict:
    return {
        "data": [runs.rand(1, 13, 8), runs.rand(2, 8, 8), runs.rand(3, 10, 8)],
        "targets": [np.array([1, 1, 4], "int32"), np.array([0, 2], "int32"), np.array([3], "int32")],
    }


def conv_same(x, w, b, stride):
    """{in, time, freq} -> {out, time', freq}; one frame to the left and right."""
    x = torch.nn.functional.pad(x, (1, 1, 1, 1))
    return torch.nn.functional.conv2d(x[None], w, b, stride=(stride, 1))[0]


def reference(model, weights, sources, *, training):
    """Layer by layer over a list of sequences: only BatchNorm sees several. Inner and last outputs."""
    W = weights
    xs = []
    for source in sources:
        x = torch.as_tensor(source)[None]
        p = "encoder.input_layer.conv_layers"
        x = torch.relu(conv_same(x, W[f"{p}.0.filter"], W[f"{p}.0.bias"], 1))
        x = torch.nn.functional.max_pool2d(x[None], (1, 2))[0]
        x = torch.relu(conv_same(x, W[f"{p}.1.filter"], W[f"{p}.1.bias"], 2))
        x = x.permute(1, 2, 0).reshape(x.shape[1], -1)  # frequency, channel: channel varies fastest
        xs.append(runs.linear(x, W, "encoder.input_projection"))
    outs = []
    for layer in range(2):
        p = f"encoder.layers.{layer}"

        def ff(x, name, p=p):
            y = runs.layer_norm(x, W, f"{p}.{name}_layer_norm")
            y = torch.nn.functional.silu(runs.linear(y, W, f"{p}.{name}.linear_ff"))
            return x + 0.5 * runs.linear(y, W, f"{p}.{name}.linear_out")

        def attention(x, p=p):
            y = runs.layer_norm(x, W, f"{p}.self_att_layer_norm")
            qkv = runs.linear(y, W, f"{p}.self_att.qkv").reshape(len(x), 2, 3, 4)
            heads = []
            for h in range(2):
                q, k, v = qkv[:, h].unbind(1)
                heads.append(torch.softmax(q @ k.T / 2.0, -1) @ v)
            return x + runs.linear(torch.cat(heads, -1), W, f"{p}.self_att.proj")

        xs = [attention(ff(x, "ffn1")) for x in xs]
        mids = []
        for x in xs:
            y = runs.layer_norm(x, W, f"{p}.conv_layer_norm")
            y = torch.nn.functional.glu(runs.linear(y, W, f"{p}.conv_block.positionwise_conv1"), -1)
            y = torch.nn.functional.pad(y.T[None], (1, 2))
            y = torch.nn.functional.conv1d(
                y, W[f"{p}.conv_block.depthwise_conv.filter"], W[f"{p}.conv_block.depthwise_conv.bias"], groups=8
            )[0].T
            mids.append(y)
        every = torch.cat(mids)
        if training:
            mean, variance = every.mean(0), every.var(0, unbiased=False)
        else:
            mean, variance = W[f"{p}.conv_block.norm.running_mean"], W[f"{p}.conv_block.norm.running_variance"]
        gamma, beta = W[f"{p}.conv_block.norm.gamma"], W[f"{p}.conv_block.norm.beta"]
        new = []
        for x, y in zip(xs, mids):
            y = torch.nn.functional.silu((y - mean) / torch.sqrt(variance + 1e-3) * gamma + beta)
            x = x + runs.linear(y, W, f"{p}.conv_block.positionwise_conv2")
            new.append(runs.layer_norm(ff(x, "ffn2"), W, f"{p}.final_layer_norm"))
        xs = new
        outs.append(xs)
    return outs


class Smooth(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, g):
        n = g.shape[-1]
        return (1 - label_smoothing - label_smoothing / (n - 1)) * g + label_smoothing / (n - 1) * g.sum(
            -1, keepdim=True
        )


def make():
    rf.set_random_seed(1)
    model = get_model(epoch=1, step=0)
    return model, runs.randomize(model)


def test_training():
    model, weights = make()
    data = seqs()

    def step(**kwargs):  # its masks are random
        with rf.get_run_ctx().train_flag_ctx(False, func=rf.audio.specaugment):
            train_step(**kwargs)

    run = runs.train(step, model, extern(model), data)
    outs = reference(model, weights, data["data"], training=True)
    aux = sum(
        runs.ctc_nll(torch.log_softmax(runs.linear(x, weights, "enc_aux_logits_1"), -1), y, 5)
        for x, y in zip(outs[0], data["targets"])
    )
    main = sum(
        runs.ctc_nll(Smooth.apply(torch.log_softmax(runs.linear(x, weights, "ctc_logits"), -1)), y, 5)
        for x, y in zip(outs[1], data["targets"])
    )
    runs.same_gradients(run.total_loss().raw_tensor, (0.3 * aux + main) / 6, weights, atol=1e-4)
    assert run.losses["ler"].as_error
    assert run.losses["ler"].loss.dtype == "int32"


def test_forward():
    model, weights = make()
    data = seqs()
    results = runs.alone(forward_step, model, extern(model), data)
    for x, y in zip(reference(model, weights, data["data"], training=False)[1], results):
        logp = torch.log_softmax(runs.linear(x, weights, "ctc_logits"), -1).detach().numpy()
        np.testing.assert_allclose(y["log_probs"], logp, atol=1e-4)
        best = logp.argmax(-1)
        path = [s for i, s in enumerate(best) if s != 5 and (i == 0 or best[i - 1] != s)]
        assert y["labels"].tolist() == path


def test_marks():
    model, _ = make()
    extern_data = extern(model)
    run = runs.forward(forward_step, model, extern_data, seqs())
    labels = run.outputs["labels"]
    assert labels.sparse_dim == model.target_dim
    assert run.outputs["log_probs"].dtype == "float32"
