"""A wrong call of any public name gives rfnb's own error: what failed, the arguments, the rule, and the next line to type."""

import contextlib
import inspect
import json
import re
import subprocess
from pathlib import Path
from types import FunctionType

import pytest
from contracts.wrong_arguments import INSTANCES, X, likely, methods, public
from waiting import LONG
from warm import warm

# What ends raw, by the reason; a call that is mended is taken from here.
RAW = {
    "found raw, not mended yet": set(
        (
            "rf.Backend rf.CausalSelfAttentionState rf.CtcAlignment rf.Dim rf.IEncoder rf.ISeqDownsamplingEncoder "
            "rf.ISeqFramewiseEncoder rf.LongAttention rf.LstmState rf.Module rf.ParamInit rf.Parameter rf.PiecewiseLinear "
            "rf.PiecewiseLinearStepwiseScheduler rf.Tensor rf.TensorDict rf.dim_match_priority_when_needed rf.identity "
            "rf.is_parametrized rf.mask_nested rf.random_mask rf.scaled_gradient_ext rf.sequential "
            "rf.set_default_device_ctx rf.set_default_float_dtype_ctx rf.set_sparse_dim rf.walk_tensor_consumers "
            "rf.where_nested "
        ).split()
    ),
    "core knows no doors": {
        "rf.ragged_dim", "rf.named", "rf.get_current_control_flow_ctx", "rf.register_nested"
    },
    "keywords go on to others": {"rf.build_from_dict", "rf.build_dict", "rf.probe", "rf.beams_of", "rf.viz.diff"},
    "a class or function of the user fails": {
        *(f"rf.{name}" for name in (
            "beam_search scan while_loop transducer_beam_search transducer_greedy_decode make_norm make_ff ConformerConvBlock"
            " ConformerEncoder ConformerFrontend FeedForwardConvGated EBranchformerLayer ConformerEncoderLayer ConformerEncoderV2"
            " TransformerEncoder TransformerEncoderLayer TransformerDecoder TransformerDecoderLayer"
        ).split()),
    },
    "a file is not there": {"rf.KenLmState", "rf.NGramLM", "rf.load_params", "rf.load_torch_checkpoint", "rf.load_trace"},
    "takes anything, and fails on what is in it": {
        *(f"rf.{name}" for name in (
            "ctc_output transducer_output transducer_lattice as_torch viz.beams plot.beams repeat cum_concat_step last_hidden_state"
            " random_normal random_uniform random_truncated_normal pool pool1d pool2d pool3d max_pool max_pool1d fill ceil_divide"
        ).split()),
    },
}  # fmt: skip
# Of methods. Python binds arguments before any code of ours runs: who is to see an unknown keyword pays for a dict in every call, about
# 25 ns where a call costs 40 to 60. Methods that are called in steps do not.
HOT = {"Dim", "ragged Dim", "Tensor", "Tensor of a static shape", "Tensor of labels", "scalar", "Parameter", "TensorArray", "TensorDict",
       "State", "Loop", "Loop in a step", "RunCtx", "Linear", "Module", "ModuleList", "SelfAttention", "TransformerDecoder"}  # fmt: skip
RAW_METHODS = {
    "what it gets is kept, or only looked for": {
        "has_axis", "check_assignable", "depends_on", "call_on_commit", "cls_flatten_tensors", "default_initial_state",
    },
    "a function of the user fails": {"apply", "transform_tensors", "on_close", "make", "unsubscribe"},
    "keywords go on to others": {"force", "ban"},
    "beyond the end": {
        "get_dim_tag", "get_sequence_mask_broadcast", "is_axis_dynamic", "beam_size", "left", "smaller", "verdicts", "overview",
    },
    "takes anything, and fails on what is in it": {
        "copy_masked", "verify_out_shape", "diagnose", "end_scores", "rows", "step", "select", "add",
    },
}  # fmt: skip
MAY_BE_RAW = set().union(*RAW.values())
# What is accepted although it is of no type of its annotation: (name, parameter, kind of value, annotation), each as a regular expression.
ACCEPTED = {
    "a name is that of a dim of an operand": (".*", ".*", "str", ".*Dim.*"),
    "a number is a Tensor without dims": (".*", ".*", "int", "<class 'Tensor'>"),
    "a Dim is a list of one": (".*", ".*", "Dim", ".*Sequence.{1,2}Dim.*"),
    "it gives back whatever it gets": (r"rf\.identity", "x", ".*", ".*"),
    "a tuple that an op has made": (r"rf\.CtcAlignment", ".*", ".*", ".*"),
    "a label is written as text, whatever it is": (r"rf\.Dim", "vocab", "list", ".*"),
    "read when the block begins": (r"rf\.(record|set_default_device_ctx)", "steps|limit|device", ".*", ".*"),
    "a module without states looks at nothing": (r"(Module|Linear|ModuleList|SelfAttention)\.default_initial_state", ".*", ".*", ".*"),
    "it asks whether a thing is there, of any thing": (r".*\.(has_axis|depends_on)", "axis|part", ".*", ".*"),
    "a scalar has no dims to look for": (r"scalar\.copy_compatible_to_dims(_raw)?", "dims", ".*", ".*"),
    "one look where nobody listens": (r"rf\.probe", "kind", ".*", ".*"),
    "a function makes the initial values": (r"rf\.Parameter", "initial", "function", ".*"),
    "read where lengths are chosen": (r"rf\.where_nested", "condition_cpu", "torch|numpy", ".*"),
    "an array is an array": (r"NGramLM\.rows", "contexts", "torch", ".*"),
}  # fmt: skip


