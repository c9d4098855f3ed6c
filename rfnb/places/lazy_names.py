"""Public names that are imported on first use, treated otherwise like those that `rfnb/__init__.py` imports at once.

Half of the modules are layers, searches, views and other things that a program may not need; importing them would double the import time.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import Any

from rfnb.core.import_hooks import when_loaded
from rfnb.places import public_doors

# Module -> its public names, as in the block for type checkers of `rfnb/__init__.py`.
# tests/contracts/test_public_names.py generates this.
LATER = {
    "rfnb.ops.gating": "gating",
    "rfnb.ops.opt_logical": "opt_logical_and opt_logical_or",
    "rfnb.ops.top_mask": "top_k_mask top_p_mask",
    "rfnb.ops.ctc_decode": (
        "CtcAlignment ctc_durations_from_path ctc_forced_align ctc_greedy_decode "
        "ctc_no_label_loop_blank_durations_from_path"
    ),
    "rfnb.ops.label_smoothing": "label_smoothed_log_prob_gradient",
    "rfnb.nn.module.checkpoint": "CheckpointError check_params_complete load_params save_params set_params",
    "rfnb.nn.module.parametrize": (
        "WeightDropout WeightNoise is_parametrized register_parametrization remove_parametrization "
        "weight_dropout weight_noise"
    ),
    "rfnb.nn.module.prototype": "make_norm",
    "rfnb.nn.linear": "Embedding Linear",
    "rfnb.nn.dropout": "dropout dropout_broadcast_default",
    "rfnb.nn.normalization": "GroupNorm GroupNormSpatial LayerNorm Normalize RMSNorm moments normalize",
    "rfnb.nn.batch_norm": "BatchNorm batch_norm_distributed_default",
    "rfnb.nn.conv": "Conv1d Conv2d Conv3d TransposedConv1d TransposedConv2d TransposedConv3d",
    "rfnb.nn.transformer.feed_forward": "FeedForward FeedForwardGated",
    "rfnb.nn.piecewise_linear": "PiecewiseLinear PiecewiseLinearStepwiseScheduler",
    "rfnb.nn.specaugment": "specaugment",
    "rfnb.nn.running_mean": "RunningMean",
    "rfnb.nn.masked_computation": "MaskedComputation masked_computation",
    "rfnb.nn.unmask": "unmask unmask_initial_state",
    "rfnb.nn.edit_distance_table": "EditDistanceTable",
    "rfnb.nn.attention.causal": "CausalSelfAttention CausalSelfAttentionState",
    "rfnb.nn.attention.cross": "CrossAttention",
    "rfnb.nn.attention.encoder_decoder": "ConcatAttention DotAttention GlobalAttentionContextBase last_frame",
    "rfnb.nn.attention.functions": (
        "additive_attention additive_attention_weights dot_attention dot_attention_weights generic_attention"
    ),
    "rfnb.nn.attention.gauss_window": "gauss_window_attention",
    "rfnb.nn.attention.positional_encoding": "relative_positional_encoding sinusoidal_encoding sinusoidal_positional_encoding",
    "rfnb.nn.attention.positional_layers": "PositionalEncoding RelativePositionalEncoding",
    "rfnb.nn.attention.qkv": "QKVSelfAttention",
    "rfnb.nn.attention.relative": "RelPosCausalSelfAttention RelPosSelfAttention",
    "rfnb.nn.attention.relative_learned": "LearnedRelativePositionalEncoding",
    "rfnb.nn.attention.rotary": "RotaryPosCausalSelfAttention RotaryPosSelfAttention",
    "rfnb.nn.attention.self_attention": "SelfAttention SelfAttentionBase",
    "rfnb.nn.encoders.base": "IEncoder ISeqDownsamplingEncoder ISeqFramewiseEncoder",
    "rfnb.nn.encoders.conformer": "ConformerConvSubsample ConformerEncoder ConformerEncoderV2 ConformerFrontend",
    "rfnb.nn.encoders.conformer_layer": (
        "ConformerConvBlock ConformerEncoderLayer ConformerPositionwiseFeedForward conv_norm_use_mask_default make_ff"
    ),
    "rfnb.nn.encoders.e_branchformer": "EBranchformerLayer FeedForwardConvGated Merge",
    "rfnb.nn.transformer.decoder": "TransformerDecoder TransformerDecoderLayer",
    "rfnb.nn.transformer.encoder": "TransformerEncoder TransformerEncoderLayer",
    "rfnb.nn.recurrent.blocksparse_lstm": "BlocksparseLSTMCell BlocksparseMultiplicativeMultistepLSTMCell",
    "rfnb.nn.recurrent.gated_delta_net": "GatedDeltaNet",
    "rfnb.nn.recurrent.gru": "GRUCell TorchGRUCell",
    "rfnb.nn.recurrent.last_hidden_state": "last_hidden_state",
    "rfnb.nn.recurrent.layer_norm_lstm": "LayerNormVariantsLSTMCell",
    "rfnb.nn.recurrent.lstm": "LSTM LstmState",
    "rfnb.nn.recurrent.mamba": "RGLRU Mamba Mamba2",
    "rfnb.nn.recurrent.native_lstm": "NativeLstm NativeLstm2 VanillaLSTMCell",
    "rfnb.nn.recurrent.rec": "Rec",
    "rfnb.nn.recurrent.rhn": "RHNCell",
    "rfnb.nn.recurrent.rnn_cell": "RnnCell",
    "rfnb.nn.recurrent.standard_lstm": "BasicLSTMCell BasicRNNCell StandardLSTMCell",
    "rfnb.nn.recurrent.two_d_lstm": "TwoDLSTM",
    "rfnb.nn.recurrent.unit": "RecUnit",
    "rfnb.nn.recurrent.zoneout_lstm": "ZoneoutLSTM ZoneoutLSTMCell",
    "rfnb.rec.cum_concat": "cum_concat cum_concat_initial_state",
    "rfnb.rec.nested_packing": "masked_scatter_nested masked_select_nested",
    "rfnb.rec.loop_compilation": "compile_loops",
    "rfnb.search.beam_search": "beam_search",
    "rfnb.search.label_rules": "Constraint",
    "rfnb.search.automata": "Lexicon RequiredPhrases",
    "rfnb.search.choice": "choice",
    "rfnb.search.ctc_prefix": "ctc_prefix_beam_search",
    "rfnb.search.decide": "decide decide_keep_beam get_beam_scores get_src_beams nbest split_batch_beam",
    "rfnb.search.search_functions": "backtrack beam_search_step gather_beams",
    "rfnb.search.transducer": "transducer_beam_search transducer_greedy_decode",
    "rfnb.search.transducer_align": "transducer_forced_align",
    "rfnb.control.run": "Run RunStopped",
    "rfnb.control.start": "gate run",
    "rfnb.control.why_not": "WhyNot why_not",
    "rfnb.lm.ngram": "NGramLM",
    "rfnb.nn.kenlm_state": "KenLmState",
    "rfnb.trace.beams": "BeamHistory",
    "rfnb.trace.compare_runs": "compare_runs",
    "rfnb.trace.diff": "Diff diff",
    "rfnb.trace.file": "load_trace",
    "rfnb.trace.long_attention": "LongAttention",
    "rfnb.trace.probe": "probe",
    "rfnb.trace.record": "record",
    "rfnb.trace.trace": "Trace",
    "rfnb.viz.explore.explorer": "explore",
    "rfnb.viz.save": "save_html",
    "rfnb.viz.show": "show",
    "rfnb.debugging.debug": "Debug debug",
    "rfnb.teaching.lesson": "lesson",
    "rfnb.data.alignment": "Alignment align character_errors word_errors",
    "rfnb.interop.doors": "as_torch beams_of ctc_output from_torch net_from_dict transducer_lattice transducer_output",
    "rfnb.interop.hf_llama": (
        "import_params_hf_llama_att_to_rf_rotary_att import_params_hf_llama_decoder_layer_to_rf "
        "import_params_hf_llama_mlp_to_rf_feed_forward_gated import_params_hf_llama_rms_norm_to_rf "
        "import_params_hf_llama_to_rf_transformer_decoder"
    ),
    "rfnb.interop.atlas": "Atlas atlas",
    "rfnb.interop.attribution": "attribute",
    "rfnb.interop.batch_report": "BatchCheck",
    "rfnb.interop.check_batch": "check_batch",
    "rfnb.interop.code_diff": "CodeDiff",
    "rfnb.interop.edit": "edit",
    "rfnb.interop.hf_search": "hf_search_options",
    "rfnb.interop.lens": "logit_lens",
    "rfnb.interop.processes": "mean_over_processes",
    "rfnb.interop.sweep": "patch_sweep",
    "rfnb.interop.torch_checkpoint": "load_torch_checkpoint",
    "rfnb.interop.watch.watch_function": "watch",
    "rfnb.interop.xarray_arrays": "to_xarray",
}
# Module -> classes whose objects users get, but that are not public names.
GIVEN = {
    "rfnb.control.position": "Position PositionStates",
    "rfnb.control.state_value": "StateValue",
    "rfnb.trace.run_tree": "Tree",
}
# name -> its module
LATER_NAMES = {name: module for module, names in LATER.items() for name in names.split()}


def load(name: str) -> Any:
    """Import the module of one of these names, bind all its names in the package, and return the value.

    Raises:
        KeyError: If it is not one of them.
    """
    import_module(LATER_NAMES[name])
    return vars(sys.modules["rfnb"])[name]


def put_when_loaded(package: dict[str, Any]) -> None:
    """Bind the names in the package when their modules are imported, by whatever path."""

    def put(module: ModuleType) -> None:
        names = {name: getattr(module, name) for name in LATER.get(module.__name__, "").split()}
        public_doors.name_the_dims(names)
        given = [getattr(module, name) for name in GIVEN.get(module.__name__, "").split()]
        public_doors.make_doors(package, names, given)
        package.update(names)

    for path in (*LATER, *GIVEN):
        when_loaded(path, put)
