"""rfnb: see inside sequence models while they run.

    import rfnb as rf

An eager, torch-backed frontend with named dims, and notebook views of what a model does. The public names follow the
documentation of the RETURNN frontend; what is not listed here is not promised.
"""

# fmt: off
import typing as _typing

from rfnb.places.collection_pause import CollectionPause as _NoCollection

_loading = _NoCollection()

# -- Dims and tensors --------------------------------------------------------------------------------------------------
from rfnb.core.dim import Dim, batch_dim, ragged_dim, single_step_dim
from rfnb.core.tensor import Tensor, VerifyOutShapeException
from rfnb.core.tensor_dict import TensorDict
from rfnb.core.errors import DimError, ShapeError
from rfnb.core.named_arrays import named, unnamed
from rfnb.core.tree import register_nested
from rfnb.ops.dims import (
    dim_match_priority_when_needed, last_frame_position_of_dim, masked_fraction_of_shape, num_elements_of_shape,
    range_over_dim, replace_dim, replace_dim_v2, sequence_mask, set_sparse_dim, use_mask_default,
)
from rfnb.ops.const import constant, convert_to_tensor, fill, full, ones, ones_like, zeros, zeros_like
from rfnb.ops.ranges import linspace_over_dim, range_over_dim_strided, range_over_merged_dims
from rfnb.ops.cast import cast, copy
from rfnb.ops.assertion import assert_

# -- Random numbers ----------------------------------------------------------------------------------------------------
from rfnb.ops.random import random, random_normal, random_truncated_normal, random_uniform
from rfnb.ops.random_choice import random_choice_with_replacement, random_choice_without_replacement
from rfnb.ops.random_mask import random_mask
from rfnb.ops.random_state import (
    get_random_state, get_static_step_based_seed, reset_step_random_state, set_random_seed, set_random_state,
)

# -- Value by value ----------------------------------------------------------------------------------------------------
from rfnb.ops.math import (
    abs, add, ceil, ceil_divide, clip_by_value, combine, combine_bc, compare, compare_bc, cos, elu, equal, exp, expm1,
    floor, floor_divide, gelu, greater, greater_equal, identity, is_finite, is_infinite, is_neg_infinite, lerp, less,
    less_equal, log, log1p, log_add_exp, log_sigmoid, logical_and, logical_not, logical_or, maximum, minimum, mod, mul,
    neg, not_equal, pow, reciprocal, relu, relu_square, round, rsqrt, safe_log, selu, sigmoid, silu, sin, sqrt, square,
    squared_difference, sub, swish, tanh, true_divide,
)
from rfnb.ops.where import where
from rfnb.ops.complex import complex_as_real, make_complex, real_as_complex

# -- Over dims: reductions, products, orders ---------------------------------------------------------------------------
from rfnb.ops.reduce import (
    reduce, reduce_all, reduce_any, reduce_argmax, reduce_argmin, reduce_logmeanexp, reduce_logsumexp, reduce_max,
    reduce_mean, reduce_min, reduce_out, reduce_sum, top_k,
)
from rfnb.ops.matmul import dot, matmul
from rfnb.ops.softmax import log_softmax, softmax
from rfnb.ops.cumsum import cumsum
from rfnb.ops.sort import search_sorted, sort

# -- Shapes: other dims for the same values ----------------------------------------------------------------------------
from rfnb.ops.expand import expand_dim, expand_dims, squeeze
from rfnb.ops.merge import merge_dims, reshape, split_dims
from rfnb.ops.concat import concat, concat_features, cum_concat_step, split
from rfnb.ops.concat import stack, unstack
from rfnb.ops.pad import expand_make_non_empty, pad
from rfnb.ops.repeat import repeat
from rfnb.ops.shift import reverse_sequence, shift_left, shift_right
from rfnb.ops.slice import slice
from rfnb.ops.window import window

# -- Indices, labels and masks -----------------------------------------------------------------------------------------
from rfnb.ops.gather import gather
from rfnb.ops.scatter import scatter, scatter_argmax, scatter_count, scatter_logmeanexp, scatter_logsumexp, scatter_mean
from rfnb.ops.mask_packing import masked_scatter, masked_select, pack_padded, pad_packed
from rfnb.ops.one_hot import one_hot, smooth_one_hot, sparse_to_dense

