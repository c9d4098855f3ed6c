"""The run context: train flags, losses and outputs of a step."""

import gc
import weakref

import numpy as np
import pytest
import torch
from asserting import assert_same, ragged, raises_message, randn, tensor, with_nan_padding

import rfnb as rf
import rfnb.nn.run.run_ctx
from rfnb import Dim, DimError
from rfnb.tensor import Tensor, TensorDict, batch_dim

batch, feat = Dim(2, name="batch"), Dim(3, name="feat")
time = ragged([3, 1], batch)


@pytest.fixture(autouse=True)
def no_context():
    before = rf.nn.run.run_ctx._current.set(rf.RunCtx(stage="init"))
    yield
    rf.nn.run.run_ctx._current.reset(before)


def frames():
    """1, 2, 3 and 10, with NaN in the padding."""
    return with_nan_padding(tensor([[1.0, 2.0, 3.0], [10.0, 0.0, 0.0]], batch, time))


# -- the current one ---------------------------------------------------------------------------------------------------
def test_before_any_context_nothing_trains():
    ctx = rf.get_run_ctx()
    assert (ctx.stage, ctx.train_flag, ctx.step, ctx.epoch) == ("init", False, 0, 1)
    assert ctx.is_train_flag_enabled(func=rf.dropout) is False


def test_a_context_is_the_current_one_until_the_next():
    train = rf.init_train_step_run_ctx(step=3, epoch=2)
    assert rf.get_run_ctx() is train
    assert repr(train) == "RunCtx(stage='train_step', train_flag=True, step=3, epoch=2)"
    forward = rf.init_forward_step_run_ctx(step=4)
    assert rf.get_run_ctx() is forward and (forward.stage, forward.train_flag) == ("forward_step", False)


def test_after_a_with_block_the_context_before_it_is_back():
    train = rf.init_train_step_run_ctx()
    with rf.init_forward_step_run_ctx() as outer:
        with rf.init_train_step_run_ctx() as inner:
            assert rf.get_run_ctx() is inner
        assert rf.get_run_ctx() is outer
    assert rf.get_run_ctx() is train
    with pytest.raises(KeyError), rf.RunCtx(stage="forward_step"):
        raise KeyError
    assert rf.get_run_ctx() is train


def test_without_a_context_before_it_a_with_block_ends_in_the_stage_init():
    with rf.init_train_step_run_ctx():
        frames().mark_as_loss("x")
    assert rf.get_run_ctx().stage == "init"


def test_contexts_of_earlier_steps_do_not_stay_alive():
    old = []
    for step in range(4):
        ctx = rf.init_train_step_run_ctx(step=step)
        old.append(weakref.ref(ctx))
        frames().mark_as_loss("x")
    gc.collect()
    assert [ref() is not None for ref in old] == [False, False, False, True]


def test_step_and_epoch_are_scalar_tensors_too():
    ctx = rf.init_train_step_run_ctx(step=5, epoch=2)
    assert_same(rf.get_run_ctx_step(), rf.full(dims=(), fill_value=5, dtype="int64"))
    assert (int(ctx.get_step_tensor().numpy()), int(ctx.get_epoch_tensor().numpy())) == (5, 2)


# -- train flags -------------------------------------------------------------------------------------------------------
def test_one_function_can_have_a_train_flag_of_its_own():
    ctx, x = rf.init_train_step_run_ctx(), rf.ones([Dim(100, name="units")])
    norm = rf.BatchNorm(feat)
    with ctx.train_flag_ctx(False, func=rf.dropout):
        assert rf.dropout(x, 0.5) is x
        assert ctx.train_flag and ctx.is_train_flag_enabled(func=rf.BatchNorm)
        norm(randn(batch, feat))
    assert norm.running_mean.numpy().any()
    assert rf.dropout(x, 0.5) is not x


