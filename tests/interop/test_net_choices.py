"""Choices in the dict notation under other names and in other places: the hypotheses of golden data all the same; what cannot be."""

from __future__ import annotations

import copy

import numpy as np
import pytest
from golden_nets import GoldenNet

import rfnb as rf

LOOPS = pytest.mark.parametrize("loop", ["for", "with"])
GOLDEN = GoldenNet("search_basic")


def parts():
    """The golden network, and the body of its loop."""
    net = copy.deepcopy(GOLDEN.meta["net"])
    return net, net["output"]["unit"]


def run(net, *, loop="with", search=True, rename=None, outputs=None, golden=GOLDEN):
    """The outputs with the golden parameters, `rename`: path -> path in the golden data."""
    made = rf.net_from_dict(net, golden.meta["extern_data"], search=search, loop=loop)
    params = golden.params
    own = made.parameters_by_path()
    made.set_parameters({path: params[(rename or {}).get(path, path)] for path in own})
    return made(golden.part("in"), lengths=golden.part("in_len"), outputs=outputs)


def rows(value):
    """[sequence][hypothesis] -> values up to the length."""
    batch, beam = (next(dim for dim in value.dims if dim.kind == kind) for kind in ("batch", "beam"))
    (time,) = (dim for dim in value.dims if dim not in (batch, beam))
    values = value.copy_transpose([batch, beam, time]).numpy()
    lengths = time.get_size_tensor().copy_transpose([batch, beam]).numpy()
    return [[tuple(row[:count].tolist()) for row, count in zip(*pair)] for pair in zip(values, lengths)]


def decided(value):
    time = next(dim for dim in value.dims if dim.lengths is not None)
    batch = next(dim for dim in value.dims if dim is not time)
    values = value.copy_transpose([batch, time]).numpy()
    return [tuple(row[:count].tolist()) for row, count in zip(values, time.lengths)]


EXPECTED = [
    [tuple(row[:count].tolist()) for row, count in zip(*pair)]
    for pair in zip(
        GOLDEN.arrays["out/output"].reshape(3, 3, -1), GOLDEN.arrays["out_len/output/1"].reshape(3, 3), strict=True
    )
]


@LOOPS
def test_a_choice_under_another_name(loop):
    net, body = parts()
    body["label"] = body.pop("output")
    body["output"] = {"class": "copy", "from": "label"}
    body["emb"]["from"], body["end"]["from"] = "prev:label", "label"
    assert rows(run(net, loop=loop)["output"]) == EXPECTED


@LOOPS
def test_the_layers_in_another_order(loop):
    net, body = parts()
    net["output"]["unit"] = dict(reversed(body.items()))
    assert rows(run(dict(reversed(net.items())), loop=loop)["output"]) == EXPECTED


@LOOPS
def test_a_choice_in_a_subnetwork(loop):
    net, body = parts()
    choice = {**body["output"], "from": "p"}
    softmax = {**body.pop("p"), "from": "data"}
    body["sub"] = {
        "class": "subnetwork",
        "from": "s",
        "initial_output": 1,
        "subnetwork": {"p": softmax, "output": choice},
    }
    body["output"], body["emb"]["from"] = {"class": "copy", "from": "sub"}, "prev:sub"
    rename = {f"output/rec/sub/p/{name}": f"output/rec/p/{name}" for name in "Wb"}
    assert rows(run(net, loop=loop, rename=rename)["output"]) == EXPECTED


@LOOPS
@pytest.mark.parametrize("source", ["data", "base:output"])
def test_decide_in_a_subnetwork(loop, source):
    net, _ = parts()
    inner = {"best": {"class": "decide", "from": source}, "output": {"class": "copy", "from": "best"}}
    net["sub"] = {"class": "subnetwork", "from": "output" if source == "data" else [], "subnetwork": inner}
    out = run(net, loop=loop, outputs=["sub", "decision"])
    assert decided(out["sub"]) == decided(out["decision"])