# -- Losses, alignments, edit distances --------------------------------------------------------------------------------
from rfnb.ops.loss import cross_entropy, label_smoothing
from rfnb.ops.ctc import ctc_best_path, ctc_loss
from rfnb.ops.edit_distance_row import (
    edit_distance, initial_edit_distance_row, next_edit_distance_reduce, next_edit_distance_row, optimal_completion_edit_distance,
    optimal_completion_edit_distance_per_successor, optimal_completions,
)

# -- Convolutions and signals ------------------------------------------------------------------------------------------
from rfnb.ops.conv import conv
from rfnb.ops.conv_dims import calc_conv_out_length, make_conv_out_spatial_dims
from rfnb.ops.transposed_conv import (
    calc_transposed_conv_out_length, make_transposed_conv_out_spatial_dims, transposed_conv,
)
from rfnb.ops.pool import max_pool, max_pool1d, pool, pool1d, pool2d, pool3d
from rfnb.ops.stft import stft
from rfnb.ops.mel import log_mel_filterbank_from_raw, mel_filterbank

# -- Gradients ---------------------------------------------------------------------------------------------------------
from rfnb.ops.gradient import (
    gradient, gradient_checkpoint_scope, scaled_gradient, scaled_gradient_ext, set_requires_gradient, stop_gradient,
    stop_gradient_scope,
)
from rfnb.ops.graph import get_tensor_consumers, get_tensor_dependencies, walk_tensor_consumers

# -- Dtypes, devices, precision, backends ------------------------------------------------------------------------------
from rfnb.ops.defaults import (
    copy_to_device, get_default_array_index_dtype, get_default_device, get_default_dim_size_device,
    get_default_float_dtype, get_default_int_dtype, is_float_dtype, set_default_device, set_default_device_ctx,
    set_default_float_dtype, set_default_float_dtype_ctx,
)
from rfnb.ops.amp import (
    AmpPolicy, amp_cast_compute, amp_cast_float32, get_amp_policy, set_amp_policy, set_amp_policy_ctx,
)
from rfnb.backends.protocol import Backend
from rfnb.backends.registry import (
    get_backend_by_raw_tensor_type, get_backend_by_tensor, get_selected_backend,
    is_backend_raw_tensor_dim_tag_independent, is_executing_eagerly, register_backend_by_tensor_type, select_backend,
    select_backend_jax, select_backend_numpy, select_backend_returnn_layers_tf, select_backend_tf, select_backend_torch,
)

# -- Modules and parameters --------------------------------------------------------------------------------------------
from rfnb.nn.module.build_from_dict import build_dict, build_from_dict
from rfnb.nn.module.container import ModuleList, ParameterList, Sequential, sequential
from rfnb.nn.module.hooks import RemovableHandle, setup_post_hook_on_method
from rfnb.nn.module.module import Functional, Module
from rfnb.nn.module.parameter import Parameter, set_parameter_copy_behavior_ctx
from rfnb.nn.module.types import GetModelFunc, ItemKeyType, RawTensorTypes, StepFunc, get_raw_tensor_type
from rfnb.nn.init import Glorot, He, HeNormal, HeUniform, Normal, ParamInit, ParamInitType, VarianceScaling

# -- Loops, states, branches -------------------------------------------------------------------------------------------
from rfnb.rec.while_loop import cond, while_loop
from rfnb.rec.loop import Loop
from rfnb.rec.nested import gather_nested, mask_nested, where_nested
from rfnb.rec.scan import scan
from rfnb.rec.state import State
from rfnb.rec.tensor_array import TensorArray
from rfnb.core.control_flow_ctx import control_flow_ctx, get_current_control_flow_ctx

# -- Steps of training and inference -----------------------------------------------------------------------------------
from rfnb.nn.run.marked_loss import Loss
from rfnb.nn.run.run_ctx import (
    RunCtx, get_run_ctx, get_run_ctx_step, init_forward_step_run_ctx, init_train_step_run_ctx,
)

# -- Modules of this package that are public by themselves -------------------------------------------------------------
from rfnb import plot, tensor, viz
from rfnb.nn import audio, init