def test_several_functions_can_have_a_train_flag_of_their_own():
    ctx = rf.init_train_step_run_ctx()
    with ctx.train_flag_ctx(False, func=[rf.dropout, rf.BatchNorm]):
        assert ctx.train_flag and ctx.is_train_flag_enabled(func=rf.RunningMean)
        assert not ctx.is_train_flag_enabled(func=rf.dropout) and not ctx.is_train_flag_enabled(func=rf.BatchNorm)
        with ctx.train_flag_ctx(True, func=(rf.dropout,)):
            assert ctx.is_train_flag_enabled(func=rf.dropout) and not ctx.is_train_flag_enabled(func=rf.BatchNorm)
    assert ctx.is_train_flag_enabled(func=rf.dropout)


def test_a_class_and_its_call_have_the_same_train_flag():
    ctx = rf.init_forward_step_run_ctx()
    with ctx.train_flag_ctx(True, func=rf.BatchNorm):
        assert ctx.is_train_flag_enabled(func=rf.BatchNorm.__call__)
        assert ctx.is_train_flag_enabled(func=rf.BatchNorm(feat).__call__)
        assert not ctx.is_train_flag_enabled(func=rf.dropout)
        with ctx.train_flag_ctx(False, func=rf.BatchNorm), ctx.train_flag_ctx(True):
            assert not ctx.is_train_flag_enabled(func=rf.BatchNorm) and ctx.is_train_flag_enabled(func=rf.dropout)
        assert ctx.is_train_flag_enabled(func=rf.BatchNorm)
    assert not ctx.is_train_flag_enabled(func=rf.BatchNorm)


# -- losses ------------------------------------------------------------------------------------------------------------
def test_the_total_is_the_sum_of_scaled_sums_and_means_over_real_frames():
    ctx = rf.init_train_step_run_ctx()
    frames().mark_as_loss("sum")
    frames().mark_as_loss("mean", scale=0.5, use_normalized_loss=True)
    frames().mark_as_loss("error", scale=100, as_error=True)
    assert list(ctx.losses) == ["sum", "mean", "error"]
    assert float(ctx.total_loss().numpy()) == 16 + 0.5 * 4
    assert float(ctx.losses["error"].get_mean_loss().numpy()) == 4


@pytest.mark.parametrize("flatten", [True, False])
def test_a_loss_tells_its_sum_mean_and_number_of_frames(flatten):
    loss = rf.Loss(frames(), "x", scale=2.0, use_flatten_frames=flatten)
    assert loss.get_inv_norm_factor() == 4
    assert [float(x.numpy()) for x in (loss.get_summed_loss(), loss.get_mean_loss())] == [16, 4]
    assert float(loss.get_scaled_reduced_loss().numpy()) == 32


def test_a_mean_can_be_over_something_else():
    words = tensor([4.0, 1.0], batch)
    loss = rf.Loss(frames(), "x", custom_inv_norm_factor=words, use_normalized_loss=True, scale=10.0)
    assert float(loss.get_inv_norm_factor().numpy()) == 5
    assert float(loss.get_scaled_reduced_loss().numpy()) == 32
    assert float(rf.Loss(frames(), "x", custom_inv_norm_factor=8).get_mean_loss().numpy()) == 2
    for nothing in (tensor([0.0, 0.0], batch), 0):
        assert float(rf.Loss(frames() * 0, "x", custom_inv_norm_factor=nothing).get_mean_loss().numpy()) == 0


def test_what_lies_in_the_padding_gets_no_gradient_and_gives_no_nan():
    x = frames()
    rf.set_requires_gradient(x)
    with rf.init_train_step_run_ctx() as ctx:
        x.mark_as_loss("sum")
        x.mark_as_loss("mean", use_normalized_loss=True)
        ctx.total_loss().raw_tensor.backward()
    assert x.raw_tensor.grad.tolist() == [[1.25, 1.25, 1.25], [1.25, 0, 0]]


def test_a_loss_of_a_batch_is_that_of_its_sequences_together():
    whole = rf.Loss(frames(), "x").get_summed_loss()
    alone = 0.0
    for values in ([1.0, 2.0, 3.0], [10.0]):
        one = Dim(1, name="batch")
        alone += float(rf.Loss(tensor([values], one, ragged([len(values)], one)), "x").get_summed_loss().numpy())
    assert float(whole.numpy()) == alone


