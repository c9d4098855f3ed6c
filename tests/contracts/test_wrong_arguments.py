"""Whatever public name is called wrongly, the error is ours: what failed, the arguments, the rule, and the next line to type."""

import json
import subprocess
import sys
from pathlib import Path

from contracts.wrong_arguments import public
from waiting import LONG

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
            " random_normal random_uniform random_truncated_normal pool pool2d pool3d max_pool fill ceil_divide"
        ).split()),
    },
}  # fmt: skip
MAY_BE_RAW = set().union(*RAW.values())


def ended(share, folder):
    """The names of what ended raw, and the numbers of all ends, of a share of the calls made in another process."""
    script = Path(__file__).with_name("wrong_arguments.py")
    run = subprocess.run(
        [sys.executable, str(script), str(share)], capture_output=True, text=True, timeout=LONG, cwd=folder
    )
    assert run.returncode == 0, run.stderr
    *raw, numbers = run.stdout.splitlines()
    return raw, json.loads(numbers)


def test_no_error_is_raw(tmp_path):
    raw, numbers = ended(0.2, tmp_path)
    assert [line for line in raw if line.split(" | ")[0] not in MAY_BE_RAW] == []
    assert numbers["ours"] > 3000


def test_what_may_be_raw_is_public():
    assert MAY_BE_RAW - {path for path, _ in public()} == set()