@LOOPS
def test_two_loops_that_search(loop):
    net, _ = parts()
    net["second"] = copy.deepcopy(net["output"])
    net["best"] = {"class": "decide", "from": "second"}
    same = lambda path: path.replace("second/", "output/")  # noqa: E731
    rename = {same(path).replace("output/", "second/", 1): path for path in GOLDEN.params if path.startswith("output/")}
    out = run(net, loop=loop, rename=rename, outputs=["output", "second", "decision", "best"])
    assert rows(out["output"]) == rows(out["second"]) == EXPECTED
    assert decided(out["best"]) == decided(out["decision"])


@LOOPS
def test_scores_in_the_loop_are_those_up_to_each_step(loop):
    net, body = parts()
    body["sum"] = {"class": "choice_get_beam_scores", "from": "output", "is_output_layer": True}
    out = run(net, loop=loop, outputs=["output/sum", "scores"])
    for seq, (of_steps, last) in enumerate(zip(rows(out["output/sum"]), out["scores"].numpy())):
        for sums, labels, score in zip(of_steps, EXPECTED[seq], last):
            assert list(sums) == sorted(sums, reverse=True) and len(sums) == len(labels)
            if sums:  # the end costs something too, unless the limit was first
                assert score == pytest.approx(sums[-1], abs=1e-5) if len(sums) == 7 else score < sums[-1]


@LOOPS
@pytest.mark.parametrize("first", [True, False])
def test_parents_and_scores_of_each_of_two_choices(loop, first):
    """In any order of the layers, a layer that reads the first choice does not get the beam of the second one."""
    golden = GoldenNet("search_two_choices")
    net = copy.deepcopy(golden.meta["net"])
    readers = {}
    for name in ("lab1", "output"):
        for kind in ("src_beams", "beam_scores"):
            readers[f"{name}_{kind}"] = {"class": f"choice_get_{kind}", "from": name}
            raw = {"class": "decide_keep_beam", "from": f"{name}_{kind}", "is_output_layer": True}
            readers[f"{name}_{kind}_raw"] = raw
    body = net["output"]["unit"]
    net["output"]["unit"] = {**readers, **body} if first else {**body, **readers}
    out = run(
        net, loop=loop, golden=golden, outputs=[f"output/{name}_raw" for name in readers if not name.endswith("raw")]
    )
    for key, value in out.items():
        name, kind = key.removeprefix("output/").split("_", 1)
        (batch,) = (dim for dim in value.dims if dim.kind == "batch")
        (slot,) = (dim for dim in value.dims if dim.name == "slot")
        (time,) = (dim for dim in value.dims if dim not in (batch, slot))
        array = "src_beam_idxs" if kind.startswith("src") else "scores"
        for step, got in enumerate(value.copy_transpose([time, batch, slot]).numpy()[:-1]):
            expected = golden.arrays[f"trace/{step}/{0 if name == 'lab1' else 1}/{array}"]
            np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-4)


def test_split_beams_have_the_lengths_over_the_plain_dim():
    net, _ = parts()
    net["split"] = {"class": "split_batch_beam", "from": "output", "beam_dim": "<dim hypothesis:3>"}
    split = run(net, outputs=["split"])["split"]
    batch, beam, time = split.dims
    assert beam.name == "hypothesis" and set(time.length_dims) == {batch, beam}
    lengths = time.get_size_tensor().copy_transpose([batch, beam]).numpy()
    assert (lengths.ravel() == GOLDEN.arrays["out_len/output/1"]).all()


@LOOPS
def test_search_may_be_on_in_training(loop):
    """It searches up to the length of the target."""
    net, body = parts()
    body["output"]["search"] = True
    out = run(net, loop=loop, search=False, outputs=["output", "scores"])
    net["output"]["size_target"] = "classes"
    expected = run(net, outputs=["output", "scores"])
    np.testing.assert_allclose(out["scores"].numpy(), expected["scores"].numpy())
    (time,) = (dim for dim in out["output"].dims if dim.kind not in ("batch", "beam"))
    assert time.lengths.tolist() == GOLDEN.arrays["in_len/classes"].tolist()