def test_losses_without_frames_are_zero():
    nobody = Dim(0, name="batch")
    for loss in (rf.zeros([nobody]), rf.zeros([nobody, ragged([], nobody)]), rf.zeros([batch, ragged([0, 0], batch)])):
        loss = rf.Loss(loss, "x")
        assert [float(x.numpy()) for x in (loss.get_summed_loss(), loss.get_mean_loss())] == [0, 0]


def test_errors_may_be_bools_and_sums_are_not_in_half_precision():
    wrong = rf.Loss(tensor([True, False], batch), "error", as_error=True)
    assert float(wrong.get_mean_loss().numpy()) == 0.5
    many = Dim(5000, name="frames")
    half = rf.Loss(rf.ones([many], dtype="float16"), "x").get_summed_loss()
    assert (float(half.numpy()), half.dtype) == (5000, "float32")


def test_a_scalar_loss_is_its_own_sum_and_mean():
    loss = rf.Loss(rf.full(dims=(), fill_value=3.0), "x", scale=2)
    assert (float(loss.get_mean_loss().numpy()), loss.get_inv_norm_factor()) == (3, 1)
    assert float(loss.get_scaled_reduced_loss().numpy()) == 6


def test_dims_of_a_loss_give_its_order():
    assert rf.Loss(frames(), "x", dims=[time, batch]).loss.dims == (time, batch)


def test_cross_entropy_marked_is_torchs_mean():
    logits, target = randn(batch, feat), tensor(np.asarray([2, 0]), batch, sparse_dim=feat)
    with rf.init_train_step_run_ctx() as ctx:
        loss = rf.cross_entropy(estimated=logits, target=target, axis=feat, estimated_type="logits")
        loss.mark_as_loss("ce", use_normalized_loss=True)
        total = ctx.total_loss()
    expected = torch.nn.functional.cross_entropy(logits.raw_tensor, target.raw_tensor.long())
    assert float(total.numpy()) == pytest.approx(float(expected))


# -- outputs -----------------------------------------------------------------------------------------------------------
def test_an_output_is_in_the_order_that_was_asked_for():
    ctx = rf.init_forward_step_run_ctx()
    x = randn(feat, time, batch)
    x.mark_as_output("a", dims=[time, batch, feat])
    x.mark_as_default_output(shape=[feat, batch, time])
    assert ctx.outputs["a"].dims == (time, batch, feat) and ctx.outputs["output"].dims == (feat, batch, time)
    assert_same(ctx.outputs["a"], x)


def test_without_an_order_an_output_is_batch_time_feature():
    ctx = rf.init_forward_step_run_ctx()
    for index, dims in enumerate([(feat, time, batch), (time, batch), (batch,), (), (feat, batch)]):
        out = randn(*dims)
        out.feature_dim = feat if feat in dims else None
        out.mark_as_output(str(index))
    got = [ctx.outputs[name].dims for name in ctx.outputs]
    assert got == [(batch, time, feat), (batch, time), (batch,), (), (batch, feat)]


def test_numbers_and_raw_arrays_can_be_outputs():
    ctx = rf.init_forward_step_run_ctx()
    ctx.mark_as_output(3.0, "number")
    ctx.mark_as_output(torch.ones(2, 3), "raw", dims=[batch, feat])
    assert ctx.outputs["raw"].dims == (batch, feat) and ctx.outputs["number"].dims == ()


def expected_outputs():
    frames_dim = Dim(None, name="frames")
    return TensorDict(
        [Tensor("output", [batch_dim, frames_dim, feat]), Tensor("ids", [batch_dim], "int32", sparse_dim=feat)]
    )