if _typing.TYPE_CHECKING:  # loaded when they are first asked for: `places/lazy_names.py`
    # -- Over dims: reductions, products, orders ---------------------------------------------------------------------------
    from rfnb.ops.gating import gating
    from rfnb.ops.opt_logical import opt_logical_and, opt_logical_or
    from rfnb.ops.top_mask import top_k_mask, top_p_mask

    # -- Losses, alignments, edit distances --------------------------------------------------------------------------------
    from rfnb.ops.ctc_decode import (
        CtcAlignment, ctc_durations_from_path, ctc_forced_align, ctc_greedy_decode, ctc_no_label_loop_blank_durations_from_path,
    )
    from rfnb.ops.label_smoothing import label_smoothed_log_prob_gradient

    # -- Modules and parameters --------------------------------------------------------------------------------------------
    from rfnb.nn.module.checkpoint import CheckpointError, check_params_complete, load_params, save_params, set_params
    from rfnb.nn.module.parametrize import (
        WeightDropout,
        WeightNoise,
        is_parametrized,
        register_parametrization,
        remove_parametrization,
        weight_dropout,
        weight_noise,
    )
    from rfnb.nn.module.prototype import make_norm

    # -- Layers ------------------------------------------------------------------------------------------------------------
    from rfnb.nn.linear import Embedding, Linear
    from rfnb.nn.dropout import dropout, dropout_broadcast_default
    from rfnb.nn.normalization import GroupNorm, GroupNormSpatial, LayerNorm, Normalize, RMSNorm, moments, normalize
    from rfnb.nn.batch_norm import BatchNorm, batch_norm_distributed_default
    from rfnb.nn.conv import Conv1d, Conv2d, Conv3d, TransposedConv1d, TransposedConv2d, TransposedConv3d
    from rfnb.nn.transformer.feed_forward import FeedForward, FeedForwardGated
    from rfnb.nn.piecewise_linear import PiecewiseLinear, PiecewiseLinearStepwiseScheduler
    from rfnb.nn.specaugment import specaugment
    from rfnb.nn.running_mean import RunningMean
    from rfnb.nn.masked_computation import MaskedComputation, masked_computation
    from rfnb.nn.unmask import unmask, unmask_initial_state
    from rfnb.nn.edit_distance_table import EditDistanceTable

    # -- Attention and positions -------------------------------------------------------------------------------------------
    from rfnb.nn.attention.causal import CausalSelfAttention, CausalSelfAttentionState
    from rfnb.nn.attention.cross import CrossAttention
    from rfnb.nn.attention.encoder_decoder import ConcatAttention, DotAttention, GlobalAttentionContextBase, last_frame
    from rfnb.nn.attention.functions import (
        additive_attention, additive_attention_weights, dot_attention, dot_attention_weights, generic_attention,
    )
    from rfnb.nn.attention.gauss_window import gauss_window_attention
    from rfnb.nn.attention.positional_encoding import (
        relative_positional_encoding, sinusoidal_encoding, sinusoidal_positional_encoding,
    )
    from rfnb.nn.attention.positional_layers import PositionalEncoding, RelativePositionalEncoding
    from rfnb.nn.attention.qkv import QKVSelfAttention
    from rfnb.nn.attention.relative import RelPosCausalSelfAttention, RelPosSelfAttention
    from rfnb.nn.attention.relative_learned import LearnedRelativePositionalEncoding
    from rfnb.nn.attention.rotary import RotaryPosCausalSelfAttention, RotaryPosSelfAttention
    from rfnb.nn.attention.self_attention import SelfAttention, SelfAttentionBase

    # -- Encoders and decoders ---------------------------------------------------------------------------------------------
    from rfnb.nn.encoders.base import IEncoder, ISeqDownsamplingEncoder, ISeqFramewiseEncoder
    from rfnb.nn.encoders.conformer import ConformerConvSubsample, ConformerEncoder, ConformerEncoderV2, ConformerFrontend
    from rfnb.nn.encoders.conformer_layer import (
        ConformerConvBlock, ConformerEncoderLayer, ConformerPositionwiseFeedForward, conv_norm_use_mask_default, make_ff,
    )
    from rfnb.nn.encoders.e_branchformer import EBranchformerLayer, FeedForwardConvGated, Merge
    from rfnb.nn.transformer.decoder import TransformerDecoder, TransformerDecoderLayer
    from rfnb.nn.transformer.encoder import TransformerEncoder, TransformerEncoderLayer

    # -- Recurrent layers --------------------------------------------------------------------------------------------------
    from rfnb.nn.recurrent.blocksparse_lstm import BlocksparseLSTMCell, BlocksparseMultiplicativeMultistepLSTMCell
    from rfnb.nn.recurrent.gated_delta_net import GatedDeltaNet
    from rfnb.nn.recurrent.gru import GRUCell, TorchGRUCell
    from rfnb.nn.recurrent.last_hidden_state import last_hidden_state
    from rfnb.nn.recurrent.layer_norm_lstm import LayerNormVariantsLSTMCell
    from rfnb.nn.recurrent.lstm import LSTM, LstmState
    from rfnb.nn.recurrent.mamba import RGLRU, Mamba, Mamba2
    from rfnb.nn.recurrent.native_lstm import NativeLstm, NativeLstm2, VanillaLSTMCell
    from rfnb.nn.recurrent.rec import Rec
    from rfnb.nn.recurrent.rhn import RHNCell
    from rfnb.nn.recurrent.rnn_cell import RnnCell
    from rfnb.nn.recurrent.standard_lstm import BasicLSTMCell, BasicRNNCell, StandardLSTMCell
    from rfnb.nn.recurrent.two_d_lstm import TwoDLSTM
    from rfnb.nn.recurrent.unit import RecUnit
    from rfnb.nn.recurrent.zoneout_lstm import ZoneoutLSTM, ZoneoutLSTMCell

    # -- Loops, states, branches -------------------------------------------------------------------------------------------
    from rfnb.rec.cum_concat import cum_concat, cum_concat_initial_state
    from rfnb.rec.nested_packing import masked_scatter_nested, masked_select_nested
    from rfnb.rec.loop_compilation import compile_loops

    # -- Search ------------------------------------------------------------------------------------------------------------
    from rfnb.search.beam_search import beam_search
    from rfnb.search.label_rules import Constraint
    from rfnb.search.automata import Lexicon, RequiredPhrases
    from rfnb.search.choice import choice
    from rfnb.search.ctc_prefix import ctc_prefix_beam_search
    from rfnb.search.decide import decide, decide_keep_beam, get_beam_scores, get_src_beams, nbest, split_batch_beam
    from rfnb.search.search_functions import backtrack, beam_search_step, gather_beams
    from rfnb.search.transducer import transducer_beam_search, transducer_greedy_decode
    from rfnb.search.transducer_align import transducer_forced_align

    # -- Held while they run -----------------------------------------------------------------------------------------------
    from rfnb.control.run import Run, RunStopped
    from rfnb.control.start import gate, run
    from rfnb.control.why_not import WhyNot, why_not

    # -- N-gram models -----------------------------------------------------------------------------------------------------
    from rfnb.lm.ngram import NGramLM
    from rfnb.nn.kenlm_state import KenLmState

    # -- To look inside: traces, views, checks -----------------------------------------------------------------------------
    from rfnb.trace.beams import BeamHistory
    from rfnb.trace.compare_runs import compare_runs
    from rfnb.trace.diff import Diff, diff
    from rfnb.trace.file import load_trace
    from rfnb.trace.long_attention import LongAttention
    from rfnb.trace.probe import probe
    from rfnb.trace.record import record
    from rfnb.trace.trace import Trace
    from rfnb.viz.explore.explorer import explore
    from rfnb.viz.save import save_html
    from rfnb.viz.show import show
    from rfnb.debugging.debug import Debug, debug
    from rfnb.teaching.lesson import lesson

    # -- Data, checkpoints, models of other libraries ----------------------------------------------------------------------
    from rfnb.data.alignment import Alignment, align, character_errors, word_errors
    from rfnb.interop.doors import (
        as_torch, beams_of, ctc_output, from_torch, net_from_dict, transducer_lattice, transducer_output
    )
    from rfnb.interop.hf_llama import (
        import_params_hf_llama_att_to_rf_rotary_att, import_params_hf_llama_decoder_layer_to_rf,
        import_params_hf_llama_mlp_to_rf_feed_forward_gated, import_params_hf_llama_rms_norm_to_rf,
        import_params_hf_llama_to_rf_transformer_decoder,
    )
    from rfnb.interop.atlas import Atlas, atlas
    from rfnb.interop.attribution import attribute
    from rfnb.interop.batch_report import BatchCheck
    from rfnb.interop.check_batch import check_batch
    from rfnb.interop.code_diff import CodeDiff
    from rfnb.interop.edit import edit
    from rfnb.interop.hf_search import hf_search_options
    from rfnb.interop.lens import logit_lens
    from rfnb.interop.processes import mean_over_processes
    from rfnb.interop.sweep import patch_sweep
    from rfnb.interop.torch_checkpoint import load_torch_checkpoint
    from rfnb.interop.watch.watch_function import watch
    from rfnb.interop.xarray_arrays import to_xarray

