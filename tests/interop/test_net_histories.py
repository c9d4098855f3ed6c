"""Dims that grow from step to step in loops of the dict notation, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from dict_nets import FORMS, LENGTHS, built, inputs, loop_of, of_sequence, run, softmax, weights

in_all_forms = pytest.mark.parametrize("form", FORMS, ids=["for", "with", "with-in-loop"])
HISTORY = "<dim history:None>"
KEYS = {
    "k": {"class": "linear", "n_out": 3, "activation": None, "from": "data:source"},
    "keys": {"class": "cum_concat", "from": "k", "out_spatial_dim": HISTORY},
}


def _keys(w, index):
    return inputs()["data"][index, : LENGTHS["data"][index]] @ w["output/rec/k/W"] + w["output/rec/k/b"]


@in_all_forms
def test_frames_that_grow_are_collected_with_zeros_up_to_the_largest(form):
    unit = {
        **KEYS,
        "energy": {"class": "reduce", "mode": "sum", "axis": "F", "from": "keys"},
        "w": {"class": "softmax_over_spatial", "axis": HISTORY, "from": "energy", "is_output_layer": True},
        "output": {"class": "generic_attention", "weights": "w", "base": "keys"},
    }
    net = built(loop_of(unit), form=form)
    out, w = run(net), weights(net)
    (history,) = (dim for dim in out["output/w"].dims if dim.name == "history")
    assert history.size == 7
    for index in range(3):
        keys = _keys(w, index)
        steps = [softmax(keys[: step + 1].sum(-1)) for step in range(len(keys))]
        padded = np.array([np.pad(step, (0, 7 - len(step))) for step in steps])
        order = [dim for dim in out["output/w"].dims if dim.kind != "batch"]
        got = of_sequence(out["output/w"], index)
        np.testing.assert_allclose(got if order[0] is not history else got.T, padded, atol=1e-5)
        expected = [step @ keys[: len(step)] for step in steps]
        np.testing.assert_allclose(of_sequence(out["output"], index), expected, atol=1e-5)


@in_all_forms
def test_relative_positions_of_a_history(form):
    unit = {
        "rel": {
            "class": "relative_positional_encoding",
            "n_out": 3,
            "clipping": 2,
            "from": "data:source",
            "query_spatial_dim": None,
            "key_value_spatial_dim": HISTORY,
        },
        **KEYS,
        "both": {"class": "combine", "kind": "mul", "from": ["keys", "rel"]},
        "output": {"class": "reduce", "mode": "sum", "axis": HISTORY, "from": "both"},
    }
    net = built(loop_of(unit), form=form)
    out, w = run(net), weights(net)
    matrix = w["output/rec/rel/encoding_matrix"]
    for index in range(3):
        keys = _keys(w, index)
        rows = [matrix[np.clip(np.arange(step + 1) - step, -2, 2) + 2] for step in range(len(keys))]
        expected = [(row * keys[: len(row)]).sum(0) for row in rows]
        np.testing.assert_allclose(of_sequence(out["output"], index), expected, rtol=1e-4, atol=1e-5)


@in_all_forms
def test_labels_with_a_blank_in_the_table_of_edit_distances(form):
    """Row by row as the documented recursion; a blank changes nothing."""
    table = {"class": "edit_distance_table", "from": "data:source", "target": "reference", "blank_idx": 5}
    best = {
        "class": "optimal_completions",
        "from": "prev:table",
        "target": "reference",
        "blank_idx": 5,
        "is_output_layer": True,
    }
    unit = {"table": table, "best": best, "output": {"class": "copy", "from": "table"}}
    extern = {"classes": {"dim": 6, "sparse": True}, "reference": {"dim": 5, "sparse": True}}
    net = built({"output": {"class": "rec", "from": "data:classes", "unit": unit}}, form=form, extern=extern)
    labels, reference, lengths = (
        inputs()["classes"],
        np.array([[0, 3, 1], [4, 4, 2], [1, 2, 0]], "int32"),
        np.array([3, 2, 1]),
    )
    out = net({"classes": (labels, LENGTHS["classes"]), "reference": (reference, lengths)})

    def after(row, symbol, b):
        if symbol == 5:
            return row
        new = [row[0] + 1]
        for t in range(1, len(b) + 1):
            new.append(min(row[t] + 1, new[t - 1] + 1, row[t - 1] + int(symbol != b[t - 1])))
        return new

    for index in range(3):
        b = reference[index, : lengths[index]]
        row, rows, costs = list(range(len(b) + 1)), [], []
        for symbol in labels[index, : LENGTHS["classes"][index]]:
            costs.append([min(after(row, v, b)) for v in range(6)])
            row = after(row, symbol, b)
            rows.append(row)
        assert of_sequence(out["output"], index)[:, : len(b) + 1].tolist() == rows
        assert of_sequence(out["output/best"], index).tolist() == costs
