"""The attention encoder-decoder of `aed_model.py`: trained, searched, and both agree."""

import numpy as np
import pytest
from aed_model import Model, model_recog, train_step

import rfnb as rf
from rfnb.tensor import Dim, Tensor, TensorDict, batch_dim

IN_DIM, VOCAB = Dim(7, name="logmel"), Dim(6, name="vocab")


def _templates() -> TensorDict:
    time, out = Dim(None, name="time"), Dim(None, name="out")
    extern_data = TensorDict()
    extern_data.update(
        {
            "data": {"dims": [batch_dim, time, IN_DIM], "dtype": "float32", "feature_dim": IN_DIM},
            "classes": {"dims": [batch_dim, out], "dtype": "int32", "sparse_dim": VOCAB},
        },
        auto_convert=True,
    )
    return extern_data


def _batch(extern_data: TensorDict, lengths: list[int], label_lengths: list[int], seed: int) -> None:
    rng = np.random.default_rng(seed)
    size = len(lengths)
    extern_data.reset_content()
    extern_data.assign_from_raw_tensor_dict_(
        {
            "data": rng.normal(size=(size, max(lengths), 7)).astype("float32"),
            "data:size1": np.array(lengths, "int32"),
            "classes": rng.integers(1, 6, (size, max(label_lengths))).astype("int32"),
            "classes:size1": np.array(label_lengths, "int32"),
        }
    )


def _model() -> Model:
    rf.set_random_seed(3)
    return Model(IN_DIM, VOCAB, enc_dim=8, att_dim=4, lstm_dim=5, bos_idx=0, eos_idx=0)


def _train(model: Model, data: Tensor, targets: Tensor) -> dict[str, rf.Loss]:
    rf.init_train_step_run_ctx(train_flag=True)
    train_step(
        model=model,
        data=data,
        data_spatial_dim=data.get_time_dim_tag(),
        targets=targets,
        targets_spatial_dim=targets.get_time_dim_tag(),
    )
    return rf.get_run_ctx().losses


def test_three_batches_of_other_sizes_train_the_same_model():
    """Dims of the data are made once; each batch brings its sizes."""
    extern_data, model = _templates(), _model()
    losses = []
    for seed, (lengths, labels) in enumerate([([13, 9, 11], [3, 5, 2]), ([8, 15], [4, 1]), ([13, 9, 11], [3, 5, 2])]):
        _batch(extern_data, lengths, labels, seed=min(seed, 1) * (2 - seed))
        for param in model.parameters():
            param.raw_tensor.grad = None
        _train(model, extern_data["data"], extern_data["classes"])
        rf.get_run_ctx().total_loss().raw_tensor.backward()
        grads = {
            name: param.raw_tensor.grad for name, param in model.named_parameters() if param.trainable is not False
        }
        assert all(
            grad is not None and bool(grad.isfinite().all()) for name, grad in grads.items() if "running" not in name
        )
        losses.append(float(rf.get_run_ctx().losses["ce"].get_mean_loss().raw_tensor.detach()))
    assert np.isfinite(losses).all()


@pytest.mark.parametrize("beam_size", [1, 3])
def test_scores_of_the_search_are_those_of_teacher_forcing(beam_size):
    extern_data, model = _templates(), _model()
    model.output_prob.bias.assign_key(
        axis=VOCAB, key=model.eos_idx, key_dim=None, value=2.0
    )  # some end before the limit
    _batch(extern_data, [13, 9, 11], [1, 1, 1], seed=1)
    rf.init_forward_step_run_ctx()
    data = extern_data["data"]
    time = data.get_time_dim_tag()
    hyps, score, out_dim, beam = model_recog(
        model=model, data=data, data_spatial_dim=time, beam_size=beam_size, max_len=6
    )
    assert hyps.dims_set == {batch_dim, beam, out_dim} and hyps.sparse_dim is VOCAB

    # the same labels and the end label behind them, by the step function over given labels
    with_end, (ext,) = rf.pad(hyps, axes=[out_dim], padding=[(0, 1)], value=model.eos_idx)
    embedded = rf.shift_right(model.embedding(with_end), axis=ext, pad_value=0.0)
    enc_args, enc_time = model.encode(data, in_spatial_dim=time)
    state = model.decoder_default_initial_state(batch_dims=[batch_dim, beam], enc_spatial_dim=enc_time)

    def body(embed: Tensor, state: rf.State) -> tuple[Tensor, rf.State]:
        out, state = model.loop_step(**enc_args, enc_spatial_dim=enc_time, input_embed=embed, state=state)
        return model.decode_logits(input_embed=embed, **out), state

    logits, _, _ = rf.scan(spatial_dim=ext, xs=embedded, initial=state, body=body)
    frames = -rf.cross_entropy(target=with_end, estimated=logits, estimated_type="logits", axis=VOCAB)
    total = rf.reduce_sum(frames, axis=ext).copy_transpose([batch_dim, beam]).raw_tensor.detach().numpy()
    got = score.copy_transpose([batch_dim, beam]).raw_tensor.detach().numpy()

    lengths = out_dim.dyn_size_ext.copy_transpose([batch_dim, beam]).numpy()
    ended = lengths < 5  # those that were cut at the limit have no end label
    assert ended.any()
    np.testing.assert_allclose(got[ended], total[ended], atol=3e-5)