def test_a_raw_array_can_be_a_loss():
    ctx = rf.init_train_step_run_ctx()
    raw = torch.tensor([[1.0, 2.0, 3.0], [10.0, float("nan"), 0.0]], requires_grad=True)
    ctx.mark_as_loss(raw, "ce", dims=[batch, time], use_normalized_loss=True)
    ctx.mark_as_loss(raw[0], "every entry")
    ctx.mark_as_loss(raw[0].sum(), "reduced", scale=0.5)
    assert [len(loss.loss.dims) for loss in ctx.losses.values()] == [2, 1, 0]
    total = ctx.total_loss()
    assert float(total) == pytest.approx(16 / 4 + 6 + 0.5 * 6)
    total.raw_tensor.backward()
    assert raw.grad.tolist() == [[1.75] * 3, [0.25, 0.0, 0.0]]


@pytest.mark.parametrize("order", ["lengths first", "lengths later"])
@pytest.mark.parametrize("kind", ["declared lengths", "no size"])
@pytest.mark.parametrize("said", [False, True])
def test_a_raw_output_has_the_dims_that_are_expected(order, kind, said):
    batch_dim.reset_eager()
    time = Dim(None if kind == "no size" else Tensor("time", [batch_dim], "int32"), name="time")
    template = Tensor("output", [batch_dim, time, feat], feature_dim=feat)
    ctx = rf.init_forward_step_run_ctx(expected_outputs=TensorDict([template]))
    raw, lengths = torch.ones(2, 5, 3), torch.tensor([5, 2], dtype=torch.int32)

    def assign():
        ctx.expected_outputs["output"].dims[1].dyn_size_ext.raw_tensor = lengths

    def mark():
        ctx.mark_as_output(raw, "output", dims=[batch_dim, time, feat] if said else None)

    for call in (assign, mark) if order == "lengths first" else (mark, assign):
        call()
    ctx.check_outputs_complete()
    output = ctx.outputs["output"]
    assert output.dims == (batch_dim, time, feat) and output.feature_dim is feat
    assert float(rf.reduce_sum(output, axis=output.dims)) == 7 * 3
    assert ctx.outputs.as_raw_tensor_dict()["output:size1"].tolist() == [5, 2]


def test_lengths_of_a_raw_output_that_came_later_are_checked():
    batch_dim.reset_eager()
    time = Dim(Tensor("time", [batch_dim], "int32"), name="time")
    ctx = rf.init_forward_step_run_ctx(expected_outputs=TensorDict([Tensor("output", [batch_dim, time])]))
    ctx.mark_as_output(torch.ones(2, 5), "output")
    with pytest.raises(DimError, match='Dim "time" has no size yet'):
        ctx.check_outputs_complete()
    time.dyn_size_ext.raw_tensor = torch.tensor([4, 2], dtype=torch.int32)
    with pytest.raises(rf.ShapeError, match=r"raw shape \(2, 5\) does not fit"):
        ctx.check_outputs_complete()
    ctx = rf.init_forward_step_run_ctx()
    with pytest.raises(DimError, match="which dims has it"):
        ctx.mark_as_output(torch.ones(2, 5), "output")


def test_ids_may_be_wider_than_expected():
    ctx = rf.init_forward_step_run_ctx(expected_outputs=expected_outputs())
    ids = rf.reduce_argmax(randn(batch, feat), axis=feat)
    ids.mark_as_output("ids")
    assert ctx.outputs["ids"].dtype == "int64" and ctx.expected_outputs["ids"].dtype == "int32"
    assert_same(ctx.outputs["ids"], ids)


def test_expected_outputs_give_the_order_and_stand_for_dims_without_size():
    ctx = rf.init_forward_step_run_ctx(expected_outputs=expected_outputs())
    randn(feat, time, batch).mark_as_default_output()
    tensor(np.asarray([1, 2], np.int32), batch, sparse_dim=Dim(3, name="labels")).mark_as_output("ids")
    assert ctx.outputs["output"].dims == (batch, time, feat)
    ctx.check_outputs_complete()
    rf.init_forward_step_run_ctx().check_outputs_complete()


def mark_other_dims():
    randn(batch, time).mark_as_default_output()


