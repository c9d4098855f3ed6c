"""Errors of units, choices, attention and masks in dict notation: whole messages."""

from __future__ import annotations

from typing import Any

import pytest
from dict_nets import COPY, EXTERN, MEAN, loop_of, run

import rfnb as rf
from rfnb.core.errors import MissingKeyError

CASES: dict[str, tuple[Any, type[Exception], str]] = {
    "unknown_unit": (
        {"output": {"class": "rec", "unit": "lstmx", "n_out": 3, "from": "data"}},
        ValueError,
        'Rec: unknown unit "lstmx".\n'
        "  known  LSTM, LSTMP, NativeLstm2, VanillaLSTM, NativeLstm, LSTMBlock, LSTMBlockFused, "
        "CudnnLSTM, StandardLSTM, BasicLSTM, GRU, CudnnGRU, TorchGRU, BasicRNN, RHN, "
        "LayerNormVariantsLSTM, ZoneoutLSTM, BlocksparseLSTM, "
        "BlocksparseMultiplicativeMultistepLSTM\n"
        'Case does not matter, and "Cell" at the end may be there or not. A unit of your own is '
        "passed as a class:\n"
        "    rf.Rec(MyUnit, in_dim, out_dim)",
    ),
    "state_dict": (
        {
            "m": {"class": "linear", "n_out": 3, "from": "mm"},
            "mm": MEAN,
            "output": {"class": "rec", "unit": "lstm", "n_out": 3, "from": "data", "initial_state": {"c": "m"}},
        },
        ValueError,
        'Layer "output" of class "rec": the parts of the initial state do not match the unit.\n'
        "  given   c\n"
        "  needed  c, h\n"
        "Each part of the state needs a value.\n"
        "    \"initial_state\": {'c': ..., 'h': ...}",
    ),
    "state_one": (
        {
            "m": {"class": "linear", "n_out": 3, "from": "mm"},
            "mm": MEAN,
            "output": {"class": "rec", "unit": "lstm", "n_out": 3, "from": "data", "initial_state": "m"},
        },
        ValueError,
        'Layer "output" of class "rec": the parts of the initial state do not match the unit.\n'
        "  given   'm'\n"
        "  needed  c, h\n"
        "Each part of the state needs a value.\n"
        "    \"initial_state\": {'c': ..., 'h': ...}",
    ),
    "state_v1": (
        {
            "m": {"class": "linear", "n_out": 3, "from": "mm"},
            "mm": MEAN,
            "output": {"class": "rec", "unit": "nativelstm", "n_out": 3, "from": "data", "initial_state": {"c": "m"}},
        },
        ValueError,
        'Layer "output" of class "rec": NativeLstm takes no initial state.\n'
        "  initial_state  {'c': 'm'}\n"
        "It always starts from zeros. The same unit with an initial state:\n"
        '    "unit": "NativeLstm2"',
    ),
    "max_len_unit": (
        {"output": {"class": "rec", "unit": "lstm", "n_out": 3, "from": "data", "max_seq_len": 3}},
        ValueError,
        "Rec: max_seq_len without unroll.\n"
        "  unroll       False\n"
        "  max_seq_len  3\n"
        "The input determines how long a predefined unit runs.\n"
        "    rf.Rec(..., unroll=True)",
    ),
    "last_n_out": (
        {
            "e": {"class": "rec", "unit": "lstm", "n_out": 3, "from": "data"},
            "output": {"class": "get_last_hidden_state", "from": "e", "n_out": 4},
        },
        ValueError,
        "last_hidden_state: another size.\n"
        "  result  [batch=2, 2*e:feature=6], size 6\n"
        "  n_out   4\n"
        "With key '*' and combine 'concat' the states give 6 features.\n"
        "    n_out=6",
    ),
    "last_key": (
        {
            "e": {"class": "rec", "unit": "gru", "n_out": 3, "from": "data"},
            "output": {"class": "get_last_hidden_state", "from": "e", "key": "c", "n_out": 3},
        },
        MissingKeyError,
        'last_hidden_state: no part "c".\n'
        "  h  [batch=2, e:feature=3]\n"
        "A name is that of a part of the state.\n"
        '    key="*"',
    ),
    "last_none": (
        {"output": {"class": "get_last_hidden_state", "from": "e", "n_out": 3}, "e": COPY},
        ValueError,
        'Layer "output" of class "get_last_hidden_state": "e" has no state.\n'
        "  with a state  none\n"
        "Only recurrent layers have a state.",
    ),
    "choice_sources": (
        loop_of({"output": {"class": "choice", "from": ["a", "b"], "target": "classes", "beam_size": 2}}),
        ValueError,
        'Layer "output/rec/output" of class "choice": 2 sources, 1 targets.\n'
        "  from    a, b\n"
        "  target  'classes'\n"
        "Each source needs one target.",
    ),
    "choice_type": (
        loop_of(
            {"output": {"class": "choice", "from": "a", "target": "classes", "beam_size": 2, "input_type": "probs"}}
        ),
        ValueError,
        'Layer "output/rec/output" of class "choice": unknown input_type.\n'
        "  input_type  'probs'\n"
        "  known       prob, logits, log_prob, regression\n"
        "input_type states the kind of the scores.",
    ),
    "choice_cheat": (
        loop_of({"output": {"class": "choice", "from": "a", "target": "classes", "beam_size": 2, "cheating": "yes"}}),
        ValueError,
        'Layer "output/rec/output" of class "choice": unknown value of cheating.\n'
        "  cheating  'yes'\n"
        '  known     False, True, "exclusive"\n'
        "cheating adds the target to the beam.",
    ),
    "choice_reg": (
        loop_of(
            {
                "output": {
                    "class": "choice",
                    "from": "a",
                    "target": "classes",
                    "beam_size": 2,
                    "input_type": "regression",
                }
            }
        ),
        ValueError,
        'Layer "output/rec/output" of class "choice": regression with a beam.\n'
        "  beam_size  2\n"
        "There are no labels to choose from.\n"
        '    "beam_size": 1',
    ),
    "choice_target": (
        loop_of({"output": {"class": "choice", "from": "data", "beam_size": 2, "initial_output": 0}}),
        ValueError,
        'Layer "output/rec/output" of class "choice": target is missing.\n'
        "  target  None\n"
        "  search  False\n"
        "Outside a search, a choice returns the labels of the target.\n"
        '    "output": {..., "target": "classes"}',
    ),
    "scores": (
        loop_of(
            {"output": {"class": "choice", "from": "data", "target": "classes", "beam_size": 2}},
            **{"from": [], "target": "classes"},
        )
        | {"s": {"class": "choice_get_beam_scores", "from": "output", "is_output_layer": True}},
        ValueError,
        'Layer "s" of class "choice_get_beam_scores": there are no search choices.\n'
        "  from  output\n"
        "Only values that depend on choices of a search have a beam.\n"
        "    net(data, search=True)",
    ),
    "att_size": (
        {
            "q": {"class": "linear", "n_out": 3, "from": "m"},
            "m": MEAN,
            "output": {"class": "dot_attention", "base": "data", "base_ctx": "data", "from": "q"},
        },
        ValueError,
        'Layer "output" of class "dot_attention": query and base_ctx have different features.\n'
        "  query     [batch=2, q:feature=3]\n"
        "  base_ctx  [batch=2, time<=2, data:feature=4]\n"
        "The energy is a product over the features, so both have the same number of them.",
    ),
    "att_n_out": (
        {
            "q": {"class": "linear", "n_out": 4, "from": "m"},
            "m": MEAN,
            "output": {"class": "dot_attention", "base": "data", "base_ctx": "data", "from": "q", "n_out": 5},
        },
        ValueError,
        'Layer "output" of class "dot_attention": n_out differs from the number of features of base.\n'
        "  n_out  5\n"
        "  base   [batch=2, time<=2, data:feature=4], 4 features\n"
        "The result is a weighted sum of the frames of base.\n"
        '    "n_out": 4',
    ),
    "gen_from": (
        {"output": {"class": "generic_attention", "base": "data", "weights": "data", "from": "data"}},
        ValueError,
        'Layer "output" of class "generic_attention": "from" is not allowed.\n'
        "  from  data\n"
        'The layer only reads "weights" and "base".\n'
        '    "output": {"class": "generic_attention", "weights": ..., "base": ...}',
    ),
    "heads": (
        {"output": {"class": "self_attention", "num_heads": 3, "total_key_dim": 6, "n_out": 4, "from": "data"}},
        ValueError,
        'Layer "output" of class "self_attention": num_heads does not divide the number of features.\n'
        "  num_heads      3\n"
        "  total_key_dim  6\n"
        "  n_out          4\n"
        "All heads have the same number of features.",
    ),
    "left_only": (
        loop_of(
            {
                "output": {
                    "class": "self_attention",
                    "num_heads": 2,
                    "total_key_dim": 6,
                    "n_out": 4,
                    "from": "data:source",
                }
            }
        ),
        ValueError,
        'Layer "output/rec/output" of class "self_attention": attention_left_only is required in a loop.\n'
        "  source  [batch=2, data:feature=4]\n"
        "A step cannot attend to later steps.\n"
        '    "attention_left_only": True',
    ),
    "cum": (
        {"output": {"class": "cum_concat", "from": "data", "out_spatial_dim": "<dim h:None>"}},
        RuntimeError,
        'Layer "output" of class "cum_concat": this class only works inside a loop.\n'
        "  source  [batch=2, time<=2, data:feature=4]\n"
        "The layer collects the frames of all steps of a loop.\n"
        '    "loop": {"class": "rec", "unit": {"output": ...}}',
    ),
    "mask_bool": (
        {
            "mk": {"class": "reduce", "mode": "sum", "axis": "F", "from": "data"},
            "output": {"class": "masked_computation", "mask": "mk", "unit": COPY},
        },
        ValueError,
        'Layer "output" of class "masked_computation": the mask is not bool.\n'
        "  mask  [batch=2, time<=2] float32\n"
        "The mask is True for the frames to compute.\n"
        '    "mask": {"class": "compare", ...}',
    ),
    "mask_dims": (
        {
            "s": {"class": "reduce", "mode": "sum", "axis": "F", "from": "data"},
            "mk": {"class": "compare", "kind": "greater", "from": "s", "value": 0.0},
            "output": {"class": "masked_computation", "mask": "mk", "unit": COPY},
        },
        ValueError,
        'Layer "output" of class "masked_computation": in_spatial_dim and out_spatial_dim are missing.\n'
        "  in_spatial_dim   None\n"
        "  out_spatial_dim  None\n"
        "  mask             [batch=2, time<=2]\n"
        "The frames of in_spatial_dim where the mask is True become those of out_spatial_dim.\n"
        '    "in_spatial_dim": time, "out_spatial_dim": Dim(None, name="packed")',
    ),
    "mask_init": (
        {"output": {"class": "masked_computation", "mask": "mk", "unit": COPY, "initial_output": 0}},
        ValueError,
        'Layer "output" of class "masked_computation": initial_output is not an option of this class.\n'
        "  initial_output  0\n"
        "The unit determines the initial value. Set it there:\n"
        '    "unit": {..., "initial_output": 0}',
    ),
    "history": (
        {
            "output": {
                "class": "self_attention",
                "num_heads": 1,
                "total_key_dim": 2,
                "n_out": 2,
                "from": "data",
                "attention_left_only": True,
                "state_var_lengths": "data",
            }
        },
        NotImplementedError,
        'Layer "output" of class "self_attention": state_var_lengths is not supported in the dict notation.\n'
        "  state_var_lengths  data\n"
        "In Python a state is an argument of the call:\n"
        "    rf.QKVSelfAttention(...)(source, axis=time, state=state)",
    ),
    "twod": (
        {"output": {"class": "twod_lstm", "n_out": 3, "from": "data"}},
        ValueError,
        'Layer "output" of class "twod_lstm": 1 sources.\n'
        "  from  data\n"
        "The layer runs over a grid: it needs two sources, for the x axis and for the y axis.\n"
        '    "from": ["encoder", "data:target"]',
    ),
    "rnn_time": (
        loop_of({"output": {"class": "rnn_cell", "unit": "gru", "n_out": 3, "from": "base:data"}}),
        rf.DimError,
        'Layer "output/rec/output" of class "rnn_cell": the source of a step has a time dim.\n'
        "  source  [batch=2, time<=2, data:feature=4]\n"
        "In a loop, a cell computes one step from one frame.\n"
        '    "output": {..., "from": "data:source"}',
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_message(name):
    network, kind, text = CASES[name]
    with pytest.raises(kind) as error:
        run(rf.net_from_dict(network, EXTERN))
    assert error.value.args[0] == text
