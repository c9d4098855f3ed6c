"""Errors of loops in dict notation: whole messages."""

from __future__ import annotations

from typing import Any

import pytest
from dict_nets import COPY, EXTERN, MEAN, loop_of, run

import rfnb as rf

CASES: dict[str, tuple[Any, type[Exception], str]] = {
    "cycle": (
        loop_of(
            {
                "a": {"class": "copy", "from": "b"},
                "b": {"class": "copy", "from": "a"},
                "output": {"class": "copy", "from": "a"},
            }
        ),
        ValueError,
        'Layer "output/rec/a" depends on itself.\n'
        "  cycle  a <- b <- a\n"
        "The layers of a step cannot depend on each other in a circle. To read the value of the previous step:\n"
        '    "prev:a"',
    ),
    "direction": (
        loop_of({"output": COPY}, direction=2),
        ValueError,
        'Layer "output" of class "rec": unknown direction.\n'
        "  direction  2\n"
        "  known      None or 1 forward, -1 backward\n"
        "A loop runs forward from the first frame, or backward from the last one.",
    ),
    "length": (
        loop_of({"output": {"class": "linear", "n_out": 2, "from": "base:m"}}, **{"from": []}) | {"m": MEAN},
        ValueError,
        'Layer "output" of class "rec": the number of steps is unknown.\n'
        "  axis             none\n"
        "  input with time  none\n"
        "  target           None\n"
        "  end in the body  none\n"
        "The axis, the input, the target, or an end in the body determines the length of a loop.\n"
        '    "output": {"class": "rec", "from": "data", ...}',
    ),
    "end_limit": (
        loop_of(
            {
                "output": {"class": "linear", "n_out": 2, "from": "base:m"},
                "end": {"class": "compare", "from": ":i", "value": 3},
            },
            **{"from": []},
        )
        | {"m": MEAN},
        ValueError,
        'Layer "output" of class "rec": "end" requires max_seq_len.\n'
        "  end          checked in each step\n"
        "  max_seq_len  None\n"
        'max_seq_len limits a loop whose "end" never becomes true.\n'
        '    "output": {"class": "rec", "max_seq_len": 50, ...}',
    ),
    "end_dims": (
        loop_of(
            {
                "output": {"class": "linear", "n_out": 2, "from": "base:m"},
                "end": {"class": "compare", "from": "output", "kind": "less", "value": 3},
            },
            **{"from": [], "max_seq_len": 3},
        )
        | {"m": MEAN},
        ValueError,
        'Layer "output" of class "rec": "end" is not a condition.\n'
        "  end     ['batch=3', 'output:feature=2'] bool\n"
        "  needed  [batch] bool, with a beam in a search\n"
        '"end" states for each sequence whether it has ended.\n'
        '    "end": {"class": "compare", "from": "output", "kind": "equal", "value": 0}',
    ),
    "end_dtype": (
        loop_of(
            {
                "output": {"class": "linear", "n_out": 2, "from": "base:m"},
                "end": {"class": "reduce", "mode": "sum", "axis": "F", "from": "output"},
            },
            **{"from": [], "max_seq_len": 3},
        )
        | {"m": MEAN},
        TypeError,
        'Layer "output" of class "rec": "end" is not a condition.\n'
        "  end     ['batch=3'] float32\n"
        "  needed  [batch] bool, with a beam in a search\n"
        '"end" states for each sequence whether it has ended.\n'
        '    "end": {"class": "compare", "from": "output", "kind": "equal", "value": 0}',
    ),
    "two_limits": (
        loop_of(
            {
                "output": {"class": "linear", "n_out": 2, "from": "base:m"},
                "end": {"class": "compare", "from": ":i", "value": 3},
            },
            **{"from": [], "max_seq_len": 3, "max_seq_len_via": "l"},
        )
        | {"m": MEAN, "l": {"class": "constant", "value": 2}},
        ValueError,
        'Layer "output" of class "rec": two limits are given.\n'
        "  max_seq_len      3\n"
        "  max_seq_len_via  'l'\n"
        "Give only one of them.",
    ),
    "limit_text": (
        loop_of(
            {
                "output": {"class": "linear", "n_out": 2, "from": "base:m"},
                "end": {"class": "compare", "from": ":i", "value": 3},
            },
            **{"from": [], "max_seq_len": "max_len('base:data')"},
        )
        | {"m": MEAN},
        ValueError,
        'Layer "output" of class "rec", max_seq_len: unknown name max_len.\n'
        "  text   \"max_len('base:data')\"\n"
        "  known  max_len_from, max\n"
        "Expressions are parsed, not executed; they may use these names.",
    ),
    "other_lengths": (
        loop_of(
            {
                "e": {"class": "linear", "n_out": 4, "from": "data:classes"},
                "output": {"class": "combine", "kind": "add", "from": ["e", "data:source"]},
            }
        ),
        ValueError,
        'Loop "output": "data:classes" and the loop have different lengths.\n'
        "  data:classes  classes:time<=5: 5, 2, 4\n"
        "  loop          time<=7: 7, 5, 3\n"
        "A loop that reads a value frame by frame needs one frame per step. To read all frames in each step:\n"
        '    "base:data:classes"',
    ),
    "sparse_prev": (
        loop_of(
            {
                "l": {"class": "choice", "target": "classes", "from": "p", "beam_size": 2},
                "p": {"class": "softmax", "n_out": 6, "from": "e"},
                "e": {"class": "linear", "n_out": 3, "from": "prev:l"},
                "output": {"class": "copy", "from": "p"},
            },
            **{"from": [], "target": "classes"},
        ),
        ValueError,
        'Layer "output/rec/l": its labels have no initial value.\n'
        "  layer    [batch=2], sparse over classes:labels=6\n"
        '  read as  "prev:l"\n'
        "The label before the first step must be given.\n"
        '    "l": {..., "initial_output": 0}',
    ),
    "init_of_cell": (
        loop_of(
            {
                "s": {"class": "rnn_cell", "unit": "gru", "n_out": 3, "from": "data:source", "initial_output": 1},
                "output": {"class": "copy", "from": ["s", "prev:s"]},
            }
        ),
        ValueError,
        'Layer "output/rec/s" of class "rnn_cell": a layer with a state takes no initial_output.\n'
        "  initial_output  1\n"
        "Its previous output is part of its state, so the initial state determines it.\n"
        '    "s": {..., "initial_state": "zeros"}',
    ),
    "init_kind": (
        loop_of(
            {
                "s": {"class": "linear", "n_out": 3, "from": "data:source", "initial_output": [1]},
                "output": {"class": "copy", "from": ["s", "prev:s"]},
            }
        ),
        ValueError,
        'Layer "output/rec/s" of class "linear": unknown initial_output.\n'
        "  initial_output  [1]\n"
        '  known           a number, "zeros", "ones", "var", "apply(0)", a layer\n'
        "initial_output is the value before the first step.",
    ),
    "state_of_net": (
        loop_of({"output": COPY}, initial_state="zeros"),
        ValueError,
        'Layer "output" of class "rec": initial_state is not allowed with a step network.\n'
        "  initial_state  'zeros'\n"
        "  unit           a network\n"
        "The option is for units given by name. In a network, its layers have an initial_output.",
    ),
    "no_output": (
        loop_of({"out": COPY}),
        ValueError,
        'Layer "output" of class "rec": its unit has no layer "output".\n'
        "  layers  out\n"
        'The layer "output" provides the output of the loop.\n'
        '    "unit": {..., "output": {"class": "copy", "from": "h"}}',
    ),
    "need_last": (
        loop_of({"output": COPY})
        | {
            "l": {
                "class": "rec_last_output",
                "rec_layer": "output",
                "sub_layer_name": "output",
                "is_output_layer": True,
            }
        },
        ValueError,
        'Layer "l" of class "rec_last_output": the last frame of "output/output" is not collected.\n'
        "  kept  none\n"
        "A loop only keeps the last frames that its layers need.\n"
        '    "output": {..., "need_last": True}',
    ),
    "no_source": (
        loop_of(
            {"output": {"class": "linear", "n_out": 3, "from": "data:source"}}, **{"from": [], "target": "classes"}
        ),
        ValueError,
        'Loop "output" has no input.\n'
        "  asked for  data:source\n"
        "data:source is the current frame of the input of the loop.\n"
        '    "output": {"class": "rec", "from": "data", ...}',
    ),
    "unstack": (
        loop_of(
            {
                "output": {"class": "rec_unstack", "from": "base:data"},
                "end": {"class": "compare", "from": ":i", "value": 3},
            },
            **{"from": [], "max_seq_len": 3},
        ),
        ValueError,
        'Layer "output/rec/output" of class "rec_unstack": the dim of the loop is unknown.\n'
        "  source  [batch=2, time<=2, data:feature=4]\n"
        "  axis    none\n"
        "A loop without a dim takes the dim of an unstack layer that declares it.\n"
        '    "output": {..., "axis": time, "declare_rec_time": True}',
    ),
    "unstack_other": (
        loop_of({"output": {"class": "rec_unstack", "from": "base:data", "axis": "T"}}, **{"from": "data:classes"}),
        rf.DimError,
        'Layer "output/rec/output" of class "rec_unstack": its dim differs from that of the loop.\n'
        "  axis  time<=2\n"
        "  loop  classes:time<=2\n"
        "All inputs of a loop share its dim.",
    ),
    "not_kept": (
        loop_of({"h": COPY, "output": COPY}),
        ValueError,
        'Layer "output" of class "rec": "h" is not collected.\n'
        "  kept  output\n"
        "Only output layers of the unit are collected over the steps.\n"
        '    "h": {..., "is_output_layer": True}',
    ),
    "unknown_dims": (
        loop_of({"a": {"class": "copy", "from": "prev:a"}, "output": {"class": "copy", "from": "a"}}),
        ValueError,
        'Loop "output": the dims of a, output are unknown.\n'
        "  known  none\n"
        "These layers depend only on their own previous values.\n"
        '    "a": {..., "n_out": 512}',
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_message(name):
    network, kind, text = CASES[name]
    with pytest.raises(kind) as error:
        run(rf.net_from_dict(network, EXTERN), outputs=["output/h"] if name == "not_kept" else None)
    assert error.value.args[0] == text