# -- What is bound to these names --------------------------------------------------------------------------------------
import rfnb.interop.seen.lazy_imports as _door  # lets recordings see into torch modules
from rfnb.nn.backend import methods as _backend_methods
from rfnb.ops import operators as _operators  # binds x + y, x < y, ...
from rfnb.places import public_doors as _doors
from rfnb.places import lazy_names as _later
from rfnb.places import paths as _paths


# For type checkers and `import *`: what is imported above. `python tests/contracts/test_public_names.py` writes this list.
__all__ = [
    "Alignment", "AmpPolicy", "Atlas", "Backend", "BasicLSTMCell", "BasicRNNCell", "BatchCheck", "BatchNorm",
    "BeamHistory", "BlocksparseLSTMCell", "BlocksparseMultiplicativeMultistepLSTMCell", "CausalSelfAttention",
    "CausalSelfAttentionState", "CheckpointError", "CodeDiff", "ConcatAttention", "ConformerConvBlock",
    "ConformerConvSubsample", "ConformerEncoder", "ConformerEncoderLayer", "ConformerEncoderV2", "ConformerFrontend",
    "ConformerPositionwiseFeedForward", "Constraint", "Conv1d", "Conv2d", "Conv3d", "CrossAttention", "CtcAlignment",
    "Debug", "Diff", "Dim", "DimError", "DotAttention", "EBranchformerLayer", "EditDistanceTable", "Embedding",
    "FeedForward", "FeedForwardConvGated", "FeedForwardGated", "Functional", "GRUCell", "GatedDeltaNet", "GetModelFunc",
    "GlobalAttentionContextBase", "Glorot", "GroupNorm", "GroupNormSpatial", "He", "HeNormal", "HeUniform", "IEncoder",
    "ISeqDownsamplingEncoder", "ISeqFramewiseEncoder", "ItemKeyType", "KenLmState", "LSTM", "LayerNorm",
    "LayerNormVariantsLSTMCell", "LearnedRelativePositionalEncoding", "Lexicon", "Linear", "LongAttention", "Loop",
    "Loss", "LstmState", "Mamba", "Mamba2", "MaskedComputation", "Merge", "Module", "ModuleList", "NGramLM",
    "NativeLstm", "NativeLstm2", "Normal", "Normalize", "ParamInit", "ParamInitType", "Parameter", "ParameterList",
    "PiecewiseLinear", "PiecewiseLinearStepwiseScheduler", "PositionalEncoding", "QKVSelfAttention", "RGLRU", "RHNCell",
    "RMSNorm", "RawTensorTypes", "Rec", "RecUnit", "RelPosCausalSelfAttention", "RelPosSelfAttention",
    "RelativePositionalEncoding", "RemovableHandle", "RequiredPhrases", "RnnCell", "RotaryPosCausalSelfAttention",
    "RotaryPosSelfAttention", "Run", "RunCtx", "RunStopped", "RunningMean", "SelfAttention", "SelfAttentionBase",
    "Sequential", "ShapeError", "StandardLSTMCell", "State", "StepFunc", "Tensor", "TensorArray", "TensorDict",
    "TorchGRUCell", "Trace", "TransformerDecoder", "TransformerDecoderLayer", "TransformerEncoder",
    "TransformerEncoderLayer", "TransposedConv1d", "TransposedConv2d", "TransposedConv3d", "TwoDLSTM",
    "VanillaLSTMCell", "VarianceScaling", "VerifyOutShapeException", "WeightDropout", "WeightNoise", "WhyNot",
    "ZoneoutLSTM", "ZoneoutLSTMCell", "abs", "add", "additive_attention", "additive_attention_weights", "align",
    "amp_cast_compute", "amp_cast_float32", "as_torch", "assert_", "atlas", "attribute", "audio", "backtrack",
    "batch_dim", "batch_norm_distributed_default", "beam_search", "beam_search_step", "beams_of", "build_dict",
    "build_from_dict", "calc_conv_out_length", "calc_transposed_conv_out_length", "cast", "ceil", "ceil_divide",
    "character_errors", "check_batch", "check_params_complete", "choice", "clip_by_value", "combine", "combine_bc",
    "compare", "compare_bc", "compare_runs", "compile_loops", "complex_as_real", "concat", "concat_features", "cond",
    "constant", "control_flow_ctx", "conv", "conv_norm_use_mask_default", "convert_to_tensor", "copy", "copy_to_device",
    "cos", "cross_entropy", "ctc_best_path", "ctc_durations_from_path", "ctc_forced_align", "ctc_greedy_decode",
    "ctc_loss", "ctc_no_label_loop_blank_durations_from_path", "ctc_output", "ctc_prefix_beam_search", "cum_concat",
    "cum_concat_initial_state", "cum_concat_step", "cumsum", "debug", "decide", "decide_keep_beam", "diff",
    "dim_match_priority_when_needed", "dot", "dot_attention", "dot_attention_weights", "dropout",
    "dropout_broadcast_default", "edit", "edit_distance", "elu", "equal", "exp", "expand_dim", "expand_dims",
    "expand_make_non_empty", "explore", "expm1", "fill", "floor", "floor_divide", "from_torch", "full", "gate",
    "gather", "gather_beams", "gather_nested", "gating", "gauss_window_attention", "gelu", "generic_attention",
    "get_amp_policy", "get_backend_by_raw_tensor_type", "get_backend_by_tensor", "get_beam_scores",
    "get_current_control_flow_ctx", "get_default_array_index_dtype", "get_default_device",
    "get_default_dim_size_device", "get_default_float_dtype", "get_default_int_dtype", "get_random_state",
    "get_raw_tensor_type", "get_run_ctx", "get_run_ctx_step", "get_selected_backend", "get_src_beams",
    "get_static_step_based_seed", "get_tensor_consumers", "get_tensor_dependencies", "gradient",
    "gradient_checkpoint_scope", "greater", "greater_equal", "hf_search_options", "identity",
    "import_params_hf_llama_att_to_rf_rotary_att", "import_params_hf_llama_decoder_layer_to_rf",
    "import_params_hf_llama_mlp_to_rf_feed_forward_gated", "import_params_hf_llama_rms_norm_to_rf",
    "import_params_hf_llama_to_rf_transformer_decoder", "init", "init_forward_step_run_ctx", "init_train_step_run_ctx",
    "initial_edit_distance_row", "is_backend_raw_tensor_dim_tag_independent", "is_executing_eagerly", "is_finite",
    "is_float_dtype", "is_infinite", "is_neg_infinite", "is_parametrized", "label_smoothed_log_prob_gradient",
    "label_smoothing", "last_frame", "last_frame_position_of_dim", "last_hidden_state", "lerp", "less", "less_equal",
    "lesson", "linspace_over_dim", "load_params", "load_torch_checkpoint", "load_trace", "log", "log1p", "log_add_exp",
    "log_mel_filterbank_from_raw", "log_sigmoid", "log_softmax", "logical_and", "logical_not", "logical_or",
    "logit_lens", "make_complex", "make_conv_out_spatial_dims", "make_ff", "make_norm",
    "make_transposed_conv_out_spatial_dims", "mask_nested", "masked_computation", "masked_fraction_of_shape",
    "masked_scatter", "masked_scatter_nested", "masked_select", "masked_select_nested", "matmul", "max_pool",
    "max_pool1d", "maximum", "mean_over_processes", "mel_filterbank", "merge_dims", "minimum", "mod", "moments", "mul",
    "named", "nbest", "neg", "net_from_dict", "next_edit_distance_reduce", "next_edit_distance_row", "normalize",
    "not_equal", "num_elements_of_shape", "one_hot", "ones", "ones_like", "opt_logical_and", "opt_logical_or",
    "optimal_completion_edit_distance", "optimal_completion_edit_distance_per_successor", "optimal_completions",
    "pack_padded", "pad", "pad_packed", "patch_sweep", "plot", "pool", "pool1d", "pool2d", "pool3d", "pow", "probe",
    "ragged_dim", "random", "random_choice_with_replacement", "random_choice_without_replacement", "random_mask",
    "random_normal", "random_truncated_normal", "random_uniform", "range_over_dim", "range_over_dim_strided",
    "range_over_merged_dims", "real_as_complex", "reciprocal", "record", "reduce", "reduce_all", "reduce_any",
    "reduce_argmax", "reduce_argmin", "reduce_logmeanexp", "reduce_logsumexp", "reduce_max", "reduce_mean",
    "reduce_min", "reduce_out", "reduce_sum", "register_backend_by_tensor_type", "register_nested",
    "register_parametrization", "relative_positional_encoding", "relu", "relu_square", "remove_parametrization",
    "repeat", "replace_dim", "replace_dim_v2", "reset_step_random_state", "reshape", "reverse_sequence", "round",
    "rsqrt", "run", "safe_log", "save_html", "save_params", "scaled_gradient", "scaled_gradient_ext", "scan", "scatter",
    "scatter_argmax", "scatter_count", "scatter_logmeanexp", "scatter_logsumexp", "scatter_mean", "search_sorted",
    "select_backend", "select_backend_jax", "select_backend_numpy", "select_backend_returnn_layers_tf",
    "select_backend_tf", "select_backend_torch", "selu", "sequence_mask", "sequential", "set_amp_policy",
    "set_amp_policy_ctx", "set_default_device", "set_default_device_ctx", "set_default_float_dtype",
    "set_default_float_dtype_ctx", "set_parameter_copy_behavior_ctx", "set_params", "set_random_seed",
    "set_random_state", "set_requires_gradient", "set_sparse_dim", "setup_post_hook_on_method", "shift_left",
    "shift_right", "show", "sigmoid", "silu", "sin", "single_step_dim", "sinusoidal_encoding",
    "sinusoidal_positional_encoding", "slice", "smooth_one_hot", "softmax", "sort", "sparse_to_dense", "specaugment",
    "split", "split_batch_beam", "split_dims", "sqrt", "square", "squared_difference", "squeeze", "stack", "stft",
    "stop_gradient", "stop_gradient_scope", "sub", "swish", "tanh", "tensor", "to_xarray", "top_k", "top_k_mask",
    "top_p_mask", "transducer_beam_search", "transducer_forced_align", "transducer_greedy_decode", "transducer_lattice",
    "transducer_output", "transposed_conv", "true_divide", "unmask", "unmask_initial_state", "unnamed", "unstack",
    "use_mask_default", "viz", "walk_tensor_consumers", "watch", "weight_dropout", "weight_noise", "where",
    "where_nested", "while_loop", "why_not", "window", "word_errors", "zeros", "zeros_like",
]
# fmt: on

if not _typing.TYPE_CHECKING:  # for a type checker there are the names above, and no others
    from rfnb.places.unknown_names import names_of_rfnb as __dir__  # noqa: F401
    from rfnb.places.unknown_names import of_rfnb as __getattr__  # noqa: F401

_backend_methods.bind(globals())
_doors.name_the_dims(globals())
_doors.make_doors(globals(), globals())
_later.put_when_loaded(globals())
_paths.make_modules(globals())
_loading.end()
del (
    _NoCollection,
    _backend_methods,
    _door,
    _doors,
    _later,
    _loading,
    _operators,
    _paths,
    _typing,
)
__version__ = "0.2.0"
