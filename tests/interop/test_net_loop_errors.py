"""What a loop in the dict notation cannot be: whole messages."""

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
        'Layer "output/rec/a" needs itself.\n'
        "  cycle  a <- b <- a\n"
        "Within a step, layers need each other in an order. The value of the previous step is:\n"
        '    "prev:a"',
    ),
    "direction": (
        loop_of({"output": COPY}, direction=2),
        ValueError,
        'Layer "output" of class "rec": no direction.\n'
        "  direction  2\n"
        "  known      None or 1 forward, -1 backward\n"
        "A sequence is read from its first frame on, or from its last one back.",
    ),
    "length": (
        loop_of({"output": {"class": "linear", "n_out": 2, "from": "base:m"}}, **{"from": []}) | {"m": MEAN},
        ValueError,
        'Layer "output" of class "rec": how long does it run?\n'
        "  axis             none\n"
        "  input with time  none\n"
        "  target           None\n"
        "  end in the body  none\n"
        "The length of a loop comes from its axis, its input, its target, or an end in its body.\n"
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
        'Layer "output" of class "rec": end without max_seq_len.\n'
        "  end          decides in each step\n"
        "  max_seq_len  None\n"
        "A loop that never ends has to be cut somewhere.\n"
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
        'Layer "output" of class "rec": "end" is no condition.\n'
        "  end     ['batch=3', 'output:feature=2'] bool\n"
        "  needed  [batch] bool, with a beam in a search\n"
        "It says for each sequence whether it has ended.\n"
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
        'Layer "output" of class "rec": "end" is no condition.\n'
        "  end     ['batch=3'] float32\n"
        "  needed  [batch] bool, with a beam in a search\n"
        "It says for each sequence whether it has ended.\n"
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
        'Layer "output" of class "rec": two limits.\n'
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
        'Layer "output" of class "rec", max_seq_len: what is max_len?\n'
        "  text   \"max_len('base:data')\"\n"
        "  known  max_len_from, max\n"
        "The text is parsed, not executed; these names are known.",
    ),
    "other_lengths": (
        loop_of(
            {
                "e": {"class": "linear", "n_out": 4, "from": "data:classes"},
                "output": {"class": "combine", "kind": "add", "from": ["e", "data:source"]},
            }
        ),
        ValueError,
        'Loop "output": "data:classes" has other lengths than the loop.\n'
        "  data:classes  classes:time<=5: 5, 2, 4\n"
        "  loop          time<=7: 7, 5, 3\n"
        "A value that a loop reads frame by frame has a frame for each of its steps. All frames at once "
        "are:\n"
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
        'Layer "output/rec/l": no initial value of its labels.\n'
        "  layer    [batch=2], sparse over classes:labels=6\n"
        '  read as  "prev:l"\n'
        "The label before the first step cannot be guessed.\n"
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
        'Layer "output/rec/s" of class "rnn_cell": initial_output of a layer with a state.\n'
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
        "It is the value before the first step.",
    ),
    "state_of_net": (
        loop_of({"output": COPY}, initial_state="zeros"),
        ValueError,
        'Layer "output" of class "rec": initial_state with a step network.\n'
        "  initial_state  'zeros'\n"
        "  unit           a network\n"
        "This is for a unit by name. Values of the first step of a network are the initial_output "
        "of its layers.",
    ),
    "no_output": (
        loop_of({"out": COPY}),
        ValueError,
        'Layer "output" of class "rec": no "output" in its unit.\n'
        "  layers  out\n"
        "The value of the loop is that of the layer output.\n"
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
        'Layer "l" of class "rec_last_output": the last frame of "output/output" is not kept.\n'
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
        "data:source is the frame of its input.\n"
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
        'Layer "output/rec/output" of class "rec_unstack": the dim of the loop is not known.\n'
        "  source  [batch=2, time<=2, data:feature=4]\n"
        "  axis    none\n"
        "A loop without a dim takes that of an unstack which declares it.\n"
        '    "output": {..., "axis": time, "declare_rec_time": True}',
    ),
    "unstack_other": (
        loop_of({"output": {"class": "rec_unstack", "from": "base:data", "axis": "T"}}, **{"from": "data:classes"}),
        rf.DimError,
        'Layer "output/rec/output" of class "rec_unstack": another dim than that of the loop.\n'
        "  axis  time<=2\n"
        "  loop  classes:time<=2\n"
        "All inputs of a loop share its dim.",
    ),
    "not_kept": (
        loop_of({"h": COPY, "output": COPY}),
        ValueError,
        'Layer "output" of class "rec": "h" is not kept.\n'
        "  kept  output\n"
        "Only outputs of the body are collected over the steps.\n"
        '    "h": {..., "is_output_layer": True}',
    ),
    "unknown_dims": (
        loop_of({"a": {"class": "copy", "from": "prev:a"}, "output": {"class": "copy", "from": "a"}}),
        ValueError,
        'Loop "output": the dims of a, output are unknown.\n'
        "  known  none\n"
        "They depend on their own previous value only.\n"
        '    "a": {..., "n_out": 512}',
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_message(name):
    network, kind, text = CASES[name]
    with pytest.raises(kind) as error:
        run(rf.net_from_dict(network, EXTERN), outputs=["output/h"] if name == "not_kept" else None)
    assert error.value.args[0] == text