def ended(folder, what="functions"):
    """The calls that ended raw, those that were accepted, and the numbers of all ends, of calls made in another process."""
    script = Path(__file__).with_name("wrong_arguments.py")
    run = subprocess.run([*warm(), str(script), "0.4", what], capture_output=True, text=True, timeout=LONG, cwd=folder)
    assert run.returncode == 0, run.stderr
    *calls, numbers = [line.split(" | ", 3) for line in run.stdout.splitlines()]
    raw = [call for call in calls if call[0] != "accepted"]
    return raw, [call[1:] for call in calls if call[0] == "accepted"], json.loads(numbers[0])


def not_in_table(accepted):
    """The accepted calls for which there is no reason."""
    found = []
    for path, what, hint in accepted:
        name, _, kind = what.partition("=")
        reasons = [all(map(re.fullmatch, each, (path, name, kind, hint))) for each in ACCEPTED.values()]
        if not any(reasons):
            found.append((path, what, hint))
    return found


def test_no_error_is_raw_and_no_wrong_call_is_accepted(tmp_path):
    raw, accepted, numbers = ended(tmp_path)
    assert [call for call in raw if call[0] not in MAY_BE_RAW] == []
    assert not_in_table(accepted) == [], "\n".join(map(str, not_in_table(accepted)))
    assert numbers["ours"] > 6000


def test_no_error_of_a_method_is_raw_and_no_wrong_call_is_accepted(tmp_path):
    raw, accepted, numbers = ended(tmp_path, "methods")
    assert not_in_table(accepted) == [], "\n".join(map(str, not_in_table(accepted)))
    may_be = set().union(*RAW_METHODS.values())
    left = [call for call in raw if call[0].rpartition(".")[2] not in may_be]
    assert [call for call in left if call[1] != "an unknown keyword" or call[0].partition(".")[0] not in HOT] == []
    assert numbers["ours"] > 3000


def test_what_a_method_needs_is_asked_for():
    silent = []
    for name in (
        "Tensor",
        "scalar",
        "Dim",
        "ragged Dim",
        "Parameter",
        "TensorDict",
        "Loop",
        "RunCtx",
        "Module",
        "LSTM",
        "State",
        "Trace",
    ):
        value = INSTANCES[name]()
        for method in methods(value):
            called = getattr(value, method)
            given = [each for each in inspect.signature(called).parameters.values() if each.default is each.empty]
            if any(each.kind not in (each.VAR_POSITIONAL, each.VAR_KEYWORD) for each in given):
                with contextlib.suppress(TypeError, ValueError):
                    called()
                    silent.append(f"{name}.{method}")
    assert silent == []


def takes_nothing_else(name):
    """(function, its parameters) of the public ones with this parameter, which is there to refuse what it gets."""
    for _, fn in public():
        if isinstance(fn, FunctionType) and fn.__annotations__.get(name) == "Never":
            yield fn, list(inspect.signature(fn).parameters.values())


def test_an_unknown_keyword_is_refused_by_its_name():
    found = list(takes_nothing_else("unknown"))
    assert len(found) > 100
    for fn, parameters in found:
        named = [each for each in parameters if each.kind in (each.POSITIONAL_OR_KEYWORD, each.KEYWORD_ONLY)]
        needed = {each.name: likely(each) for each in named if each.default is each.empty}
        with pytest.raises(TypeError, match="no_such_keyword"):
            fn(**needed, no_such_keyword=1)


def test_a_value_more_than_there_are_places_is_refused():
    found = list(takes_nothing_else("extra"))
    assert len(found) > 50
    for fn, parameters in found:
        given = [likely(each) for each in parameters if each.kind is each.POSITIONAL_OR_KEYWORD]
        named = [each for each in parameters if each.kind is each.KEYWORD_ONLY and each.default is each.empty]
        with pytest.raises(TypeError, match="by position"):
            fn(*given, X, **{each.name: likely(each) for each in named})


def test_what_may_be_raw_is_public():
    assert MAY_BE_RAW - {path for path, _ in public()} == set()
