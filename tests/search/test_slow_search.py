"""Searches agree in every step with a slow and simple one, written from the documentation (slow_search.py)."""

import json

import numpy as np
import pytest
from golden_nets import FOLDER, GoldenNet, names
from golden_search import IMPOSSIBLE, StepsCompared, check_output
from random_nets import SHAPES, random_net
from seed import part_of
from slow_search import LAYERS, SlowSearch

import rfnb as rf

FACES = pytest.mark.parametrize("face", ["for", "with"])
READERS = ("choice_get_src_beams", "choice_get_beam_scores", "decide_keep_beam")  # of values of one step


def known(name):
    """Whether the slow search has all layers of a network."""
    body = GoldenNet(name).meta["net"]["output"]["unit"].values()
    return {layer["class"] for layer in body} <= {*LAYERS, *READERS}


@pytest.mark.parametrize("name", [name for name in names(search=True) if known(name)])
def test_the_slow_search_is_that_of_the_reference(name):
    with np.load(FOLDER / f"{name}.npz") as file:
        arrays = {key: file[key] for key in file.files}
    part = lambda of: {  # noqa: E731
        key.removeprefix(f"{of}/"): value for key, value in arrays.items() if key.startswith(f"{of}/")
    }
    network = json.loads(str(arrays["meta"]))["net"]
    body = network["output"]["unit"]
    network["output"]["unit"] = {name: layer for name, layer in body.items() if layer["class"] not in READERS}
    found = SlowSearch(network, part("in"), part("in_len"), part("param")).arrays()
    assert {key for key in found if key.startswith("trace/")} == {key for key in arrays if key.startswith("trace/")}
    for key, value in found.items():
        if key in arrays and key != "out/decision":  # it is shorter there
            np.testing.assert_allclose(value, arrays[key], rtol=1e-4, atol=1e-4, err_msg=key)


@FACES
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("seed", part_of(range(30), 2))
def test_networks_search_as_the_slow_search(seed, shape, face):
    made = random_net(seed, shape)
    wanted = SlowSearch(made.network, made.inputs, made.lengths, made.parameters).arrays()
    net = rf.net_from_dict(made.network, made.extern_data, search=True, loop=face)
    net.set_parameters(made.parameters)
    names = [key.removeprefix("out/") for key in wanted if key.startswith("out/")]
    with StepsCompared(wanted):
        out = net(made.inputs, lengths=made.lengths, outputs=[name for name in names if not name.endswith("out_1")])
    for name, value in out.items():
        check_output(wanted, name, value)


def check_hypotheses(wanted, value, name):
    """Labels up to the length of each hypothesis, lengths and scores."""
    batch, beam = (next(dim for dim in value.dims if dim.kind == kind) for kind in ("batch", "beam"))
    time = next(dim for dim in value.dims if dim not in (batch, beam))
    scores = rf.get_beam_scores(value).copy_transpose([batch, beam]).numpy()
    expected = wanted["beam_scores/output"]
    real = expected > IMPOSSIBLE
    assert (np.isfinite(scores) == real).all()
    np.testing.assert_allclose(scores[real], expected[real], rtol=1e-4, atol=1e-4)
    sizes = time.get_size_tensor()
    sizes = sizes.numpy()[:, None] if beam not in sizes.dims else sizes.copy_transpose([batch, beam]).numpy()
    lengths = wanted[f"out_len/{name}/1"].reshape(expected.shape)
    assert (np.broadcast_to(sizes, lengths.shape)[real] == lengths[real]).all()
    got = value.copy_transpose([batch, beam, time]).numpy()
    rows = wanted[f"out/{name}"].reshape(*expected.shape, -1)
    for place in np.argwhere(real):
        length = lengths[tuple(place)]
        assert got[tuple(place)][:length].tolist() == rows[tuple(place)][:length].tolist()


def check_decision(wanted, value):
    """The best hypothesis of each sequence."""
    batch = next(dim for dim in value.dims if dim.kind == "batch")
    (time,) = (dim for dim in value.dims if dim is not batch)
    assert time.lengths.tolist() == wanted["out_len/decision/1"].tolist()
    for row, expected, length in zip(
        value.copy_transpose([batch, time]).numpy(), wanted["out/decision"], time.lengths, strict=True
    ):
        assert row[:length].tolist() == expected[:length].tolist()