@LOOPS
def test_a_custom_combination_is_called_as_documented(loop):
    net, body = parts()
    seen = []

    def combine(layer, scores_in, scores_base, t, end_flags, batch_dim, scores_beam_in, base_beam_in):
        seen.append((layer.name, int(t), end_flags.dtype, len(end_flags.dims)))
        return 0.7 * scores_in + 0.9 * scores_base

    body["output"]["custom_score_combine"] = combine
    scales = GoldenNet("search_scales")
    out = run(net, loop=loop, golden=scales, outputs=["scores"])
    np.testing.assert_allclose(out["scores"].numpy(), scales.arrays["beam_scores/output"], rtol=1e-4, atol=1e-4)
    assert seen[:2] == [("output", 0, "bool", 1), ("output", 1, "bool", 2)]


def test_labels_have_the_names_of_those_of_the_target():
    net, _ = parts()
    classes = {"dim": 6, "sparse": True, "vocab": {"labels": list("$abcde")}}
    made = rf.net_from_dict(net, {**GOLDEN.meta["extern_data"], "classes": classes}, search=True)
    made.set_parameters(GOLDEN.params)
    with rf.record() as trace:
        out = made({"data": (GOLDEN.part("in")["data"], GOLDEN.part("in_len")["data"])}, outputs=["output"])
    text = rf.nbest(out["output"], join="")[0][0].text
    assert text == "".join("$abcde"[label] for label in EXPECTED[0][0])
    (history,) = trace.beams.values()
    assert history.labels == list("$abcde")


@LOOPS
def test_a_regression_is_its_source_in_a_search_and_its_target_in_training(loop):
    net, body = parts()
    body["value"] = linear("s", 4)
    body["output"] = {
        "class": "choice",
        "input_type": "regression",
        "beam_size": 1,
        "from": "value",
        "target": "frames",
    }
    body["emb"] = linear("prev:output", 4)
    limit = "tf.greater(source(0) + tf.cast(0 * source(1), 'int32'), 2)"
    body["end"] = {"class": "eval", "eval": limit, "from": [":i", "base:zero"]}  # over the batch
    net["zero"] = {"class": "reduce", "mode": "max", "axis": "F", "from": "ctx"}
    extern = {"data": {"dim": 4}, "frames": {"dim": 4}}
    net["output"].update(target="frames", is_output_layer=True)
    made = rf.net_from_dict({key: net[key] for key in ("lin", "ctx", "zero", "output")}, extern, loop=loop)
    frames = np.random.default_rng(0).standard_normal((3, 5, 4)).astype("float32")
    lengths = GOLDEN.part("in_len")["classes"]
    data = {"data": (GOLDEN.part("in")["data"], GOLDEN.part("in_len")["data"]), "frames": (frames, lengths)}
    trained, searched = made(data)["output"], made(data, search=True)["output"]
    (time,) = (dim for dim in trained.dims if dim.lengths is not None)
    order = [next(dim for dim in trained.dims if dim.kind == "batch"), time, trained.feature_dim]
    got = trained.copy_transpose(order).numpy()
    assert all((got[seq, :length] == frames[seq, :length]).all() for seq, length in enumerate(lengths))
    assert searched.feature_dim is not None and (np.abs(searched.numpy()) < 1).all()  # tanh


@LOOPS
def test_a_loop_without_steps_has_no_hypotheses(loop):
    net, _ = parts()
    net["output"]["max_seq_len"] = 0
    out = run(net, loop=loop)
    assert out["output"].dims[0].extent == out["decision"].dims[0].extent == 0
    assert out["scores"].numpy().tolist() == [0, 0, 0]


def linear(source, n_out, **options):
    return {"class": "linear", "activation": "tanh", "from": source, "n_out": n_out, **options}