ERRORS = {
    "a loss without a step": (
        lambda: rf.nn.run.run_ctx._make_current(rf.RunCtx(stage="init")).mark_as_loss(frames(), "ce"),
        RuntimeError,
        """
        mark_as_loss "ce": no step is running.
          stage  init
        The run context of a step collects the marked values. Begin one before the model runs:
            with rf.init_train_step_run_ctx() as ctx:      # or init_forward_step_run_ctx
        """,
    ),
    "the same loss twice": (
        lambda: [randn(batch).mark_as_loss("ce") for _ in range(2)],
        ValueError,
        """
        mark_as_loss "ce": this name is taken.
          first   Tensor{'', [batch=2]}
          second  Tensor{'', [batch=2]}
        A name stands for one value of a step. For the next step, begin a new context:
            rf.init_train_step_run_ctx(step=...)
        """,
    ),
    "a loss that is no Tensor": (
        lambda: rf.run_ctx.Loss(torch.ones(3), "ce"),
        TypeError,
        """
        Loss "ce": not a Tensor.
          got  torch.Tensor
        The dims of a loss determine what it is summed over, and its padding.
            rf.convert_to_tensor(loss, dims=[...])
        """,
    ),
    "an order that is not clear": (
        lambda: randn(batch, feat).mark_as_output("x"),
        DimError,
        """
        mark_as_output "x": in which order?
          tensor  [batch=2, feat=3]
        The order of dims is only clear for a batch, a ragged and a feature dim. Say it:
            dims=[batch, feat]
        """,
    ),
    "another set of dims": (
        lambda: randn(batch, feat).mark_as_output("x", dims=[batch]),
        DimError,
        """
        mark_as_output "x": other dims than those of the tensor.
          tensor  [batch=2, feat=3]
          dims    [batch=2]
        The order names each dim once.
        """,
    ),
    "an output that is not expected": (
        lambda: randn(batch).mark_as_output("x"),
        ValueError,
        """
        mark_as_output "x": not expected.
          expected  output, ids
        The outputs are those that the context was made with:
            rf.init_forward_step_run_ctx(expected_outputs=...)
        """,
    ),
    "an output of other dims": (
        mark_other_dims,
        DimError,
        """
        mark_as_output "output": not as expected.
          expected  Tensor{'output', [batch=?, frames=?, feat=3] (template)}
          tensor    Tensor{'', [batch=2, time<=3]}
        The output has the expected dims, kind of dtype and sparse dim. If only the order is unclear, say it:
            dims=[batch, time]
        """,
    ),
    "an output of another dtype": (
        lambda: rf.set_sparse_dim(tensor([True, False], batch), feat).mark_as_output("ids"),
        DimError,
        """
        mark_as_output "ids": not as expected.
          expected  Tensor{'ids', [batch=?] int32 sparse over feat=3 (template)}
          tensor    Tensor{'', [batch=2] bool sparse over feat=3}
        The output has the expected dims, kind of dtype and sparse dim. If only the order is unclear, say it:
            dims=[batch]
        """,
    ),
    "outputs that are missing": (
        lambda: (randn(batch, time, feat).mark_as_default_output(), rf.get_run_ctx().check_outputs_complete()),
        ValueError,
        """
        check_outputs_complete: some expected outputs were not marked.
          missing  ids
          marked   output
        The model marks every expected output:
            x.mark_as_output("ids", dims=[...])
        """,
    ),
}


@pytest.mark.parametrize("name", ERRORS)
def test_error(name):
    call, error, text = ERRORS[name]
    batch_dim.reset_eager()
    expected = expected_outputs() if "expect" in text else None
    with rf.init_forward_step_run_ctx(expected_outputs=expected), raises_message(error, text):
        call()


def test_a_total_of_no_losses_is_said():
    ctx = rf.init_train_step_run_ctx(step=3)
    frames().mark_as_loss("wer", as_error=True)
    with pytest.warns(UserWarning) as caught:
        assert ctx.total_loss() == 0.0
    assert str(caught[0].message).startswith(
        "total_loss: no loss was marked, so it is 0.\n  stage   train_step\n  step    3\n  errors  wer\n"
    )
    assert caught[0].filename == __file__
