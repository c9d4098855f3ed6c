"""Errors of networks in dict notation: names, options, expressions, inputs and parameters; whole messages."""

from __future__ import annotations

from typing import Any

import pytest
from dict_nets import COPY, EXTERN, run

import rfnb as rf
from rfnb.interop.net.layer import registry

CASES: dict[str, tuple[Any, type[Exception], str]] = {
    "unknown_option": (
        {"output": {"class": "linear", "from": "data", "n_out": 3, "activatoin": "tanh"}},
        ValueError,
        'Layer "output" of class "linear": unknown option.\n'
        "  given  activatoin\n"
        "  known  activation, with_bias, forward_weights_init, bias_init, use_transposed_weights, "
        "safe_embedding, class, from, n_out, out_dim, in_dim, is_output_layer, need_last, "
        "initial_output, target, size_target, dropout, trainable, name_scope\n"
        "The class has these options.\n"
        '    "activation": ...',
    ),
    "unknown_layer": (
        {"encoder": COPY, "output": {"class": "copy", "from": "encodr"}},
        ValueError,
        'There is no layer "encodr" in the network.\n'
        "  near   encoder\n"
        "  known  encoder, output, data:data, data:classes\n"
        'A layer reads layers of its own network; "base:" reads from the network around a loop, "prev:" from the previous step.\n'
        '    {"from": "encoder"}',
    ),
    "unknown_activation": (
        {"output": {"class": "activation", "from": "data", "activation": "tahn"}},
        ValueError,
        'Layer "output" of class "activation": unknown activation "tahn".\n'
        "  activation  'tahn'\n"
        "  known       tanh\n"
        'An activation is a name, names joined by "|" or composed as in "log(softmax)", or "2.0 * sigmoid".',
    ),
    "unknown_kind": (
        {"output": {"class": "combine", "kind": "plus", "from": ["data", "data"]}},
        ValueError,
        'Layer "output" of class "combine": unknown kind.\n'
        "  kind   'plus'\n"
        "  known  add, average, div, eval, floordiv, logical_and, logical_or, max, maximum, min, "
        "minimum, mod, mul, pow, squared_difference, sub, truediv\n"
        "kind determines how the sources are combined.",
    ),
    "eval_name": (
        {"output": {"class": "eval", "from": "data", "eval": '__import__("os").system("ls")'}},
        ValueError,
        'Layer "output" of class "eval": unknown name __import__.\n'
        '  text   \'__import__("os").system("ls")\'\n'
        "  known  math, source, tf\n"
        "Expressions are parsed, not executed; they may use these names.",
    ),
    "eval_attr": (
        {"output": {"class": "eval", "from": "data", "eval": "source(0).__class__"}},
        ValueError,
        'Layer "output" of class "eval": source(0).__class__ is not supported.\n'
        "  text  'source(0).__class__'\n"
        "Expressions are parsed, not executed: they consist of numbers, operators, comparisons, and calls of known "
        "functions.",
    ),
    "eval_source": (
        {"output": {"class": "eval", "from": "data", "eval": "source(1)"}},
        ValueError,
        'Layer "output" of class "eval": there is no source(1).\n'
        "  text  'source(1)'\n"
        "  from  data\n"
        "source(i) is the source with index i, counted from 0.",
    ),
    "eval_lambda": (
        {"output": {"class": "eval", "from": "data", "eval": "(lambda: 1)()"}},
        ValueError,
        'Layer "output" of class "eval": lambda: 1 is not supported.\n'
        "  text  '(lambda: 1)()'\n"
        "Expressions are parsed, not executed: they consist of numbers, operators, comparisons, and calls of known "
        "functions.",
    ),
    "prev_out": (
        {"output": {"class": "copy", "from": "prev:data"}},
        ValueError,
        '"prev:data" is used outside a loop.\n  network  the whole\nOnly a step of a loop has a previous step.',
    ),
    "base_out": (
        {"output": {"class": "copy", "from": "base:data"}},
        ValueError,
        '"base:data": there is no network around this one.\n'
        "  network  the whole\n"
        '"base:" reads from the network around a loop or a subnetwork.',
    ),
    "step_out": (
        {"output": {"class": "copy", "from": ":i"}},
        ValueError,
        '":i" is used outside a loop.\n  network  the whole\n":i" is the index of a step of a loop.',
    ),
    "n_out_missing": (
        {"output": {"class": "linear", "from": "data"}},
        ValueError,
        'Layer "output" of class "linear": the number of features is unknown.\n'
        "  n_out   None\n"
        "  target  None\n"
        "n_out, out_dim or the labels of the target determine it.\n"
        '    "output": {..., "n_out": 512}',
    ),
    "nothing": (
        {"a": COPY},
        ValueError,
        "The network has no output.\n"
        "  layers  a\n"
        'The outputs are the layer "output", or all layers with is_output_layer.\n'
        '    "encoder": {..., "is_output_layer": True}',
    ),
    "subpart": (
        {"e": COPY, "output": {"class": "copy", "from": "e/x"}},
        ValueError,
        'Layer "e" of class "copy" has no part "x".\n  asked for  e/x\nOnly loops and choices have parts.',
    ),
    "dim_two": (
        {"output": {"class": "linear", "from": "data", "n_out": 3, "out_dim": "<dim o:4>"}},
        ValueError,
        'Layer "output" of class "linear": n_out differs from the size of out_dim.\n'
        "  n_out    3\n"
        "  out_dim  o=4\n"
        "Both state the number of features.",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_message(name):
    network, kind, text = CASES[name]
    with pytest.raises(kind) as error:
        run(rf.net_from_dict(network, EXTERN))
    assert error.value.args[0] == text


def test_an_unknown_class_lists_what_is_known():
    with pytest.raises(ValueError) as error:
        rf.net_from_dict({"output": {"class": "linaer", "from": "data"}}, EXTERN)
    assert str(error.value) == (
        "Layer \"output\": unknown class 'linaer'.\n"
        "  near   linear, slice, gather\n"
        f"  known  {', '.join(sorted(registry))}\n"
        "A layer is a dict with one of these classes.\n"
        '    {"class": "linear"}'
    )


def test_a_message_of_a_module_says_in_which_layer():
    with pytest.raises(ValueError) as error:
        rf.net_from_dict({"output": {"class": "rec", "unit": "lstmx", "n_out": 3, "from": "data"}}, EXTERN)
    assert error.value.__notes__ == ['in Layer "output" of class "rec"']


NET = {"output": {"class": "linear", "n_out": 3, "from": "data", "activation": None}}


def test_parameters_that_are_missing_or_unexpected_are_listed():
    net = rf.net_from_dict(NET, EXTERN)
    before = net.parameters_by_path()["output/b"].numpy()
    with pytest.raises(ValueError) as error:
        net.set_parameters({"output/b": before + 1, "outputs/W": before, "x": before})
    assert str(error.value) == (
        "The parameters do not match the network.\n"
        "  missing     output/W [data:feature=4, output:feature=3]\n"
        "  unexpected  outputs/W, near output/W\n"
        "  unexpected  x\n"
        "Each parameter that the outputs depend on needs a value, given by its path.\n"
        "    net.parameters_by_path()"
    )
    assert net.parameters_by_path()["output/b"].numpy().tolist() == before.tolist()


def test_parameters_of_other_shapes_are_listed():
    net = rf.net_from_dict(NET, EXTERN)
    bias = net.parameters_by_path()["output/b"].numpy()
    with pytest.raises(rf.ShapeError) as error:
        net.set_parameters({"output/W": bias, "output/b": bias})
    assert str(error.value) == (
        "Parameters have the wrong shapes.\n"
        "  output/W  (3,), needed [data:feature=4, output:feature=3]\n"
        "Kernels have the shape (in, out)."
    )


def _call(data, **options):
    net = rf.net_from_dict(NET, {**EXTERN, "unused": {"dim": 2}})
    return net(data, **options)


def test_inputs():
    x = [[[0.0] * 4] * 2] * 3
    with pytest.raises(ValueError) as error:
        _call({})
    assert str(error.value) == (
        'The network needs the input "data".\n'
        "  given  nothing\n"
        "Each input that a layer uses must be given.\n"
        '    net({"data": (array, lengths), ...})'
    )
    with pytest.raises(ValueError) as error:
        _call({"dta": x})
    assert str(error.value) == (
        "The network got an input that it does not declare.\n"
        "  given     dta\n"
        "  declared  data, classes, unused\n"
        "extern_data declares the inputs by name."
    )
    with pytest.raises(ValueError) as error:
        _call({"data": x})
    assert str(error.value) == (
        'Input "data": the lengths of time are missing.\n'
        "  array  (3, 2, 4)\n"
        "They determine which frames of each sequence are real.\n"
        '    net({"data": (array, lengths), ...})'
    )
    with pytest.raises(rf.ShapeError) as error:
        _call({"data": (x, [3, 1, 2])})
    assert str(error.value) == (
        'Input "data": the array does not match its declaration.\n'
        "  array   (3, 2, 4)\n"
        "  needed  (batch=3, time<=3, data:feature=4)\n"
        "The axes of an array are in the order of extern_data, batch first."
    )


def test_extern_data_and_loop_forms():
    with pytest.raises(ValueError) as error:
        rf.net_from_dict(NET, {"data": {"dimension": 4}})
    assert str(error.value) == (
        'extern_data "data": unknown option.\n'
        "  given  dimension\n"
        "  known  dim, shape, sparse, dtype, dim_tags, dims, sparse_dim, feature_dim, time_dim_axis, batch_dim_axis,"
        " feature_dim_axis, same_dim_tags_as, available_for_inference, vocab, name\n"
        "extern_data accepts these options.\n"
        '    extern_data = {"data": {"dim": 40}}'
    )
    with pytest.raises(ValueError) as error:
        rf.net_from_dict(NET, EXTERN, loop="while")
    assert str(error.value) == (
        "net_from_dict: unknown value of loops.\n"
        "  loop   'while'\n"
        '  known  "with", "for"\n'
        "The option loops determines how loops run.\n"
        '    loop="for"'
    )
