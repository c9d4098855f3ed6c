"""Defaults that the documentation looks up in a global configuration, which rfnb does not have."""

import numpy as np
from asserting import raises_message

import rfnb as rf
from rfnb import Dim

many, feat = Dim(500, name="many"), Dim(40, name="feat")


def test_masking_is_the_default():
    assert rf.use_mask_default() is True
    assert rf.use_mask_default(default=False, func_name="conv") is False
    assert rf.use_mask_default(default_false_for_behavior_version_up_to=22) is True


def test_batch_norm_is_within_one_process():
    assert rf.batch_norm_distributed_default() is False
    rf.BatchNorm(feat, distributed=False)
    with raises_message(
        NotImplementedError,
        """
        BatchNorm: distributed statistics.
          in_dim       feat=40
          distributed  True
        The statistics are those of the batch of this process.
            rf.BatchNorm(in_dim)
        """,
    ):
        rf.BatchNorm(feat, distributed=True)


def test_modules_drop_a_feature_in_all_frames_alike():
    assert rf.dropout_broadcast_default() is True
    layer = rf.FeedForward(feat, ff_dim=feat, dropout=0.5, activation=lambda x: x)
    layer.linear_ff.weight.initial = layer.linear_out.weight.initial = 0
    layer.linear_ff.bias.initial = 1.0
    layer.linear_out.weight.assign(
        rf.convert_to_tensor(np.eye(40, dtype=np.float32), dims=layer.linear_out.weight.dims)
    )
    with rf.init_train_step_run_ctx():
        out = layer(rf.ones([many, feat])).numpy()
    assert set(np.unique(out)) == {0.0, 2.0} and (out == out[:1]).all()


def test_attention_takes_the_default():
    options = {"key_dim_total": feat, "value_dim_total": feat, "num_heads": 2}
    assert rf.SelfAttention(feat, feat, **options).att_dropout_broadcast is True
    assert rf.CrossAttention(feat, feat, feat, **options, att_dropout_broadcast=False).att_dropout_broadcast is False


def test_dropout_with_axis_false_shares_nothing():
    out = rf.dropout(rf.ones([many, feat]), 0.5, axis=False, on_forward=True).numpy()
    assert len(np.unique(out, axis=0)) == 500


def test_dropout_with_axis_true():
    with raises_message(
        TypeError,
        """
        dropout: axis is True.
          source  [many=500, feat=40]
          axis    True
        The axis is the dim or dims with independent choices.
            rf.dropout(x, 0.1, axis=feature_dim)
        """,
    ):
        rf.dropout(rf.ones([many, feat]), 0.5, axis=True, on_forward=True)