@LOOPS
def test_a_search_in_each_step_of_a_loop(loop):
    """Gives for each frame what a search from this frame gives."""
    body = {
        "emb": linear("prev:output", 3),
        "s": linear(["prev:s", "emb", "base:x"], 4, need_last=True),
        "p": {"class": "softmax", "from": "s", "n_out": 6},
        "output": {"class": "choice", "target": "classes", "beam_size": 3, "from": "p", "initial_output": 1},
        "end": {"class": "compare", "kind": "equal", "from": "output", "value": 0},
    }
    search = {"class": "rec", "from": [], "max_seq_len": 4, "include_eos": True, "unit": body}
    last = {"class": "rec_last_output", "rec_layer": "search", "sub_layer_name": "s"}
    outer = {
        "x": linear("data:source", 4),
        "search": search,
        "last": last,
        "output": {"class": "decide", "from": "last"},
    }
    nested = {"output": {"class": "rec", "from": "data", "unit": outer}}
    flat = {**outer, "x": linear("data", 4)}
    classes = {"dim": 6, "sparse": True}
    in_loop = rf.net_from_dict(nested, {"data": {"dim": 4}, "classes": classes}, search=True, loop=loop)
    alone = rf.net_from_dict(
        flat, {"data": {"dim": 4, "time_dim_axis": None}, "classes": classes}, search=True, loop=loop
    )
    rng = np.random.default_rng(0)
    values = {path: rng.standard_normal(shape_of(x)) for path, x in alone.parameters_by_path().items()}
    alone.set_parameters(values)
    in_loop.set_parameters({f"output/rec/{path}": value for path, value in values.items()})
    frames, lengths = rng.standard_normal((2, 3, 4)).astype("float32"), np.array([3, 2])
    found = in_loop({"data": (frames, lengths)})["output"]
    expected = alone({"data": frames.reshape(6, 4)})["output"]
    (time,) = (dim for dim in found.dims if dim.lengths is not None)
    order = [next(dim for dim in found.dims if dim.kind == "batch"), time, found.feature_dim]
    rows = found.copy_transpose(order).numpy().reshape(6, 4)
    real = [0, 1, 2, 3, 4]
    np.testing.assert_allclose(rows[real], expected.numpy()[real], rtol=1e-4, atol=1e-5)


def shape_of(parameter):
    return [dim.extent for dim in parameter.dims]


# -- what cannot be ------------------------------------------------------------------------------------------------------------------

ERRORS = {
    "beam_size": (
        {"beam_size": None},
        'Layer "output/rec/output" of class "choice": beam_size is missing.\n'
        "  search  True\n"
        "beam_size is the number of hypotheses that a search keeps.\n"
        '    "output": {..., "beam_size": 12}',
    ),
    "cheating": (
        {"cheating": True, "target": None},
        'Layer "output/rec/output" of class "choice": cheating without a target.\n'
        "  from    p\n"
        "  target  None\n"
        "cheating adds the labels of the target to the beam, and needs a single source.\n"
        '    "output": {..., "target": "classes"}',
    ),
    "labels": (
        {"from": "s"},
        'Layer "output/rec/output" of class "choice": the labels of the scores differ from those of the target.\n'
        "  from    s  [batch=2, s:feature=5]\n"
        "  target  classes  classes:labels=6\n"
        "The scores need one entry per label of the target.\n"
        '    "s": {..., "n_out": 6}',
    ),
    "order": (
        {},
        'Layer "output" of class "rec": the order of two choices is undefined.\n'
        "  output  from p\n"
        "  other   from q\n"
        "A choice starts from the hypotheses of the one before it in the step, so one of them has to read the other.\n"
        '    "q": {..., "from": ["output", ...]}',
    ),
    "forced": (
        {"search": False, "length_normalization": True},
        "choice: add_to_beam_scores with length_normalization, noise, custom_score_combine or several sources.\n"
        "The score of a reference label is added as it is.\n"
        "    rf.choice(scores, target=labels, add_to_beam_scores=False)",
    ),
}


@pytest.mark.parametrize("name", ERRORS)
def test_message(name):
    options, text = ERRORS[name]
    net, body = parts()
    body["output"].update(options)
    if name == "order":
        body["q"] = {**body["p"], "n_out": 6}
        body["other"] = {**body["output"], "from": "q", "is_output_layer": True}
    with pytest.raises(ValueError) as error:
        run(net)
    assert error.value.args[0] == text
