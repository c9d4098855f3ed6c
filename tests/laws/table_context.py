"""Names of the run context, of backends and of mixed precision: why no law applies to them, or how it does."""

from __future__ import annotations

from typing import Any

from table import case, exempt
from world import World

import rfnb as rf

exempt("Tensors by name, computes nothing", "TensorDict")
exempt("has no effect in eager mode", "control_flow_ctx get_current_control_flow_ctx")
exempt(
    "about backends, computes nothing",
    "is_backend_raw_tensor_dim_tag_independent select_backend_jax select_backend_returnn_layers_tf select_backend_tf",
)
exempt(
    "a choice of dtypes, for torch only; tests/ops/test_amp.py",
    "AmpPolicy amp_cast_compute amp_cast_float32 get_amp_policy set_amp_policy set_amp_policy_ctx",
)
exempt("the run context", "RunCtx get_run_ctx get_run_ctx_step init_forward_step_run_ctx init_train_step_run_ctx")


@case("Loss")
def _loss(w: World) -> Any:
    dims = w.dims()
    if w.rng.random() < 0.5:
        return lambda x: rf.Loss(x, "loss", scale=2.0, use_normalized_loss=True).get_scaled_reduced_loss(), [
            w.floats(*dims)
        ]

    def call(x: rf.Tensor, count: rf.Tensor) -> Any:
        loss = rf.Loss(x, "loss", custom_inv_norm_factor=count)
        return loss.get_summed_loss(), loss.get_mean_loss()

    return call, [w.floats(*dims), w.floats(w.batch, w.time, low=1.0)]
