"""Public names that no law applies to, each with the reason."""

from table import exempt

exempt(
    "makes or names dims and tensors, computes nothing on Tensors",
    "Dim Tensor batch_dim dim_match_priority_when_needed ragged_dim single_step_dim constant fill full ones zeros convert_to_tensor named"
    " unnamed to_xarray",
)
exempt(
    "a type or an error", "LongAttention DimError ShapeError VerifyOutShapeException RemovableHandle State LstmState"
)
exempt(
    "chooses a backend",
    "Backend get_backend_by_raw_tensor_type get_backend_by_tensor get_selected_backend is_executing_eagerly"
    " register_backend_by_tensor_type select_backend select_backend_numpy select_backend_torch",
)
exempt(
    "a default, not an op",
    "get_default_array_index_dtype get_default_device get_default_dim_size_device get_default_float_dtype get_default_int_dtype"
    " is_float_dtype set_default_device set_default_device_ctx set_default_float_dtype set_default_float_dtype_ctx",
)
exempt("makes a class known, computes nothing", "register_nested")
exempt("random: the values differ by design", "random random_normal random_truncated_normal random_uniform")
exempt("the state of the generator", "get_random_state set_random_seed set_random_state")
exempt("initial values of parameters, random", "Glorot He HeNormal HeUniform Normal ParamInit VarianceScaling")
exempt(
    "holds modules or parameters and computes nothing itself", "Functional Module ModuleList Parameter ParameterList"
)
exempt("records and shows runs, computes nothing", "BeamHistory Trace load_trace probe record save_html show")
exempt(
    "needs a search around it; tests/search/",
    "beam_search beams_of choice decide decide_keep_beam get_beam_scores get_src_beams hf_search_options nbest split_batch_beam",
)
exempt("says what a search may take; tests/search/test_label_rules.py", "Constraint Lexicon RequiredPhrases")
exempt("changes or runs a model of others; tests/interop/seen/", "attribute edit logit_lens patch_sweep")
exempt("gradients: torch only", "gradient set_requires_gradient stop_gradient_scope")
