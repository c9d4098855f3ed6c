"""The documented module paths of public names: `from rfnb.decoder.transformer import TransformerDecoder`.

The documentation groups the frontend into modules that differ from the files here. `PATHS` lists them; `make_modules`
creates each as a module without a file. It holds the same objects as `rfnb`, with the `__module__` of the defining
file, so pickle and `inspect` are unaffected. `RENAMED` lists the modules that have another name since an earlier version.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from rfnb.places.lazy_names import LATER_NAMES, load
from rfnb.places.unknown_names import DEPRECATED, deprecated, no_name

# Documented module -> its public names.
PATHS = {
    "nested": "mask_nested gather_nested masked_select_nested masked_scatter_nested where_nested",
    "encoder.conformer": (
        "ConformerPositionwiseFeedForward ConformerConvBlock ConformerConvSubsample ConformerEncoderLayer"
        " ConformerEncoder make_ff make_norm conv_norm_use_mask_default"
    ),
    "encoder.conformer_v2": "ConformerFrontend ConformerEncoderV2",
    "encoder.e_branchformer": "EBranchformerLayer FeedForwardConvGated Merge",
    "encoder.base": "IEncoder ISeqFramewiseEncoder ISeqDownsamplingEncoder",
    "encoder.transformer": "TransformerEncoder TransformerEncoderLayer",
    "decoder.transformer": "TransformerDecoder TransformerDecoderLayer FeedForward FeedForwardGated make_norm",
    "tensor_array": "TensorArray",
    "hooks": "setup_post_hook_on_method RemovableHandle",
    "init": "ParamInit ParamInitType Normal VarianceScaling Glorot He HeNormal HeUniform",
    "audio.mel": "mel_filterbank log_mel_filterbank_from_raw",
    "audio.specaugment": "specaugment random_mask mask",
    "conversions.hf_llama": (
        "import_params_hf_llama_to_rf_transformer_decoder import_params_hf_llama_decoder_layer_to_rf"
        " import_params_hf_llama_mlp_to_rf_feed_forward_gated import_params_hf_llama_rms_norm_to_rf"
        " import_params_hf_llama_att_to_rf_rotary_att"
    ),
    "attention": (
        "dot_attention SelfAttentionBase SelfAttention CausalSelfAttention CausalSelfAttentionState"
        " RotaryPosSelfAttention RotaryPosCausalSelfAttention RelPosSelfAttention RelPosCausalSelfAttention"
        " CrossAttention LearnedRelativePositionalEncoding relative_positional_encoding"
        " sinusoidal_positional_encoding sinusoidal_encoding"
    ),
    "parametrizations": "weight_dropout WeightDropout weight_noise WeightNoise",
    "parametrize": "register_parametrization remove_parametrization is_parametrized",
    "build_from_dict": "build_from_dict build_dict",
    "linear": "Linear Embedding",
    "conv": (
        "conv Conv1d Conv2d Conv3d transposed_conv TransposedConv1d TransposedConv2d TransposedConv3d pool"
        " max_pool max_pool1d pool1d pool2d pool3d make_conv_out_spatial_dims calc_conv_out_length"
        " make_transposed_conv_out_spatial_dims calc_transposed_conv_out_length"
    ),
    "rec": "LSTM LstmState ZoneoutLSTM",
    "normalization": (
        "moments LayerNorm RMSNorm GroupNorm GroupNormSpatial BatchNorm batch_norm_distributed_default normalize"
        " Normalize"
    ),
    "container": "ModuleList Sequential sequential ParameterList",
    "module": "Module Functional",
    "parameter": "Parameter set_parameter_copy_behavior_ctx",
    "state": "State",
    "loss": (
        "cross_entropy ctc_loss ctc_best_path ctc_greedy_decode ctc_durations_from_path"
        " ctc_no_label_loop_blank_durations_from_path edit_distance"
    ),
    "loop": "while_loop scan",
    "cond": "cond",
    "dims": (
        "range_over_dim range_over_dim_strided range_over_merged_dims linspace_over_dim replace_dim"
        " replace_dim_v2 set_sparse_dim dim_match_priority_when_needed num_elements_of_shape"
        " masked_fraction_of_shape last_frame_position_of_dim use_mask_default"
    ),
    "array_": (
        "convert_to_tensor constant copy cast merge_dims split_dims reshape split expand_dim expand_dims squeeze"
        " window concat concat_features pad cum_concat_step stack unstack masked_select masked_scatter"
        " sequence_mask pack_padded pad_packed gather scatter scatter_mean scatter_argmax scatter_logsumexp"
        " scatter_logmeanexp scatter_count slice shift_right shift_left reverse_sequence where sort search_sorted"
        " sparse_to_dense one_hot top_k_mask top_p_mask repeat expand_make_non_empty real_as_complex"
        " complex_as_real make_complex"
    ),
    "math_": (
        "compare compare_bc combine combine_bc equal not_equal less less_equal greater greater_equal add sub mul"
        " true_divide floor_divide ceil_divide neg reciprocal mod pow squared_difference logical_and logical_or"
        " logical_not opt_logical_or opt_logical_and log_add_exp is_finite is_infinite is_neg_infinite maximum"
        " minimum clip_by_value identity exp expm1 log safe_log log1p sqrt rsqrt square abs tanh sigmoid"
        " log_sigmoid sin cos ceil floor round relu relu_square elu selu silu swish gelu softmax log_softmax"
        " gating lerp cumsum"
    ),
    "reduce": (
        "reduce reduce_sum reduce_max reduce_min reduce_mean reduce_logsumexp reduce_logmeanexp reduce_any"
        " reduce_all reduce_argmin reduce_argmax reduce_out RunningMean top_k"
    ),
    "const": "full fill constant zeros ones zeros_like ones_like",
    "rand": (
        "set_random_seed get_random_state set_random_state reset_step_random_state get_static_step_based_seed"
        " random random_uniform random_normal random_truncated_normal random_choice_without_replacement"
        " random_choice_with_replacement"
    ),
    "dropout": "dropout dropout_broadcast_default",
    "gradient": (
        "set_requires_gradient gradient stop_gradient stop_gradient_scope scaled_gradient scaled_gradient_ext"
        " gradient_checkpoint_scope"
    ),
    "signal": "stft",
    "label_smoothing": "label_smoothing smooth_one_hot label_smoothed_log_prob_gradient",
    "piecewise_linear": "PiecewiseLinear",
    "graph": "get_tensor_dependencies get_tensor_consumers walk_tensor_consumers",
    "run_ctx": "RunCtx Loss get_run_ctx get_run_ctx_step init_train_step_run_ctx init_forward_step_run_ctx",
    "types": "RawTensorTypes ItemKeyType Tensor Dim get_raw_tensor_type GetModelFunc StepFunc",
    "matmul": "matmul dot",
    "stepwise_scheduler": "PiecewiseLinearStepwiseScheduler",
    "device": (
        "copy_to_device get_default_device set_default_device set_default_device_ctx get_default_dim_size_device"
    ),
    "backend": (
        "select_backend get_selected_backend select_backend_numpy select_backend_tf"
        " select_backend_returnn_layers_tf select_backend_torch is_executing_eagerly"
        " is_backend_raw_tensor_dim_tag_independent"
    ),
    "control_flow_ctx": "control_flow_ctx get_current_control_flow_ctx",
    "tensor.control_flow_ctx": "ControlFlowContext",
    "tensor.dim": "Dim batch_dim single_step_dim",
    "tensor.marked_dim": "ImplicitDim ImplicitDynSizeDim ImplicitSparseDim MarkedDim OptionalDim",
    "tensor.tensor": "Tensor",
    "tensor.tensor_dict": "TensorDict Tensor Dim",
}
# Documented module -> its file, imported on first use, since it needs torch.
FILES = {"conversions.torch_nn": "rfnb.interop.torch_nn"}
# Earlier module of public names -> its module now: pickles, and copies of the course, name these.
RENAMED = {
    "core.named": "core.named_arrays",
    "nn.encoders.conformer_subsample": "nn.encoders.conformer",
    "nn.moving_filter": "nn.conv",
    "nn.transformer.decoder_layer": "nn.transformer.decoder",
    "interop.watch.watching": "interop.watch.watch_function",
    "ops.default": "ops.defaults",
    "ops.masked": "ops.mask_packing",
    "ops.transposed_conv_dims": "ops.transposed_conv",
    "rec.compiled": "rec.loop_compilation",
    "search.allowed": "search.label_rules",
    "search.own_loop": "search.search_functions",
}


def make_modules(package: dict[str, Any]) -> None:
    """Put the modules of `PATHS` into `sys.modules`, below the package whose namespace is given.

    They exist before any import of them, because an import would set them as attributes of the package: `import
    rfnb.cond` must not replace the function `rf.cond`. A name that is already a module (`rf.init`, `rf.audio`, the
    folder `rec`) is kept.
    """
    public = {**vars(package["audio"]), **vars(package["tensor"]), **package}
    for path, names in PATHS.items():
        inside = vars(_module_at(package, path))
        inside.update({name: public[name] for name in names.split() if name in public})
        later = [name for name in names.split() if name not in public]
        if later:
            _let_load(inside, later)
    for path, file in FILES.items():
        vars(_module_at(package, path))["__getattr__"] = _from_file(file)
    sys.meta_path.append(_RenamedModules())


class _RenamedModules(MetaPathFinder, Loader):
    """Imports an earlier module of `RENAMED` as an empty one that looks its names up in the present one."""

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        """The spec of an earlier module; None for all others."""
        return ModuleSpec(fullname, self) if fullname.removeprefix("rfnb.") in RENAMED else None

    def exec_module(self, module: ModuleType) -> None:
        """Let the module look its names up."""
        vars(module)["__getattr__"] = _from_file(f"rfnb.{RENAMED[module.__name__.removeprefix('rfnb.')]}")


def all_paths() -> list[str]:
    """The dotted paths of all these modules, below the package, parents first."""
    found: dict[str, None] = {}
    for path in (*PATHS, *FILES):
        parts = path.split(".")
        found.update(dict.fromkeys(".".join(parts[: count + 1]) for count in range(len(parts))))
    return list(found)


def _module_at(package: dict[str, Any], path: str) -> ModuleType:
    """The module at a dotted path below the package, created with its parents if missing."""
    above, full, module = package, package["__name__"], None
    for part in path.split("."):
        full = f"{full}.{part}"
        module = sys.modules.get(full)
        if module is None:
            there = above.get(part)
            module = sys.modules[full] = there if isinstance(there, ModuleType) else new_module(full)
            if full != f"{package['__name__']}.{part}" or part not in LATER_NAMES:  # such as the function `rf.dropout`
                above.setdefault(part, module)
        above = vars(module)
    assert module is not None
    return module


def _let_load(inside: dict[str, Any], later: Sequence[str]) -> None:
    """Make a module import some of its names on first use."""
    unknown = inside.get("__getattr__")

    def of_package(name: str) -> Any:
        if name in later:
            value = inside[name] = load(name)
            return value
        if unknown is not None:
            return unknown(name)
        raise no_name(inside["__name__"], name, _public_in(names()))

    def names() -> list[str]:
        return sorted({*inside, *later})

    inside.update({"__getattr__": of_package, "__dir__": names, "__all__": [*_public_in(inside), *later]})


def new_module(name: str) -> ModuleType:
    """An empty module without a file, with a helpful error for missing names."""
    module = ModuleType(name, f"A documented place of public names of rfnb; dir({name}) lists them.")
    module.__spec__ = ModuleSpec(name, None, is_package=True)
    module.__path__ = []

    def unknown(attribute: str) -> Any:
        if f"{name}.{attribute}" in DEPRECATED:
            return deprecated(name, attribute)
        raise no_name(name, attribute, _public_in(dir(module)))

    vars(module)["__getattr__"] = unknown
    return module


def _public_in(names: Iterable[str]) -> list[str]:
    return [name for name in names if not name.startswith("_")]


def _from_file(file: str) -> Callable[[str], Any]:
    def look_up(name: str) -> Any:
        return getattr(import_module(file), name)

    return look_up
